import type { AttemptRef, Command, LeasedAttempt, Report } from "../contracts/runner-protocol.ts";
import type { Execution, ExecutionEnd, Executor } from "./executors/executor.ts";
import { lacksCapability } from "./executors/failures.ts";
import type { Logger } from "./log.ts";
import { LogUploader, type LogUploads } from "./loops/logs.ts";
import { maskFailure, maskOutcome, maskPatterns } from "./mask.ts";

export type HeldPhase = "accepted" | "pulling" | "running" | "stopping";

export interface Held extends AttemptRef {
  readonly attempt: LeasedAttempt;
  phase: HeldPhase;
  execution: Execution | null;
  /** What to report when the execution was ended by us: after a cancel, or handed back by a drain. */
  onStop: "stopped" | "released";
}

const keyOf = (ref: AttemptRef): string => `${ref.runId}/${ref.epoch}`;

/** Time that the last log bytes get before the result goes out without them. */
const LOG_FLUSH_MS = 3_000;

export interface AttemptsEvents {
  /** A report is ready to be sent. */
  report(ref: AttemptRef, report: Report): void;
  /** The number or needs of held attempts changed. */
  changed(): void;
  /** An attempt was taken and must be confirmed at once. */
  accepted(): void;
  /** An attempt has moved on: worth telling soon, so that a run does not look as if it had not started. */
  moved(): void;
}

export interface AttemptsOptions {
  /** Jobs at once; what is granted beyond is handed back. */
  slots: number;
  /** Chooses who runs a job; null when nobody here can, with the missing capability. */
  choose(attempt: LeasedAttempt): Executor | { missing: string; detail: string };
  uploads: LogUploads;
  log: Logger;
  events: AttemptsEvents;
}

/** The attempts this process holds, from the grant to the report. One place decides what a message about one means. */
export class Attempts {
  readonly #held = new Map<string, Held>();
  readonly #options: AttemptsOptions;

  constructor(options: AttemptsOptions) {
    this.#options = options;
  }

  get all(): Held[] {
    return [...this.#held.values()];
  }

  get size(): number {
    return this.#held.size;
  }

  /** Declared memory in MiB and cpu in millicores of all held attempts. */
  get declared(): { memoryMb: number; cpu: number } {
    let memoryMb = 0;
    let cpu = 0;
    for (const { attempt } of this.#held.values()) {
      memoryMb += attempt.job.resources.memoryMb ?? 0;
      cpu += attempt.job.resources.cpu ?? 0;
    }
    return { memoryMb, cpu };
  }

  /** Takes granted attempts; each waits for its confirmation. A grant that repeats a held one changes nothing. */
  take(grants: readonly LeasedAttempt[]): void {
    let fresh = false;
    for (const attempt of grants) {
      const key = keyOf(attempt);
      if (this.#held.has(key)) continue;
      const { runId, epoch } = attempt;
      if (this.#held.size >= this.#options.slots) {
        this.#options.events.report({ runId, epoch }, { released: true });
        continue;
      }
      this.#held.set(key, { runId, epoch, attempt, phase: "accepted", execution: null, onStop: "stopped" });
      this.#options.log.info("attempt granted", { runId, epoch, job: attempt.job.name });
      fresh = true;
    }
    if (!fresh) return;
    this.#options.events.accepted();
    this.#options.events.changed();
  }

  /** The lease was extended: an attempt that waited for it starts. */
  extended(ref: AttemptRef): void {
    const held = this.#held.get(keyOf(ref));
    if (held && held.phase === "accepted") this.#start(held);
  }

  /** Told to end an attempt. One that is not here is gone already, which is what the acknowledgement says. */
  command(command: Command): void {
    const held = this.#held.get(keyOf(command));
    const { runId, epoch, verdict } = command;
    this.#options.log.info("attempt ended by the control plane", { runId, epoch, verdict });
    if (held) this.#end(held, "stopped");
    else this.#options.events.report({ runId, epoch }, { stopped: true });
  }

  /** Hands back what has not started, or with `all` everything. */
  release(all: boolean): void {
    for (const held of this.all) if (all || held.phase === "accepted") this.#end(held, "released");
  }

  #end(held: Held, onStop: Held["onStop"]): void {
    if (held.phase === "stopping") return;
    const { execution } = held;
    held.onStop = onStop;
    held.phase = "stopping";
    if (execution) execution.stop();
    else this.#finish(held, onStop === "stopped" ? { stopped: true } : { released: true });
  }

  #start(held: Held): void {
    const { attempt } = held;
    const chosen = this.#options.choose(attempt);
    if ("missing" in chosen) {
      this.#finish(held, { failure: lacksCapability(attempt.job.name, chosen.missing, chosen.detail) });
      return;
    }
    held.phase = attempt.job.image === null ? "running" : "pulling";
    this.#options.events.moved();
    const patterns = maskPatterns([...Object.values(attempt.secrets), attempt.gitCredential ?? ""]);
    const uploader = new LogUploader(this.#options.uploads, held, attempt.logToken, patterns);
    held.execution = chosen.start(
      {
        job: attempt.job,
        nonce: attempt.nonce,
        secrets: attempt.secrets,
        gitCredential: attempt.gitCredential ?? null,
        registryAuth: attempt.registryAuth,
        deadlineMs: attempt.deadlineMs,
      },
      {
        phase: (phase) => {
          if (held.phase === "stopping" || held.phase === phase) return;
          held.phase = phase;
          this.#options.events.moved();
        },
        output: (stream, bytes) => uploader.write(stream, bytes),
      },
    );
    held.execution.ended
      .then(async (end) => {
        await uploader.finish(end.kind === "outcome" ? end.outcome : null, LOG_FLUSH_MS);
        this.#finish(held, reportOf(end, held, patterns));
      })
      .catch((error: unknown) => this.#options.log.error("attempt lost", { runId: held.runId, error: String(error) }));
  }

  #finish(held: Held, report: Report): void {
    if (!this.#held.delete(keyOf(held))) return;
    const { runId, epoch } = held;
    this.#options.log.info("attempt over", { runId, epoch, result: resultOf(report) });
    this.#options.events.report({ runId, epoch }, report);
    this.#options.events.changed();
  }
}

function reportOf(end: ExecutionEnd, held: Held, patterns: Buffer[]): Report {
  switch (end.kind) {
    case "outcome":
      // A result that was there before the stop took hold is still no result of a current attempt.
      if (held.phase === "stopping" && held.onStop === "stopped") return { stopped: true };
      return maskOutcome(end.outcome, patterns);
    case "failure":
      if (held.phase === "stopping") return held.onStop === "stopped" ? { stopped: true } : { released: true };
      return { failure: maskFailure(end.failure, patterns) };
    case "stopped":
      return held.onStop === "stopped" ? { stopped: true } : { released: true };
  }
}

/** What a report says, in a word for the log. */
function resultOf(report: Report): string {
  if ("failure" in report) return report.failure.code;
  if ("released" in report) return "released";
  if ("stopped" in report) return "stopped";
  return report.timedOut ? "timed out" : `exit ${report.exitCode ?? "none"}`;
}
