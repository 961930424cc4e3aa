import type { Job, Outcome } from "../../contracts/job.ts";
import type { Failure } from "../../contracts/run.ts";
import type { LeasedAttempt } from "../../contracts/runner-protocol.ts";

/** What an executor is asked to run: a granted attempt without what concerns the lease. */
export interface Assignment {
  job: Job;
  nonce: string;
  secrets: Readonly<Record<string, string>>;
  gitCredential: string | null;
  registryAuth: LeasedAttempt["registryAuth"];
  /** Longest life from the start of the container or process, in ms. */
  deadlineMs: number;
}

/** Where an execution tells what happens. Output is raw: masking is the caller's. */
export interface ExecutionSink {
  phase(phase: "pulling" | "running"): void;
  output(stream: "stdout" | "stderr", bytes: Uint8Array): void;
}

export type ExecutionEnd =
  | { kind: "outcome"; outcome: Outcome }
  | { kind: "failure"; failure: Failure }
  /** It was told to stop, and nothing of it is left. */
  | { kind: "stopped" };

export interface Execution {
  /** Resolves when nothing of the attempt is left on the machine; never rejects. */
  readonly ended: Promise<ExecutionEnd>;
  /** Ends it: TERM, then KILL. Idempotent; the end is told by `ended`. */
  stop(): void;
}

export interface Executor {
  readonly kind: "docker" | "host";
  start(assignment: Assignment, sink: ExecutionSink): Execution;
  /**
   * Takes over what an earlier process started under this name and left a record of.
   * @returns null when nothing of that name is here
   */
  adopt(name: string, sink: ExecutionSink): Promise<{ execution: Execution; assignment: AdoptedFacts } | null>;
  /** Ends and removes everything of this machine that nobody keeps. @returns the names it removed */
  sweep(keep: (unit: { name: string; instanceId: string }) => boolean): Promise<string[]>;
}

/** What a record on disk or a container's labels say about an adopted execution. */
export interface AdoptedFacts {
  runId: string;
  epoch: number;
  object: string;
}

/** Bytes of log that a failure quotes. */
export const LOG_TAIL_BYTES = 4_096;

/** Keeps the last bytes of a stream. */
export class Tail {
  readonly #limit: number;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(limit = LOG_TAIL_BYTES) {
    this.#limit = limit;
  }

  push(chunk: Uint8Array): void {
    const joined = Buffer.concat([this.#bytes, chunk.subarray(Math.max(0, chunk.length - this.#limit))]);
    this.#bytes = joined.subarray(Math.max(0, joined.length - this.#limit));
  }

  text(): string {
    return this.#bytes.toString("utf8");
  }
}
