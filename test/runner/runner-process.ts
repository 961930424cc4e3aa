import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { FakeControlPlane, type FakeOptions, TOKEN } from "./fake-control-plane.ts";

const MAIN = resolve(import.meta.dirname, "../../runner/main.ts");

/** A real `everdict runner` process and the control plane it talks to. */
export class RunnerWorld {
  readonly control: FakeControlPlane;
  readonly stateDir = mkdtempSync(join(tmpdir(), "evd-runner-"));
  readonly #processes: RunnerProcess[] = [];

  constructor(options: FakeOptions = {}) {
    this.control = new FakeControlPlane(options);
  }

  /** Starts a runner and waits for its first question. */
  async runner(args: string[] = [], env: Record<string, string> = {}): Promise<RunnerProcess> {
    const before = this.control.leases.length;
    const runner = this.launch(["--pair", TOKEN, "--executor", "host", ...args], env);
    await this.control.until("the first lease request", () => this.control.leases.length > before);
    return runner;
  }

  /** Starts a runner with exactly these arguments. */
  launch(args: string[], env: Record<string, string> = {}, input: string | null = null): RunnerProcess {
    const all = [MAIN, "runner", "--api-url", this.control.url, "--state-dir", this.stateDir, ...args];
    const runner = new RunnerProcess(
      spawn(process.execPath, all, { env: { ...process.env, ...env }, stdio: ["pipe", "ignore", "pipe"] }),
    );
    runner.child.stdin?.end(input ?? "");
    this.#processes.push(runner);
    return runner;
  }

  /** Work directories that are left. */
  leftovers(): string[] {
    const dir = join(this.stateDir, "work", "host");
    return existsSync(dir) ? readdirSync(dir) : [];
  }

  /** Kills every runner at once, as a crash does. */
  async killAll(): Promise<void> {
    for (const runner of this.#processes.splice(0)) {
      runner.child.kill("SIGKILL");
      await runner.exited;
    }
  }

  async end(): Promise<void> {
    await this.killAll();
    await this.control.stop();
    rmSync(this.stateDir, { recursive: true, force: true });
  }
}

export class RunnerProcess {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  /** Everything it logged. */
  log = "";

  constructor(child: ChildProcess) {
    this.child = child;
    child.stderr?.on("data", (chunk: Buffer) => {
      this.log += chunk.toString();
    });
    this.exited = new Promise((done) => child.once("exit", (code) => done(code)));
  }

  get pid(): number {
    if (this.child.pid === undefined) throw new Error("the runner did not start");
    return this.child.pid;
  }

  commandLine(): string {
    return readFileSync(`/proc/${this.pid}/cmdline`, "latin1").replaceAll("\0", " ");
  }

  environment(): string {
    return readFileSync(`/proc/${this.pid}/environ`, "latin1");
  }
}

/** Processes of this machine whose command line contains a text. */
export function processesWith(text: string): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .filter((entry) => {
      try {
        return readFileSync(`/proc/${entry}/cmdline`, "latin1").includes(text);
      } catch {
        return false;
      }
    })
    .map(Number);
}
