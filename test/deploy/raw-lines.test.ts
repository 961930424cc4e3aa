import { expect, test } from "vitest";
import { RawLines } from "../../scripts/raw-lines.ts";

const NO_HOST = (n: number): string =>
  `e = rust/worker/ffi.rs:110: failed: failed to lookup address information: Name or service not known\nstack: /bin/workerd@28a3c6${n} /bin/workerd@3ac758${n}`;

function world() {
  const out: string[] = [];
  let now = 0;
  const raw = new RawLines(
    (line) => out.push(line),
    () => now,
  );
  return { out, raw, pass: (ms: number) => (now += ms) };
}

test("what the runtime repeats is shown once, with its stack, and counted from then on", () => {
  const { out, raw, pass } = world();
  for (let n = 0; n < 500; n++) {
    raw.take(NO_HOST(n % 10));
    pass(1_000);
  }
  expect(out).toEqual(NO_HOST(0).split("\n"));
  pass(600_000);
  raw.take(NO_HOST(3));
  expect(out.slice(2)).toEqual([expect.stringMatching(/^\(499 more like it: e = rust/), ...NO_HOST(3).split("\n")]);
  raw.take(NO_HOST(4));
  raw.close();
  expect(out.at(-1)).toMatch(/^\(1 more like it: /);
});

test("a stack that comes as a message of its own goes with the line before it", () => {
  const { out, raw } = world();
  for (let n = 0; n < 3; n++) for (const line of NO_HOST(n).split("\n")) raw.take(line);
  expect(out).toEqual(NO_HOST(0).split("\n"));
});

test("the Worker's lines, other reports and crashes are shown whenever they come", () => {
  const { out, raw } = world();
  const lines = [
    '{"event":"request","status":200}',
    '{"event":"request","status":200}',
    "uncaught exception; source = a",
    "*** Received signal #11: Segmentation fault",
    "*** Received signal #11: Segmentation fault",
    "stack: 1 2 3",
  ];
  for (const line of lines) raw.take(line);
  expect(out).toEqual(lines);
});
