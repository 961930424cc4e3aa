import { hostname } from "node:os";
import type { Failure } from "../../contracts/run.ts";

/** A failure with the place it happened. */
export function failure(
  unit: string,
  what: Pick<Failure, "stage" | "class" | "code" | "message" | "retryable"> & { logTail?: string; events?: string[] },
): Failure {
  const { logTail, events, ...rest } = what;
  return {
    ...rest,
    message: rest.message.slice(0, 4_000),
    placement: { unit, node: hostname(), events: (events ?? []).slice(0, 50).map((event) => event.slice(0, 2_000)) },
    ...(logTail ? { logTail } : {}),
  };
}

/** No space left, by the error of a system call or of the engine, or by what the program printed. */
export function isDiskFull(error: unknown): boolean {
  const text = error instanceof Error ? `${error.message} ${"code" in error ? String(error.code) : ""}` : String(error);
  return /ENOSPC|no space left on device/i.test(text);
}

/** The disk of the machine is full. */
export function diskFull(unit: string, logTail = ""): Failure {
  return failure(unit, {
    stage: "run",
    class: "infra",
    code: "DISK_FULL",
    message: "the machine has no disk space left; free some, or give the runner another --work-dir",
    retryable: true,
    logTail,
  });
}

/** The attempt lived longer than the control plane allowed, though its own watchdog should have ended it. */
export function deadlineExceeded(unit: string, deadlineMs: number, logTail: string): Failure {
  return failure(unit, {
    stage: "run",
    class: "infra",
    code: "DEADLINE_EXCEEDED",
    message: `still there ${Math.round(deadlineMs / 1_000)} s after its start, past its own time limit; the runner ended it`,
    retryable: false,
    logTail,
  });
}

/** The error that the program itself prints, and its exit status for it (worker/program). */
const PROGRAM_FAILED = 97;
const PROGRAM_WORDS = /^everdict: (.+)$/m;

/** Ended without an Outcome: judged by what is known. @param exitCode null when ended by a signal or unknown */
export function noOutcome(unit: string, exitCode: number | null, signal: string | null, logTail: string): Failure {
  if (isDiskFull(logTail)) return diskFull(unit, logTail);
  const words = PROGRAM_WORDS.exec(logTail)?.[1];
  if (exitCode === PROGRAM_FAILED && words !== undefined) {
    return failure(unit, {
      stage: "install",
      class: "config",
      code: "PROGRAM_FAILED",
      message: words,
      retryable: false,
      logTail,
    });
  }
  const how = signal ? `by signal ${signal}` : `with exit code ${exitCode ?? "unknown"}`;
  return failure(unit, {
    stage: "collect",
    class: "infra",
    code: "NO_OUTCOME",
    message: `ended ${how} without reporting an outcome; something outside ended it, or its disk was lost`,
    retryable: true,
    logTail,
  });
}

/** The job asks for something this machine cannot do now. */
export function lacksCapability(unit: string, capability: string, detail: string): Failure {
  return failure(unit, {
    stage: "dispatch",
    class: "infra",
    code: "CAPABILITY_MISSING",
    message: `this runner lacks the capability ${capability}: ${detail}`,
    retryable: true,
  });
}
