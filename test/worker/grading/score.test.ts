import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { base64, file, outcome, scoreOf } from "./outcomes.ts";

const LONG = "x".repeat(65_536);

describe("exit-code", () => {
  it("says what it expected and found", () => {
    expect(scoreOf(outcome({ exitCode: 2 }), { kind: "exit-code" }).detail).toBe("expected exit status 0, found 2");
  });

  it("hints at a command that does not exist", () => {
    expect(scoreOf(outcome({ exitCode: 127 }), { kind: "exit-code" }).detail).toContain("command not found");
    expect(scoreOf(outcome({ exitCode: 126 }), { kind: "exit-code" }).detail).toContain("not executable");
  });

  it("reads a signal as 128 + its number", () => {
    expect(scoreOf(outcome({ exitCode: null, signal: 15 }), { kind: "exit-code", equals: 143 }).pass).toBe(true);
  });
});

describe("contains", () => {
  it("looks at stdout, at stderr, and at a file", () => {
    const seen = outcome({ stdout: "out", stderr: "err", files: { f: file("in the file") } });
    expect(scoreOf(seen, { kind: "contains", value: "out" }).pass).toBe(true);
    expect(scoreOf(seen, { kind: "contains", value: "out", in: "stderr" }).pass).toBe(false);
    expect(scoreOf(seen, { kind: "contains", value: "err", in: "stderr" }).pass).toBe(true);
    expect(scoreOf(seen, { kind: "contains", value: "the file", in: "file", path: "f" }).pass).toBe(true);
  });

  it("takes the case's expected when it names no value", () => {
    expect(scoreOf(outcome({ stdout: "42" }), { kind: "contains" }, "42").pass).toBe(true);
    expect(scoreOf(outcome({ stdout: "41" }), { kind: "contains" }, "42").detail).toBe(
      'expected stdout to contain "42"; it ends with "41"',
    );
  });

  it("admits that it saw only the end of a long stream", () => {
    const seen = outcome({ stdout: LONG, stdoutBytes: 100_000 });
    expect(scoreOf(seen, { kind: "contains", value: "y" }).detail).toContain(
      "the last 65536 of 100000 bytes of stdout, all that was kept,",
    );
    expect(scoreOf(seen, { kind: "contains", value: "x" }).pass).toBe(true);
  });

  it("does not call a stream cut whose bytes were all kept", () => {
    const seen = outcome({ stdout: "a\ufffdb", stdoutBytes: 3 });
    expect(scoreOf(seen, { kind: "contains", value: "z" }).detail).toBe(
      'expected stdout to contain "z"; it ends with "a\ufffdb"',
    );
  });

  it("says when a file is missing or empty", () => {
    const grader = { kind: "contains" as const, value: "x", in: "file" as const, path: "f" };
    expect(scoreOf(outcome(), grader)).toMatchObject({ score: 0, detail: "file 'f' does not exist" });
    expect(scoreOf(outcome({ files: { f: file("") } }), grader).detail).toContain("it is empty");
  });

  it("never takes a property of every object for a file", () => {
    const grader = { kind: "contains" as const, value: "x", in: "file" as const, path: "constructor" };
    expect(scoreOf(outcome(), grader).detail).toBe("file 'constructor' does not exist");
  });
});

describe("regex", () => {
  it("finds a match anywhere, with flags", () => {
    const seen = outcome({ stdout: "one\nTwo" });
    expect(scoreOf(seen, { kind: "regex", pattern: "t.o" }).pass).toBe(false);
    expect(scoreOf(seen, { kind: "regex", pattern: "^t.o$", flags: "im" }).pass).toBe(true);
    expect(scoreOf(seen, { kind: "regex", pattern: "one.Two", flags: "s" }).pass).toBe(true);
  });

  it("tries a long file by its beginning and says so", () => {
    const seen = outcome({ files: { f: file(`${LONG}needle`) } });
    const score = scoreOf(seen, { kind: "regex", pattern: "needle", in: "file", path: "f" });
    expect(score.detail).toContain("the first 65536 characters of file 'f'");
  });
});

describe("json-match", () => {
  const seen = outcome({ stdout: 'working…\n{"a":{"b":[1,{"c":null}]},"n":1.5}\n', files: { r: file("[1,2]") } });

  it("finds values in the last line of chatter, and in a file", () => {
    expect(scoreOf(seen, { kind: "json-match", path: "$.a.b[0]", equals: 1 }).pass).toBe(true);
    expect(scoreOf(seen, { kind: "json-match", path: "$.a", equals: { b: [1, { c: null }] } }).pass).toBe(true);
    expect(scoreOf(seen, { kind: "json-match", path: "$.a.b[1].c", equals: null }).pass).toBe(true);
    expect(scoreOf(seen, { kind: "json-match", path: "$[1]", equals: 2, in: "file", file: "r" }).pass).toBe(true);
  });

  it("keeps null, absent and the wrong type apart", () => {
    expect(scoreOf(seen, { kind: "json-match", path: "$.a.z", equals: null }).detail).toBe(
      "expected null at $.a.z of stdout, found nothing at $.a.z",
    );
    expect(scoreOf(seen, { kind: "json-match", path: "$.n", equals: "1.5" }).detail).toBe(
      'expected "1.5" at $.n of stdout, found 1.5',
    );
    expect(scoreOf(seen, { kind: "json-match", path: "$.a.b['0']", equals: 1 }).pass).toBe(false);
    expect(scoreOf(seen, { kind: "json-match", path: "$.constructor", equals: 1 }).detail).toContain("found nothing");
  });

  it("reads expected as JSON or as the string it is", () => {
    const grader = { kind: "json-match" as const, path: "$.v" };
    expect(scoreOf(outcome({ stdout: '{"v":7}' }), grader, "7").pass).toBe(true);
    expect(scoreOf(outcome({ stdout: '{"v":"7"}' }), grader, "7").pass).toBe(true);
    expect(scoreOf(outcome({ stdout: '{"v":8}' }), grader, "7").pass).toBe(false);
  });

  it("says when the output is not JSON", () => {
    const score = scoreOf(outcome({ stdout: "oops" }), { kind: "json-match", path: "$", equals: 1 });
    expect(score.detail).toBe('expected stdout to be JSON; it ends with "oops"');
  });

  it("finds any JSON value equal to itself, whatever the order of its keys", () => {
    const reversed = (value: unknown): unknown =>
      Array.isArray(value)
        ? value.map(reversed)
        : typeof value === "object" && value !== null
          ? Object.fromEntries(
              Object.entries(value)
                .reverse()
                .map(([key, inner]) => [key, reversed(inner)]),
            )
          : value;
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        const parsed: unknown = JSON.parse(JSON.stringify(value));
        const stdout = JSON.stringify(reversed(parsed));
        expect(scoreOf(outcome({ stdout }), { kind: "json-match", path: "$", equals: parsed }).pass).toBe(true);
      }),
    );
  });
});

describe("file-equals", () => {
  it("compares to the byte", () => {
    const seen = outcome({ files: { f: file("héllo\n") } });
    expect(scoreOf(seen, { kind: "file-equals", path: "f", value: "héllo\n" }).pass).toBe(true);
    expect(scoreOf(seen, { kind: "file-equals", path: "f", value: "héllo" }).detail).toContain(
      "equal but for a newline at its end",
    );
    expect(scoreOf(seen, { kind: "file-equals", path: "f", value: "hello\n!" }).detail).toContain("from byte 1 on");
  });

  it("does not take a replaced byte for an equal one", () => {
    const seen = outcome({ files: { f: { bytes: 1, base64: Buffer.from([0xff]).toString("base64") } } });
    expect(scoreOf(seen, { kind: "file-equals", path: "f", value: "\ufffd" }).pass).toBe(false);
  });

  it("scores a cut file by what is known, and says that it cannot tell", () => {
    const grader = { kind: "file-equals" as const, path: "f", value: "abcdef" };
    const cut = (text: string, bytes: number) =>
      outcome({ files: { f: { bytes, base64: base64(text), truncated: true } } });
    expect(scoreOf(cut("abc", 6), grader)).toMatchObject({
      score: 0,
      detail: expect.stringContaining("cannot be told"),
    });
    expect(scoreOf(cut("abX", 6), grader).detail).toContain("from byte 2 on");
    expect(scoreOf(cut("abc", 7), grader).detail).toContain("found 7 bytes");
  });
});

describe("command", () => {
  it("passes with exit status 0, by its unique name", () => {
    const seen = outcome({ graderExits: { command: 0, tests: 1 } });
    expect(scoreOf(seen, { kind: "command", command: "true" }).pass).toBe(true);
    expect(scoreOf(seen, { kind: "command", command: "npm t", name: "tests" }).detail).toBe(
      "expected the command to exit with 0, found 1",
    );
  });

  it("hints at time and at missing commands", () => {
    const seen = outcome({ graderExits: { slow: 124, typo: 127 } });
    expect(scoreOf(seen, { kind: "command", command: "x", name: "slow" }).detail).toContain("60 s");
    expect(scoreOf(seen, { kind: "command", command: "x", name: "typo" }).detail).toContain("command not found");
  });
});
