import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Git's own server on loopback with one repository: two commits, the first one tagged v1. */
export class GitServer {
  readonly url: string;
  readonly #daemon: ChildProcess;
  readonly #dir: string;

  private constructor(dir: string, port: number) {
    this.#dir = dir;
    this.url = `git://127.0.0.1:${port}/repo`;
    const args = [
      "daemon",
      "--reuseaddr",
      "--export-all",
      "--listen=127.0.0.1",
      `--port=${port}`,
      `--base-path=${dir}`,
      dir,
    ];
    // In a group of its own: the command starts the real server as a child.
    this.#daemon = spawn("git", args, { stdio: "ignore", detached: true });
  }

  static async start(): Promise<GitServer> {
    const dir = mkdtempSync(join(tmpdir(), "evd-git-"));
    const repo = join(dir, "repo");
    mkdirSync(repo);
    git(repo, "init", "-q", "-b", "main");
    writeFileSync(join(repo, "a.txt"), "one\n");
    git(repo, "add", ".");
    git(repo, "commit", "-q", "-m", "one");
    git(repo, "tag", "v1");
    writeFileSync(join(repo, "a.txt"), "two\n");
    git(repo, "commit", "-q", "-a", "-m", "two");
    const server = new GitServer(dir, await freePort());
    for (let tries = 0; tries < 100; tries++) {
      if (spawnSync("git", ["ls-remote", server.url]).status === 0) return server;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error("git daemon did not start");
  }

  stop(): void {
    if (this.#daemon.pid !== undefined) process.kill(-this.#daemon.pid, "SIGTERM");
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

function git(dir: string, ...args: string[]): void {
  const done = spawnSync("git", ["-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", ...args]);
  if (done.status !== 0) throw new Error(done.stderr.toString());
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() =>
        typeof address === "object" && address ? resolve(address.port) : reject(new Error("no port")),
      );
    });
  });
}
