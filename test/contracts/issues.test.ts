import { describe, expect, test } from "vitest";
import type * as z from "zod";
import { caseIssues, EvalCase } from "../../contracts/case.ts";
import { issuesOf } from "../../contracts/errors.ts";
import { HarnessSpec } from "../../contracts/harness.ts";
import { LIMITS } from "../../contracts/names.ts";
import { RunRequest } from "../../contracts/operations/runs.ts";
import { ResultsRequest } from "../../contracts/runner-protocol.ts";
import { RuntimeSpec, runtimeIssues } from "../../contracts/runtime-spec.ts";
import { ScorecardRequest } from "../../contracts/scorecard.ts";

/** Every issue as `path: message`. */
function issues(schema: z.ZodType, value: unknown): string[] {
  const parsed = schema.safeParse(value);
  return parsed.success ? [] : issuesOf(parsed.error).map(({ path, message }) => `${path}: ${message}`);
}

describe("a union complains about the branch that was meant", () => {
  const harness = { kind: "command", id: "x", version: "1.0.0", command: "true" };
  const env = (value: unknown) => issues(HarnessSpec, { ...harness, env: { A: value } });

  test("a mistyped key of an object is named, although a text would complain once only", () => {
    expect(env({ secretref: "X" })).toContain("env.A.secretref: unknown key; remove it");
    expect(env({ secretRef: "X", use: "job" })).toEqual(["env.A.use: unknown key; remove it"]);
    expect(env({ secretRef: "1 x" })).toEqual([expect.stringMatching(/^env\.A\.secretRef: must be the NAME/)]);
  });

  test("what no branch takes is told every form", () => {
    expect(env(5)).toEqual(['env.A: must be a text, or {"secretRef": "NAME"} for a stored secret']);
    const versions = { dataset: { id: "a", version: 1 }, harness: { id: "b" } };
    expect(issues(ScorecardRequest, versions)).toEqual([
      'dataset.version: Invalid input: expected "latest" or string, received number',
    ]);
  });

  test("a list is a list", () => {
    const request = (runtime: unknown) =>
      issues(ScorecardRequest, { dataset: { id: "a" }, harness: { id: "b" }, runtime });
    expect(request(["self", 3])).toEqual(["runtime.1: Invalid input: expected string, received number"]);
    expect(request([])).toEqual([expect.stringMatching(/^runtime: Too small: expected array/)]);
    expect(request(3)).toEqual(["runtime: must be one target, or a list of targets"]);
  });

  test("an anonymous harness is not taken for a reference", () => {
    const request = (value: unknown) => issues(RunRequest, { case: { id: "c", task: "t" }, harness: value });
    expect(request({ spec: { kind: "command", comand: "x" } })).toEqual([
      "harness.spec.command: Invalid input: expected string, received undefined",
      "harness.spec.comand: unknown key; remove it",
    ]);
    expect(request({ id: "x", verison: "1.0.0" })).toEqual(["harness.verison: unknown key; remove it"]);
  });

  test("a runner's failure with several faults is a failure", () => {
    const failure = { stage: "run", class: "ours", code: "low", message: "m", retryable: "no" };
    const report = { instanceId: "i", results: [{ runId: "run_1", epoch: 1, outcome: { failure } }] };
    expect(issues(ResultsRequest, report).map((issue) => issue.split(":")[0])).toEqual(
      ["class", "code", "retryable"].map((field) => `results.0.outcome.failure.${field}`),
    );
  });
});

describe("what is refused is told the way that its own kind has", () => {
  const of = (spec: unknown) => runtimeIssues(RuntimeSpec.parse(spec));
  const key = "sk-abcdefghijklmnopqrstuv";
  const named = { id: "x", version: "1.0.0", image: "busybox:1", description: `uses ${key}` };

  test("a credential in a runtime, which has no env", () => {
    for (const [spec, field] of [
      [{ kind: "nomad", ...named, addr: "https://a.dev" }, "authSecret"],
      [{ kind: "k8s", ...named, server: "https://a.dev", authSecret: "T" }, "kubeconfigSecret"],
    ] as const) {
      const [issue, ...more] = of(spec);
      expect(more).toEqual([]);
      expect(issue).toEqual({ path: "description", message: expect.stringContaining(field) });
      expect(issue?.message).not.toMatch(/env\b|secretRef/);
    }
    const { image: _, ...local } = named;
    expect(of({ kind: "local", ...local })[0]?.message).toMatch(/remove it/);
    const address = of({ kind: "nomad", ...named, description: "d", addr: "https://me:pw@a.dev" });
    expect(address).toEqual([
      { path: "addr", message: expect.stringMatching(/user name or password; remove it.*authSecret/) },
    ]);
  });

  test("a case that is too large: by one file, by several together, by its prompt", () => {
    const large = "x".repeat(LIMITS.casePayloadBytes + 1);
    const half = large.slice(0, large.length / 2 + 10);
    const files = (content: Record<string, string>) => ({
      id: "c",
      task: "t",
      env: { kind: "repo", source: { kind: "files", files: content } },
    });
    expect(issues(EvalCase, files({ "a.txt": large }))).toEqual([
      `env.source.files.a.txt: is larger than ${LIMITS.casePayloadBytes} bytes; use a git source`,
    ]);
    expect(caseIssues(EvalCase.parse(files({ a: half, b: half })), "case")[0]?.message).toMatch(
      /^files .*; use a git source$/,
    );
    const prompt = (context: string) => ({ id: "c", task: half, env: { kind: "prompt", context } });
    expect(issues(EvalCase, prompt(large))).toEqual([expect.stringMatching(/^env\.context: is larger .*shorten it/)]);
    expect(caseIssues(EvalCase.parse(prompt(half)), "case")[0]?.message).toMatch(/^context .*shorten them/);
  });
});
