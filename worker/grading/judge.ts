import { effectiveGraders, Rubric } from "../../contracts/graders.ts";
import type { JobTemplate, Outcome } from "../../contracts/job.ts";
import type { GradingSpec, Verdict } from "../../contracts/rpc.ts";
import type { Failure, RunResult, Score } from "../../contracts/run.ts";
import { scoreAll } from "./score.ts";
import { tailOf } from "./text.ts";

/** What a verdict's words need to know of the job. */
export type JobFacts = Pick<JobTemplate, "timeoutSec" | "resources" | "image">;

/** Output a result shows; the whole stream is in the log. */
const STDOUT_TAIL_BYTES = 4 * 1024;
const LOG_TAIL_BYTES = 4 * 1024;
const GRADING_TRIES = 2;
const SIGKILL = 9;

/**
 * Turns what a program reported into the end of its attempt: a measurement when the agent ran, whatever its exit status,
 * a failure when there is nothing trustworthy to measure.
 * @param spec a Rubric as it was stored with the run
 * @param job the limits the failure's advice names
 * @param score exchanged in tests of grading that breaks
 */
export function judge(outcome: Outcome, spec: GradingSpec, job: JobFacts, score = scoreAll): Verdict {
  const failure = runFailure(outcome, job);
  if (failure) return failedVerdict(outcome, failure);
  const rubric = Rubric.safeParse(spec);
  if (!rubric.success) {
    return failedVerdict(outcome, gradeFailure("infra", "GRADING_SPEC_INVALID", "the stored graders cannot be read"));
  }
  const graders = effectiveGraders(rubric.data.graders);
  for (let attempt = 1; attempt <= GRADING_TRIES; attempt++) {
    try {
      const graded = score(outcome, graders, rubric.data.expected ?? null);
      if (graded.ok) return measured(outcome, graded.scores);
      const { fault, name } = graded;
      return failedVerdict(outcome, gradeFailure(fault.class, fault.code, `grader '${name}': ${fault.reason}`));
    } catch {
      // Grading has no side effects: a second try is all there is to do, and the answer says that it broke.
    }
  }
  const words = `grading broke ${GRADING_TRIES} times; the output is in the log`;
  return failedVerdict(outcome, gradeFailure("infra", "GRADING_FAILED", words));
}

/** The end of an attempt that delivered no Outcome. Output that was seen stays with it. */
export function judgeFailure(
  failure: Failure,
  seen: { stdout?: string; stderr?: string; node?: string | null; durationMs?: number | null } = {},
): Verdict {
  return {
    kind: "failed",
    failure,
    stdout: seen.stdout ?? "",
    stderr: seen.stderr ?? "",
    node: seen.node ?? failure.placement?.node ?? null,
    durationMs: seen.durationMs ?? null,
  };
}

function runFailure(outcome: Outcome, job: JobFacts): Failure | null {
  if (outcome.timedOut) {
    return {
      stage: "run",
      class: "agent",
      code: "TIMEOUT",
      message: `not done after ${job.timeoutSec} s, setup included; raise timeoutSec of the case if that is too short`,
      retryable: false,
    };
  }
  if (outcome.oomKilled === true && endedByKill(outcome)) return outOfMemory(job);
  if (outcome.setupExitCode !== undefined && (outcome.setupExitCode !== 0 || outcome.exitCode === null)) {
    const step = outcome.setupStep ? ` '${outcome.setupStep}'` : "";
    return {
      stage: "install",
      class: "harness",
      code: "SETUP_FAILED",
      message: `setup step${step} ended with exit status ${outcome.setupExitCode}${setupHint(outcome.setupExitCode)}`,
      retryable: false,
    };
  }
  if (outcome.exitCode === null && outcome.signal === null) {
    return {
      stage: "collect",
      class: "infra",
      code: "OUTCOME_INCOMPLETE",
      message: "the program reported neither an exit status nor a signal of the agent",
      retryable: true,
    };
  }
  return null;
}

/** A shell reports a child that SIGKILL ended as 128 + 9. */
function endedByKill(outcome: Outcome): boolean {
  return outcome.signal === SIGKILL || outcome.exitCode === 128 + SIGKILL || outcome.setupExitCode === 128 + SIGKILL;
}

function outOfMemory(job: JobFacts): Failure {
  const limit = job.resources.memoryMb;
  const had =
    limit === null ? "no resources.memoryMb was declared, so the default limit held" : `its limit was ${limit} MiB`;
  return {
    stage: "run",
    class: "config",
    code: "OOM_KILLED",
    message: `the agent was killed because memory ran out: ${had}; raise resources.memoryMb of the case or the harness`,
    retryable: false,
  };
}

function setupHint(code: number): string {
  if (code === 127) return ": command not found; is it in the image?";
  if (code === 126) return ": found but not executable";
  return "";
}

function gradeFailure(cause: Failure["class"], code: string, message: string): Failure {
  return { stage: "grade", class: cause, code, message: message.slice(0, 4_000), retryable: false };
}

function failedVerdict(outcome: Outcome, failure: Failure): Verdict {
  const tail = tailOf(outcome.stderr.trim() === "" ? outcome.stdout : outcome.stderr, LOG_TAIL_BYTES);
  return {
    kind: "failed",
    failure: tail === "" ? failure : { ...failure, logTail: tail },
    stdout: outcome.stdout,
    stderr: outcome.stderr,
    node: outcome.node === "" ? null : outcome.node,
    durationMs: outcome.durationMs,
  };
}

function measured(outcome: Outcome, scores: Score[]): Verdict {
  const weight = scores.reduce((sum, { weight }) => sum + weight, 0);
  const mean = weight === 0 ? 0 : scores.reduce((sum, { score, weight }) => sum + score * weight, 0) / weight;
  const pass = scores.every((score) => score.pass);
  const notes = notesOf(outcome);
  const result: RunResult = {
    exitCode: outcome.exitCode,
    // Summing weights such as 0.1 rounds: a pass is exactly 1.
    score: pass ? 1 : Math.min(Math.max(mean, 0), 1),
    pass,
    scores,
    durationMs: outcome.durationMs,
    stdoutTail: tailOf(outcome.stdout, STDOUT_TAIL_BYTES),
    outputs: Object.entries(outcome.files)
      .slice(0, 200)
      .map(([path, file]) => ({
        path,
        bytes: file.bytes,
        ...(file.truncated === undefined ? {} : { truncated: file.truncated }),
      })),
    ...(notes.length > 0 ? { notes } : {}),
  };
  return {
    kind: "measured",
    result,
    stdout: outcome.stdout,
    stderr: outcome.stderr,
    node: outcome.node === "" ? null : outcome.node,
  };
}

function notesOf(outcome: Outcome): string[] {
  const notes: string[] = [];
  if (outcome.oomKilled === true) {
    notes.push("memory ran out and a process was killed, but the agent went on; consider a higher resources.memoryMb");
  } else if (endedByKill(outcome)) {
    notes.push(
      "the agent was ended by signal 9; if it was not its own doing, memory may have run out: see resources.memoryMb",
    );
  }
  const cut = outcome.truncated ?? [];
  if (cut.length > 0) notes.push(`cut to make the result fit: ${cut.join(", ")}`.slice(0, 1_000));
  return notes;
}
