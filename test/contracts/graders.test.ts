import { describe, expect, it } from "vitest";
import * as z from "zod";
import {
  effectiveGraders,
  Grader,
  type GraderInput,
  gradedPaths,
  graderCommands,
  graderIssues,
  graderNames,
} from "../../contracts/graders.ts";

const parse = (...inputs: GraderInput[]): Grader[] => inputs.map((input) => Grader.parse(input));

describe("Grader", () => {
  it("fills in the defaults of each kind", () => {
    expect(Grader.parse({ kind: "exit-code" })).toEqual({ kind: "exit-code", equals: 0, weight: 1 });
    expect(Grader.parse({ kind: "contains", value: "x" })).toEqual({
      kind: "contains",
      value: "x",
      in: "stdout",
      weight: 1,
    });
  });

  it("names an unknown key instead of ignoring it", () => {
    const parsed = Grader.safeParse({ kind: "contains", vlaue: "x" });
    expect(parsed.success).toBe(false);
    expect(parsed.error?.issues[0]).toMatchObject({ code: "unrecognized_keys", keys: ["vlaue"] });
  });

  it.each(["/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a\u0000b", ""])("refuses the path %j", (path) => {
    expect(Grader.safeParse({ kind: "file-equals", path, value: "x" }).success).toBe(false);
  });

  it.each(["out.txt", "a/b/c.json", ".hidden", "a..b", "with space.txt"])("takes the path %j", (path) => {
    expect(Grader.safeParse({ kind: "file-equals", path, value: "x" }).success).toBe(true);
  });

  it.each(["$", "$.a", "$.a.b[0]", "$['any key'][3].x", "$.a-b"])("takes the JSON path %j", (path) => {
    expect(Grader.safeParse({ kind: "json-match", path, equals: 1 }).success).toBe(true);
  });

  it.each(["a", "$.", "$..a", "$[01]", "$[*]", "$.a b"])("refuses the JSON path %j", (path) => {
    expect(Grader.safeParse({ kind: "json-match", path, equals: 1 }).success).toBe(false);
  });

  it("bounds the JSON value by its size and keeps null apart from absent", () => {
    expect(Grader.safeParse({ kind: "json-match", path: "$", equals: "x".repeat(17_000) }).success).toBe(false);
    expect(Grader.parse({ kind: "json-match", path: "$", equals: null })).toHaveProperty("equals", null);
  });

  it.each(["g", "ii", "x"])("refuses the regex flags %j", (flags) => {
    expect(Grader.safeParse({ kind: "regex", pattern: "a", flags }).success).toBe(false);
  });

  it("has a JSON Schema without references to itself, so that the OpenAPI document and the tools can carry it", () => {
    expect(JSON.stringify(z.toJSONSchema(Grader, { io: "input" }))).not.toContain("$ref");
  });
});

describe("graderNames", () => {
  it("numbers the kinds that repeat", () => {
    expect(graderNames(parse({ kind: "exit-code" }, { kind: "exit-code" }, { kind: "exit-code" }))).toEqual([
      "exit-code",
      "exit-code-2",
      "exit-code-3",
    ]);
  });

  it("never takes a name that another grader states", () => {
    const graders = parse({ kind: "exit-code" }, { kind: "exit-code", name: "exit-code" });
    expect(graderNames(graders)).toEqual(["exit-code-2", "exit-code"]);
  });
});

describe("what the program must do for the graders", () => {
  it("collects every graded file once, and none that only seems to be named", () => {
    const graders = parse(
      { kind: "file-equals", path: "a", value: "" },
      { kind: "contains", in: "file", path: "b", value: "x" },
      { kind: "json-match", path: "$.z", in: "file", file: "a", equals: 1 },
      { kind: "json-match", path: "$.z", equals: 1 },
    );
    expect(gradedPaths(graders)).toEqual(["a", "b"]);
  });

  it("runs the command graders under their unique names", () => {
    expect(graderCommands(parse({ kind: "command", command: "true" }, { kind: "command", command: "false" }))).toEqual([
      { name: "command", command: "true" },
      { name: "command-2", command: "false" },
    ]);
  });
});

describe("graderIssues", () => {
  it("finds nothing wrong with graders that are complete", () => {
    expect(graderIssues(parse({ kind: "exit-code" }, { kind: "contains", value: "hi" }), undefined)).toEqual([]);
  });

  it("lets expected stand for an absent value, and asks for one of the two", () => {
    const graders = parse({ kind: "contains" }, { kind: "file-equals", path: "o" }, { kind: "json-match", path: "$" });
    expect(graderIssues(graders, "hi")).toEqual([]);
    expect(graderIssues(graders, undefined).map((issue) => issue.path)).toEqual([
      "graders.0.value",
      "graders.1.value",
      "graders.2.equals",
    ]);
  });

  it("refuses two graders of one name, a file without a path, and a path that is not looked at", () => {
    const graders = parse(
      { kind: "exit-code", name: "a" },
      { kind: "contains", value: "x", name: "a", in: "file" },
      { kind: "regex", pattern: "x", path: "out.txt" },
    );
    expect(graderIssues(graders, undefined, "case.graders")).toEqual([
      { path: "case.graders.1.name", message: "'a' is already the name of case.graders.0" },
      { path: "case.graders.1.path", message: 'is needed with "in": "file": the file to look at' },
      { path: "case.graders.2.in", message: 'must be "file" when path is given' },
    ]);
  });

  it("bounds the regex graders of a case, each of which may cost a second of CPU", () => {
    const graders = parse(...Array.from({ length: 11 }, (): GraderInput => ({ kind: "regex", pattern: "a" })));
    expect(graderIssues(graders, undefined)).toHaveLength(1);
    expect(graderIssues(graders.slice(1), undefined)).toEqual([]);
  });

  it("refuses weights that are all 0", () => {
    expect(graderIssues(parse({ kind: "exit-code", weight: 0 }), undefined)).toHaveLength(1);
  });
});

describe("effectiveGraders", () => {
  it("judges a case without graders by its exit status", () => {
    expect(effectiveGraders([])).toEqual([{ kind: "exit-code", equals: 0, weight: 1 }]);
  });
});
