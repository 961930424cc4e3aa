import { describe, expect, it } from "vitest";
import { Grader } from "../../contracts/graders.ts";
import { judge } from "../../worker/grading/judge.ts";
import { regexIssue } from "../../worker/grading/regex.ts";

describe("grading in workerd", () => {
  it("compiles and refuses patterns as in Node", () => {
    expect(regexIssue("^a(b|c)+$", "im")).toBeNull();
    expect(regexIssue("(?<=a)b")).toContain("look-around");
  });

  it("judges an outcome", () => {
    const graders = [
      Grader.parse({ kind: "regex", pattern: "h[i]" }),
      Grader.parse({ kind: "file-equals", path: "o", value: "é" }),
    ];
    const outcome = {
      exitCode: 0,
      signal: null,
      durationMs: 1,
      timedOut: false,
      stdout: "hi",
      stderr: "",
      stdoutBytes: 2,
      stderrBytes: 0,
      graderExits: {},
      files: { o: { bytes: 2, base64: "w6k=" } },
      diff: null,
      node: "n",
    };
    const job = { timeoutSec: 1, image: null, resources: { cpu: null, memoryMb: null, gpu: null } };
    expect(judge(outcome, { graders }, job)).toMatchObject({ kind: "measured", result: { score: 1, pass: true } });
  });
});
