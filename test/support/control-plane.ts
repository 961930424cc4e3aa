import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, createClient } from "../../contracts/client.ts";
import { childEnvironment, ROOT } from "../../scripts/environment.ts";

const LISTEN_MS = 60_000;

/** Ends when the process has ended. */
export function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => child.once("close", (code) => resolve(code)));
}

/** The control plane as `npm start` runs it, in a process that can be killed and started again on the same state. */
export class ControlPlane {
  readonly state: string;
  readonly port: number;
  readonly environment: NodeJS.ProcessEnv;
  /** Everything it printed. */
  output = "";
  #child: ChildProcess | null = null;

  private constructor(state: string, port: number, environment: NodeJS.ProcessEnv) {
    this.state = state;
    this.port = port;
    this.environment = environment;
  }

  static async start(environment: NodeJS.ProcessEnv = {}): Promise<ControlPlane> {
    const state = await mkdtemp(join(tmpdir(), "everdict-e2e-"));
    // Above the ephemeral range of outgoing connections on Linux, so that no client socket sits on it.
    const port = 61_000 + Math.floor(Math.random() * 4_000);
    const plane = new ControlPlane(state, port, environment);
    await plane.up();
    return plane;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  client(workspace?: string, token?: string): Client {
    return createClient({ apiUrl: this.url, workspace, token, fetch });
  }

  async up(): Promise<void> {
    const child = spawn("node", ["scripts/start.ts", "--port", String(this.port), "--state", this.state], {
      cwd: ROOT,
      env: { ...childEnvironment(), ...this.environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`the server did not listen:\n${this.output.slice(-2_000)}`)),
        LISTEN_MS,
      );
      const look = (chunk: Buffer) => {
        this.output = (this.output + chunk.toString()).slice(-4_000_000);
        if (!chunk.toString().includes("listening ")) return;
        clearTimeout(timer);
        resolve();
      };
      child.stdout?.on("data", look);
      child.stderr?.on("data", look);
      child.once("close", (code) => reject(new Error(`the server ended with ${code}:\n${this.output.slice(-2_000)}`)));
    });
  }

  /** SIGKILL to the server process, as it is known to its operator. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (!child?.pid) return;
    child.kill("SIGKILL");
    await ended(child);
    this.#child = null;
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child) {
      child.kill("SIGTERM");
      await ended(child);
    }
    await rm(this.state, { recursive: true, force: true });
  }
}

/** A real `everdict runner` process. */
export class RunnerProcess {
  readonly child: ChildProcess;
  output = "";

  constructor(child: ChildProcess) {
    this.child = child;
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk: Buffer) => (this.output = (this.output + chunk.toString()).slice(-1_000_000)));
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  async stop(): Promise<void> {
    this.child.kill("SIGKILL");
    await ended(this.child);
  }
}

export interface RunnerOptions {
  executor?: "host" | "docker" | "auto";
  maxConcurrent?: number;
  /** Folder kept over restarts of the same runner. */
  folder?: string;
  token?: string;
}

/** Pairs a machine of the caller and starts a runner on it. */
export async function startRunner(
  plane: ControlPlane,
  options: RunnerOptions = {},
): Promise<RunnerProcess & { token: string; folder: string }> {
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), "everdict-runner-")));
  const token = options.token ?? (await plane.client().call("pair_runner", { body: { label: "box" } })).token ?? "";
  const args = [
    join(ROOT, "dist/everdict.mjs"),
    "runner",
    "--api-url",
    plane.url,
    "--state-dir",
    join(folder, "state"),
    "--work-dir",
    join(folder, "work"),
    "--executor",
    options.executor ?? "host",
    "--max-concurrent",
    String(options.maxConcurrent ?? 4),
  ];
  const child = spawn("node", args, {
    env: { ...childEnvironment(), EVERDICT_PAIR: token },
    stdio: ["ignore", "pipe", "pipe"],
  });
  return Object.assign(new RunnerProcess(child), { token, folder });
}

/** Waits until `look` answers something. @throws when it does not within `ms` */
export async function until<T>(
  what: string,
  ms: number,
  look: () => Promise<T | null | undefined | false>,
): Promise<T> {
  const deadline = Date.now() + ms;
  let last: unknown;
  for (;;) {
    try {
      const found = await look();
      if (found) return found;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) throw new Error(`gave up after ${ms} ms waiting until ${what}`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
