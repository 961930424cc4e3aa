import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import type { Outcome } from "../../contracts/job.ts";
import { outcomeOfText, ResultScanner } from "../../contracts/outcome.ts";
import { hostEnvironment } from "./environment.ts";
import type { AdoptedFacts, Assignment, Execution, ExecutionEnd, ExecutionSink, Executor } from "./executor.ts";
import { Tail } from "./executor.ts";
import { deadlineExceeded, diskFull, failure, isDiskFull, lacksCapability, noOutcome } from "./failures.ts";
import { FileFollower } from "./follow.ts";
import { cloneSource } from "./git-source.ts";
import { ATTEMPT_MARK, isSameProcess, killAttempt, signal, startTimeOf } from "./processes.ts";

/** What is left on disk so that another process can find, adopt or end the attempt. The nonce is no secret after it. */
const Record_ = z.object({
  name: z.string(),
  runId: z.string(),
  epoch: z.number(),
  object: z.string(),
  instanceId: z.string(),
  pid: z.number().nullable(),
  startTime: z.string().nullable(),
  nonce: z.string(),
  startedAtMs: z.number(),
  deadlineMs: z.number(),
  graceSec: z.number(),
});
type HostRecord = z.infer<typeof Record_>;

const RECORD = "record.json";
const ADOPTED_POLL_MS = 100;

export interface HostOptions {
  /** Directory for work directories; made when absent. */
  workDir: string;
  instanceId: string;
  env?: NodeJS.ProcessEnv;
}

/** Runs jobs without an image as process groups on this machine, with the machine's own logins. */
export class HostExecutor implements Executor {
  readonly kind = "host";
  readonly #options: HostOptions;

  constructor(options: HostOptions) {
    this.#options = options;
    mkdirSync(options.workDir, { recursive: true, mode: 0o700 });
  }

  start(assignment: Assignment, sink: ExecutionSink): Execution {
    const name = assignment.job.name;
    if (assignment.job.image !== null) {
      const refused = lacksCapability(
        name,
        "docker",
        `the case names the image '${assignment.job.image}', which never runs on the host`,
      );
      return { ended: Promise.resolve({ kind: "failure", failure: refused }), stop: () => undefined };
    }
    const dir = join(this.#options.workDir, name);
    const run = new HostRun(dir, name, sink);
    run.begin(() => this.#launch(assignment, dir, run.stopping, sink));
    return run;
  }

  async #launch(assignment: Assignment, dir: string, stop: AbortSignal, sink: ExecutionSink): Promise<Launch> {
    const { job } = assignment;
    rmSync(dir, { recursive: true, force: true });
    mkdirSync(join(dir, "evd"), { recursive: true, mode: 0o700 });
    const record: HostRecord = {
      name: job.name,
      runId: job.labels.run,
      epoch: Number(job.labels.epoch),
      object: job.labels.object,
      instanceId: this.#options.instanceId,
      pid: null,
      startTime: null,
      nonce: assignment.nonce,
      startedAtMs: Date.now(),
      deadlineMs: assignment.deadlineMs,
      graceSec: job.graceSec,
    };
    writeRecord(dir, record);
    if (job.git) {
      sink.phase("pulling");
      const target = join(dir, "evd", "source");
      const failed = await cloneSource(job.name, job.git, assignment.gitCredential, target, dir, stop);
      if (failed) return { kind: "failure", failure: failed };
      if (stop.aborted) return { kind: "stopped" };
    }
    writeFileSync(join(dir, "program.sh"), job.program, { mode: 0o600 });
    writeFileSync(join(dir, "nonce"), assignment.nonce, { mode: 0o600 });
    const child = this.#spawn(assignment, dir);
    const pid = child.pid;
    if (pid === undefined) {
      return new Promise((_resolve, reject) => child.once("error", reject));
    }
    sink.phase("running");
    const started = { ...record, pid, startTime: startTimeOf(pid), startedAtMs: Date.now() };
    writeRecord(dir, started);
    return { kind: "started", record: started, exited: exitOf(child) };
  }

  #spawn(assignment: Assignment, dir: string): ChildProcess {
    const { job } = assignment;
    const out = openSync(join(dir, "stdout"), "a", 0o600);
    const err = openSync(join(dir, "stderr"), "a", 0o600);
    try {
      return spawn("/bin/sh", [join(dir, "program.sh")], {
        cwd: join(dir, "evd"),
        env: {
          ...hostEnvironment(this.#options.env ?? process.env),
          ...job.env,
          ...assignment.secrets,
          EVD_DIR: join(dir, "evd"),
          EVD_NONCE_FILE: join(dir, "nonce"),
          EVD_OUTCOME_FILE: join(dir, "outcome"),
          [ATTEMPT_MARK]: job.name,
        },
        stdio: ["ignore", out, err],
        detached: true,
      });
    } finally {
      closeSync(out);
      closeSync(err);
    }
  }

  async adopt(name: string, sink: ExecutionSink): Promise<{ execution: Execution; assignment: AdoptedFacts } | null> {
    const dir = join(this.#options.workDir, name);
    const record = readRecord(dir);
    if (record === null) return null;
    if (record.pid === null) {
      // Its process was never started: as if it had not been here.
      rmSync(dir, { recursive: true, force: true });
      return null;
    }
    const { pid } = record;
    const taken = { ...record, instanceId: this.#options.instanceId };
    writeRecord(dir, taken);
    const run = new HostRun(dir, name, sink);
    run.begin(async () => {
      sink.phase("running");
      return { kind: "started", record: taken, exited: exitOfOther(pid, taken.startTime) };
    });
    return { execution: run, assignment: { runId: record.runId, epoch: record.epoch, object: record.object } };
  }

  /** Names of attempts that have a record here. */
  names(): string[] {
    return readdirSync(this.#options.workDir).filter((name) => existsSync(join(this.#options.workDir, name, RECORD)));
  }

  async sweep(keep: (unit: { name: string; instanceId: string }) => boolean): Promise<string[]> {
    const swept: string[] = [];
    for (const name of this.names()) {
      const dir = join(this.#options.workDir, name);
      const record = readRecord(dir);
      if (record !== null && keep(record)) continue;
      const lives = record?.pid != null && isSameProcess(record.pid, record.startTime);
      killAttempt(name, lives ? (record?.pid ?? null) : null);
      rmSync(dir, { recursive: true, force: true });
      swept.push(name);
    }
    return swept;
  }
}

interface Exit {
  code: number | null;
  signal: string | null;
}
const UNKNOWN_EXIT: Exit = { code: null, signal: null };

type Launch = { kind: "started"; record: HostRecord; exited: Promise<Exit> } | ExecutionEnd;

function exitOf(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => child.once("exit", (code, name) => resolve({ code, signal: name })));
}

/** The end of a process that is not our child: its exit status is not to be had. */
function exitOfOther(pid: number, startTime: string | null): Promise<Exit> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (isSameProcess(pid, startTime)) setTimeout(look, ADOPTED_POLL_MS);
      else resolve(UNKNOWN_EXIT);
    };
    look();
  });
}

function writeRecord(dir: string, record: HostRecord): void {
  writeFileSync(join(dir, RECORD), JSON.stringify(record), { mode: 0o600 });
}

function readRecord(dir: string): HostRecord | null {
  try {
    return Record_.parse(JSON.parse(readFileSync(join(dir, RECORD), "utf8")));
  } catch {
    return null;
  }
}

/** One attempt on the host, from its launch to its removal. */
class HostRun implements Execution {
  readonly ended: Promise<ExecutionEnd>;
  readonly #dir: string;
  readonly #name: string;
  readonly #sink: ExecutionSink;
  readonly #stop = new AbortController();
  readonly #tail = new Tail();
  #resolve: (end: ExecutionEnd) => void = () => undefined;
  #record: HostRecord | null = null;
  #late = false;

  constructor(dir: string, name: string, sink: ExecutionSink) {
    this.#dir = dir;
    this.#name = name;
    this.#sink = sink;
    this.ended = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  get stopping(): AbortSignal {
    return this.#stop.signal;
  }

  stop(): void {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    this.#terminate();
  }

  begin(launch: () => Promise<Launch>): void {
    this.#run(launch)
      .catch((error: unknown): ExecutionEnd => ({ kind: "failure", failure: this.#startFailure(error) }))
      .then((end) => {
        killAttempt(this.#name, null);
        rmSync(this.#dir, { recursive: true, force: true, maxRetries: 3 });
        this.#resolve(end);
      })
      .catch((error: unknown) => this.#resolve({ kind: "failure", failure: this.#startFailure(error) }));
  }

  async #run(launch: () => Promise<Launch>): Promise<ExecutionEnd> {
    const launched = await launch();
    if (launched.kind !== "started") return launched;
    this.#record = launched.record;
    if (this.#stop.signal.aborted) this.#terminate();
    const scanner = new ResultScanner(launched.record.nonce);
    const followers = this.#follow(scanner);
    const left = launched.record.startedAtMs + launched.record.deadlineMs - Date.now();
    const timer = setTimeout(() => this.#expire(), Math.min(Math.max(0, left), 2 ** 31 - 1));
    const exit = await launched.exited;
    clearTimeout(timer);
    // Whatever left the process group still carries the attempt's mark.
    killAttempt(this.#name, launched.record.pid);
    for (const follower of followers) follower.close();
    this.#output("stdout", scanner.end());
    return this.#judge(exit, launched.record, scanner.outcome);
  }

  /** The result line is taken out of the live output. */
  #follow(scanner: ResultScanner): FileFollower[] {
    const streams = ["stdout", "stderr"] as const;
    return streams
      .filter((stream) => existsSync(join(this.#dir, stream)))
      .map(
        (stream) =>
          new FileFollower(join(this.#dir, stream), (bytes) =>
            this.#output(stream, stream === "stdout" ? scanner.push(bytes) : bytes),
          ),
      );
  }

  #output(stream: "stdout" | "stderr", bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#tail.push(bytes);
    this.#sink.output(stream, bytes);
  }

  #judge(exit: Exit, record: HostRecord, printed: Outcome | null): ExecutionEnd {
    if (this.#stop.signal.aborted) return { kind: "stopped" };
    const path = join(this.#dir, "outcome");
    const written = existsSync(path) ? outcomeOfText(readFileSync(path, "utf8"), record.nonce) : null;
    const outcome = written ?? printed;
    if (outcome !== null) return { kind: "outcome", outcome };
    const tail = this.#tail.text();
    if (this.#late) return { kind: "failure", failure: deadlineExceeded(this.#name, record.deadlineMs, tail) };
    return { kind: "failure", failure: noOutcome(this.#name, exit.code, exit.signal, tail) };
  }

  #expire(): void {
    this.#late = true;
    this.#terminate();
  }

  /** TERM to the program, which ends its agent; KILL to everything of the attempt after the grace. */
  #terminate(): void {
    const record = this.#record;
    const pid = record?.pid ?? null;
    if (record === null || pid === null || !isSameProcess(pid, record.startTime)) return;
    signal(pid, "SIGTERM");
    const kill = (): void => {
      if (isSameProcess(pid, record.startTime)) killAttempt(this.#name, pid);
    };
    // The process itself is waited for; this alone must not keep us.
    setTimeout(kill, (record.graceSec + 2) * 1_000).unref();
  }

  #startFailure(error: unknown): ReturnType<typeof failure> {
    if (isDiskFull(error)) return diskFull(this.#name);
    return failure(this.#name, {
      stage: "dispatch",
      class: "infra",
      code: "START_FAILED",
      message: `the job could not be started on this machine: ${error instanceof Error ? error.message : String(error)}`,
      retryable: true,
    });
  }
}
