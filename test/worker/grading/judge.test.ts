import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RunResult } from "../../../contracts/run.ts";
import { judge, judgeFailure } from "../../../worker/grading/judge.ts";
import { tailOf } from "../../../worker/grading/text.ts";
import { failureOf, file, JOB, measure, outcome, rubric } from "./outcomes.ts";

describe("a run that was measured", () => {
  it("passes when every grader scores 1", () => {
    const result = measure(outcome({ stdout: "hi there" }), [
      { kind: "exit-code" },
      { kind: "contains", value: "hi", weight: 2 },
    ]);
    expect(result).toMatchObject({ exitCode: 0, score: 1, pass: true, durationMs: 412, stdoutTail: "hi there" });
    expect(result.scores[0]).toEqual({
      name: "exit-code",
      kind: "exit-code",
      score: 1,
      pass: true,
      weight: 1,
      detail: null,
    });
  });

  it("is a measurement whatever the agent's exit status, and the graders decide", () => {
    expect(measure(outcome({ exitCode: 3 }), [{ kind: "exit-code" }])).toMatchObject({ score: 0, pass: false });
    expect(measure(outcome({ exitCode: 3 }), [{ kind: "exit-code", equals: 3 }])).toMatchObject({ pass: true });
  });

  it("weighs the scores, and a heavy miss costs more than a light one", () => {
    const seen = outcome({ stdout: "hi" });
    const result = measure(seen, [
      { kind: "contains", value: "hi", weight: 3 },
      { kind: "contains", value: "bye", weight: 1 },
    ]);
    expect(result).toMatchObject({ score: 0.75, pass: false });
  });

  it("is not passed when a grader of weight 0 misses", () => {
    const graders = [{ kind: "exit-code" as const }, { kind: "contains" as const, value: "x", weight: 0 }];
    expect(measure(outcome(), graders)).toMatchObject({ score: 1, pass: false });
  });

  it("is judged by its exit status when the case has no graders", () => {
    expect(measure(outcome({ exitCode: 1 }), [])).toMatchObject({ score: 0, pass: false });
    expect(measure(outcome(), [])).toMatchObject({ score: 1, pass: true });
  });

  it("shows what was collected, and says what was cut", () => {
    const result = measure(outcome({ files: { "out.txt": file("hello") }, truncated: ["diff"] }), [
      { kind: "exit-code" },
    ]);
    expect(result.outputs).toEqual([{ path: "out.txt", bytes: 5 }]);
    expect(result.notes).toEqual(["cut to make the result fit: diff"]);
  });

  it("keeps the last 4 KiB of output, starting at a whole character", () => {
    const { stdoutTail } = measure(outcome({ stdout: `x${"é".repeat(4_000)}` }), []);
    expect(stdoutTail).toBe("é".repeat(2_048));
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 60 }), fc.integer({ min: 0, max: 80 }), (text, max) => {
        const tail = tailOf(text, max);
        expect(text.endsWith(tail)).toBe(true);
        expect(Buffer.byteLength(tail)).toBeLessThanOrEqual(max);
        expect(Buffer.byteLength(tail)).toBeGreaterThan(Math.min(max, Buffer.byteLength(text)) - 4);
      }),
    );
  });

  it("notes an out-of-memory kill that the agent survived", () => {
    expect(measure(outcome({ oomKilled: true }), []).notes?.[0]).toContain("memory ran out");
  });

  it("notes a kill of unknown cause, since memory may have been it", () => {
    expect(measure(outcome({ exitCode: 137, signal: 9 }), []).notes?.[0]).toContain("resources.memoryMb");
  });

  it("always has a score from 0 to 1 that is 1 when all passed, within the wire's bounds", () => {
    const weight = fc.double({ min: 0, max: 1_000, noNaN: true });
    fc.assert(
      fc.property(
        fc.array(fc.record({ weight, hit: fc.boolean() }), { minLength: 1, maxLength: 20 }),
        fc.string({ maxLength: 5_000 }),
        (plan, noise) => {
          const result = measure(
            outcome({ exitCode: 7, stdout: noise }),
            plan.map(({ weight: w, hit }) => ({ kind: "exit-code", equals: hit ? 7 : 8, weight: w })),
          );
          expect(RunResult.safeParse(result).success).toBe(true);
          expect(result.pass).toBe(plan.every(({ hit }) => hit));
          if (result.pass) expect(result.score).toBe(1);
        },
      ),
    );
  });
});

describe("a run without a trustworthy measurement", () => {
  it("ran out of time: the agent's, naming the limit", () => {
    expect(failureOf(outcome({ timedOut: true, exitCode: 137, signal: 9 }))).toMatchObject({
      stage: "run",
      class: "agent",
      code: "TIMEOUT",
      retryable: false,
      message: expect.stringContaining("60 s"),
    });
  });

  it("failed in setup: the harness's, naming the step, with the end of its output", () => {
    const failure = failureOf(
      outcome({ exitCode: null, setupExitCode: 127, setupStep: "npm ci", stderr: "sh: npm: not found\n" }),
    );
    expect(failure).toMatchObject({ stage: "install", class: "harness", code: "SETUP_FAILED" });
    expect(failure.message).toContain("'npm ci'");
    expect(failure.message).toContain("127: command not found");
    expect(failure.logTail).toContain("npm: not found");
  });

  it.each([
    { exitCode: 137, signal: 9 },
    { exitCode: null, signal: 9 },
    { exitCode: 137, signal: null },
    { exitCode: null, signal: null, setupExitCode: 137, setupStep: "make" },
  ])("was killed because memory ran out: the configuration's, naming the knob and its value: %j", (end) => {
    const failure = failureOf(outcome({ ...end, oomKilled: true }));
    expect(failure).toMatchObject({ stage: "run", class: "config", code: "OOM_KILLED", retryable: false });
    expect(failure.message).toContain("256 MiB");
    expect(failure.message).toContain("resources.memoryMb");
  });

  it("says that the default limit held when none was declared", () => {
    const job = { ...JOB, resources: { ...JOB.resources, memoryMb: null } };
    expect(failureOf(outcome({ exitCode: 137, oomKilled: true }), [], job).message).toContain("default limit");
  });

  it("reported no end of the agent at all: ours, and worth another try", () => {
    expect(failureOf(outcome({ exitCode: null }))).toMatchObject({
      stage: "collect",
      class: "infra",
      code: "OUTCOME_INCOMPLETE",
      retryable: true,
    });
  });

  it("has a command grader that never ran", () => {
    const failure = failureOf(outcome(), [{ kind: "command", command: "true", name: "tests" }]);
    expect(failure).toMatchObject({ stage: "grade", class: "harness", code: "GRADER_NOT_RUN" });
    expect(failure.message).toContain("'tests'");
  });

  it("has a graded file that was cut away, which is not the same as missing", () => {
    const failure = failureOf(outcome({ truncated: ["out.txt"] }), [
      { kind: "file-equals", path: "out.txt", value: "x" },
    ]);
    expect(failure).toMatchObject({ stage: "grade", code: "OUTPUT_TOO_LARGE" });
  });

  it("has a grader that cannot be used: the configuration's", () => {
    const failure = failureOf(outcome(), [{ kind: "regex", pattern: "(a" }]);
    expect(failure).toMatchObject({ stage: "grade", class: "config", code: "GRADER_INVALID" });
  });

  it("has graders that cannot be read", () => {
    expect(judge(outcome(), { graders: "none" }, JOB)).toMatchObject({
      kind: "failed",
      failure: { stage: "grade", class: "infra", code: "GRADING_SPEC_INVALID" },
    });
  });

  it("broke grading twice", () => {
    let tries = 0;
    const verdict = judge(outcome({ stdout: "kept" }), rubric([]), JOB, () => {
      tries += 1;
      throw new Error("broken");
    });
    expect(tries).toBe(2);
    expect(verdict).toMatchObject({
      kind: "failed",
      stdout: "kept",
      failure: { stage: "grade", class: "infra", code: "GRADING_FAILED", logTail: "kept" },
    });
  });

  it("is measured when the second try of grading goes well", () => {
    let tries = 0;
    const verdict = judge(outcome(), rubric([]), JOB, () => {
      tries += 1;
      if (tries === 1) throw new Error("broken");
      return { ok: true, scores: [] };
    });
    expect(verdict.kind).toBe("measured");
  });

  it("keeps the failure of an attempt that delivered nothing, and where it was", () => {
    const failure = {
      stage: "run" as const,
      class: "infra" as const,
      code: "NODE_LOST",
      message: "gone",
      retryable: true,
      placement: { unit: "evd-1", node: "n7", events: [] },
    };
    expect(judgeFailure(failure)).toEqual({
      kind: "failed",
      failure,
      stdout: "",
      stderr: "",
      node: "n7",
      durationMs: null,
    });
  });
});
