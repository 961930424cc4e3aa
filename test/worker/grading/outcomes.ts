import { Grader, type GraderInput } from "../../../contracts/graders.ts";
import type { Outcome } from "../../../contracts/job.ts";
import type { Score } from "../../../contracts/run.ts";
import { type JobFacts, judge } from "../../../worker/grading/judge.ts";

const size = (text: string): number => new TextEncoder().encode(text).length;
export const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** What a program reports when its agent ended well; streams count their own bytes unless told otherwise. */
export function outcome(over: Partial<Outcome> = {}): Outcome {
  return {
    exitCode: 0,
    signal: null,
    durationMs: 412,
    timedOut: false,
    stdout: "",
    stderr: "",
    stdoutBytes: size(over.stdout ?? ""),
    stderrBytes: size(over.stderr ?? ""),
    graderExits: {},
    files: {},
    diff: null,
    node: "n1",
    ...over,
  };
}

/** A file that was collected whole. */
export const file = (text: string) => ({ bytes: size(text), base64: base64(text) });

export const JOB: JobFacts = {
  timeoutSec: 60,
  resources: { cpu: 500, memoryMb: 256, gpu: null },
  image: "busybox:1.36",
};

export const rubric = (graders: GraderInput[], expected?: string) => ({
  graders: graders.map((grader) => Grader.parse(grader)),
  ...(expected === undefined ? {} : { expected }),
});

/** The verdict of a measured outcome; fails when it is none. */
export function measure(seen: Outcome, graders: GraderInput[], expected?: string) {
  const verdict = judge(seen, rubric(graders, expected), JOB);
  if (verdict.kind !== "measured") throw new Error(`not measured: ${JSON.stringify(verdict)}`);
  return verdict.result;
}

/** The only score of an outcome under one grader. */
export function scoreOf(seen: Outcome, grader: GraderInput, expected?: string): Score {
  const score = measure(seen, [grader], expected).scores[0];
  if (!score) throw new Error("no score");
  return score;
}

/** The failure of an outcome that cannot be measured. */
export function failureOf(seen: Outcome, graders: GraderInput[] = [], job: JobFacts = JOB) {
  const verdict = judge(seen, rubric(graders), job);
  if (verdict.kind !== "failed") throw new Error(`not failed: ${JSON.stringify(verdict)}`);
  return verdict.failure;
}
