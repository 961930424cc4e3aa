import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OUTCOME_MAX_BYTES, RESULT_MARK } from "../../contracts/job.ts";
import {
  base64Of,
  decodeOutcome,
  findOutcome,
  outcomeOfText,
  ResultScanner,
  tryDecodeOutcome,
} from "../../contracts/outcome.ts";

const NONCE = "0123456789abcdef0123456789abcdef";
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const RECORDS =
  "everdict 1\nexit 3\nms 12\ntimeout 0\nnode +2\nn1\ngrader 1 +4\nt\n+1\nout 5 +5\nhi\nho\nerr 0 +0\n\nfile 9 +1 +3\na\nabc\ndiff 2 +2\n-+\n";
const line = (records: string, nonce = NONCE): string => `${RESULT_MARK} ${nonce} ${base64Of(bytes(records))}`;

describe("an Outcome is read from records", () => {
  test("with every part, whatever bytes the parts hold", () => {
    expect(decodeOutcome(line(RECORDS))).toEqual({
      exitCode: 3,
      signal: null,
      durationMs: 12,
      timedOut: false,
      stdout: "hi\nho",
      stderr: "",
      stdoutBytes: 5,
      stderrBytes: 0,
      graderExits: { "t\n+1": 1 },
      files: { a: { bytes: 9, base64: "YWJj", truncated: true } },
      diff: "-+",
      node: "n1",
      truncated: ["a"],
    });
  });

  test("a tail that starts inside a character loses the rest of it; other bad bytes are replaced", () => {
    const tail = Uint8Array.from([0x9f, 0x98, 0x80, 0x61, 0xff]);
    const head = bytes("everdict 1\nexit 0\nms 0\ntimeout 0\nnode +0\n\nerr 0 +0\n\nout 9 +5\n");
    const outcome = decodeOutcome(base64Of(Uint8Array.from([...head, ...tail, 10])));
    expect(outcome.stdout).toBe("a\ufffd");
    expect(outcome.truncated).toEqual(["stdout"]);
  });

  test.each([
    ["not base64", "%%%"],
    ["another format", base64Of(bytes("everdict 2\n"))],
    ["a cut body", base64Of(bytes("everdict 1\nout 5 +50\nhi\n"))],
    ["an unknown record", base64Of(bytes("everdict 1\nwhat 1\n"))],
    ["an exit code out of range", base64Of(bytes("everdict 1\nexit 999\n"))],
    ["a negative length", base64Of(bytes("everdict 1\nout 5 +-1\n\n"))],
    ["more than an Outcome may be", "A".repeat(OUTCOME_MAX_BYTES + 4)],
  ])("%s is no Outcome", (_what, text) => {
    expect(tryDecodeOutcome(text)).toBeNull();
  });

  test("random bytes never throw anything but a refusal", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (noise) => void tryDecodeOutcome(base64Of(noise))));
    fc.assert(
      fc.property(fc.string(), fc.nat(RECORDS.length), (noise, at) => {
        tryDecodeOutcome(base64Of(bytes(RECORDS.slice(0, at) + noise + RECORDS.slice(at))));
      }),
    );
  });
});

describe("the result line is found in a stream", () => {
  test("wherever the stream is cut, and the rest passes unchanged", () => {
    const before = `log ${RESULT_MARK}\n${line(RECORDS, "0".repeat(32))}\n${RESULT_MARK} ${NONCE} bm9wZQ==\n`;
    const stream = bytes(`${before}${line(RECORDS)}\nafter`);
    fc.assert(
      fc.property(fc.array(fc.nat(stream.length), { maxLength: 20 }), (cuts) => {
        const scanner = new ResultScanner(NONCE);
        const edges = [0, ...cuts.sort((a, b) => a - b), stream.length];
        const out = edges.slice(1).map((end, index) => scanner.push(stream.subarray(edges[index], end)));
        const passed = Buffer.concat([...out, scanner.end()]).toString();
        expect(passed).toBe(`${before}after`);
        expect(scanner.outcome?.exitCode).toBe(3);
      }),
    );
  });

  test("a line of 10 MB is passed on as it comes, not held", () => {
    const scanner = new ResultScanner(NONCE);
    const chunk = new Uint8Array(1024 * 1024).fill(120);
    for (let i = 0; i < 10; i++) expect(scanner.push(chunk)).toHaveLength(chunk.length);
    scanner.push(bytes(`\n${line(RECORDS)}\n`));
    expect(scanner.outcome?.exitCode).toBe(3);
  });

  test("a line that only begins like a result is let go when it grows too long", () => {
    const scanner = new ResultScanner(NONCE);
    const start = bytes(`${RESULT_MARK} ${NONCE} `);
    let passed = scanner.push(start).length;
    for (let i = 0; i < 40; i++) passed += scanner.push(new Uint8Array(10_000).fill(65)).length;
    expect(passed).toBe(start.length + 400_000);
  });

  test("the first valid line counts, or the last where it is asked for", () => {
    const log = `${line(RECORDS)}\n${line(RECORDS.replace("exit 3", "exit 4"))}\n`;
    expect(findOutcome(log, NONCE, "first")?.exitCode).toBe(3);
    expect(findOutcome(log, NONCE, "last")?.exitCode).toBe(4);
    expect(findOutcome(`x${log.slice(0, 40)}`, NONCE, "first")).toBeNull();
  });

  test("a file or termination message must be the line alone, with the right nonce", () => {
    expect(outcomeOfText(`${line(RECORDS)}\n`, NONCE)?.exitCode).toBe(3);
    expect(outcomeOfText(line(RECORDS, "f".repeat(32)), NONCE)).toBeNull();
    expect(outcomeOfText(`x ${line(RECORDS)}`, NONCE)).toBeNull();
  });
});
