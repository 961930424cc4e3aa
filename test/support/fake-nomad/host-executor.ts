import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { FakeCluster } from "./cluster.ts";
import type { FakeAllocation, JobBody, TaskBody } from "./model.ts";
import { parseEnvironment, render } from "./template.ts";

const MEMORY_POLL_MS = 2;
/** Only small limits are watched; the programs of tests stay far below the others. */
const WATCHED_MB = 48;
/** Address space of a program, KiB: the most a runaway takes when the poll is late. */
const ADDRESS_SPACE_KB = 3_000_000;

interface Running {
  child: ChildProcess;
  dir: string;
  oomKilled: boolean;
}

/**
 * A client that really runs the main task's program, as a process of this machine with the task's files and environment
 * in a folder of its own. Memory is watched, not limited: the largest process above the limit is killed.
 */
export class HostExecutor {
  readonly #cluster: FakeCluster;
  readonly #running = new Map<string, Running>();

  constructor(cluster: FakeCluster) {
    this.#cluster = cluster;
  }

  /** Starts the program of an allocation; its end is told to the cluster. */
  start(body: JobBody, alloc: FakeAllocation): void {
    const task = body.TaskGroups?.[0]?.Tasks?.find(({ Name }) => Name === "main");
    if (!task) return;
    const dir = mkdtempSync(join(tmpdir(), "fake-nomad-"));
    mkdirSync(join(dir, "alloc", "data"), { recursive: true });
    mkdirSync(join(dir, "secrets"));
    const environment = this.#writeFiles(task, dir);
    const args = stringsOf(task.Config?.args).map((arg) => within(dir, arg));
    const env: Record<string, string> = { PATH: process.env.PATH ?? "/usr/bin:/bin", HOME: dir };
    for (const [name, value] of Object.entries({ ...task.Env, ...environment }))
      env[name] = name.startsWith("EVD_") ? within(dir, value) : value;
    const child = spawn(
      "/bin/sh",
      ["-c", `ulimit -v ${ADDRESS_SPACE_KB}; exec nice -n 15 /bin/sh "$@"`, "sh", ...args],
      {
        cwd: dir,
        env,
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    const running = { child, dir, oomKilled: false };
    this.#running.set(alloc.id, running);
    child.stdout.on("data", (bytes: Buffer) => {
      alloc.stdout += bytes.toString();
    });
    child.stderr.on("data", (bytes: Buffer) => {
      alloc.stderr += bytes.toString();
    });
    const limitMb = task.Resources?.MemoryMB ?? 300;
    const watch = limitMb > WATCHED_MB ? undefined : setInterval(() => killLargest(running, limitMb), MEMORY_POLL_MS);
    child.once("close", (code) => {
      clearInterval(watch);
      this.#ended(alloc, running, code ?? 137);
    });
  }

  #writeFiles(task: TaskBody, dir: string): Record<string, string> {
    let environment: Record<string, string> = {};
    for (const template of task.Templates ?? []) {
      const content = render(template, (path) => this.#cluster.variables.get(path)?.items ?? null) ?? "";
      const path = join(dir, template.DestPath);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, content);
      chmodSync(path, 0o600);
      if (template.Envvars === true) environment = { ...environment, ...parseEnvironment(content) };
    }
    return environment;
  }

  #ended(alloc: FakeAllocation, running: Running, code: number): void {
    this.#running.delete(alloc.id);
    const files: Record<string, string> = {};
    for (const name of ["outcome", "clone-words"]) {
      const path = join(running.dir, "alloc", "data", name);
      if (existsSync(path)) files[`/alloc/data/${name}`] = readFileSync(path, "utf8");
    }
    rmSync(running.dir, { recursive: true, force: true });
    this.#cluster.endTask(alloc, { exitCode: code, oomKilled: running.oomKilled, files });
  }

  /** Asks a task to end. */
  interrupt(alloc: FakeAllocation): void {
    this.#running.get(alloc.id)?.child.kill("SIGTERM");
  }

  /** Ends everything that still runs. */
  async close(): Promise<void> {
    const left = [...this.#running.values()];
    await Promise.all(
      left.map(
        ({ child }) =>
          new Promise<void>((resolve) => {
            child.once("close", () => resolve());
            child.kill("SIGTERM");
          }),
      ),
    );
  }
}

const stringsOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);

/** Paths of the container, below the folder that stands for its root. */
const within = (dir: string, text: string): string => (/^\/(alloc|secrets)\//.test(text) ? join(dir, text) : text);

/** Kills the largest process below the program once it holds more than the limit, as the kernel does. */
function killLargest(running: Running, limitMb: number): void {
  const { pid } = running.child;
  if (pid === undefined || !existsSync("/proc")) return;
  let largest = { pid: 0, mb: 0 };
  for (const child of descendants(pid)) {
    const mb = residentMb(child);
    if (mb > largest.mb) largest = { pid: child, mb };
  }
  if (largest.mb <= limitMb) return;
  running.oomKilled = true;
  try {
    process.kill(largest.pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

/** Only the program's own processes are read: a look at all of them would be late on a busy machine. */
function descendants(pid: number): number[] {
  let children: string;
  try {
    children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  } catch {
    return [];
  }
  const pids = children.split(" ").filter(Boolean).map(Number);
  return [...pids, ...pids.flatMap(descendants)];
}

function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return "";
  }
}

/** Field 24 of stat counts pages of 4 KiB. */
const residentMb = (pid: number): number => (Number(statOf(pid).split(") ")[1]?.split(" ")[21] ?? 0) * 4_096) / 2 ** 20;
