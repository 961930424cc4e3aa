import { afterEach, beforeEach, expect, test } from "vitest";
import { ApiClient } from "../../runner/api-client.ts";
import { LogUploader } from "../../runner/loops/logs.ts";
import { maskPatterns } from "../../runner/mask.ts";
import { FakeControlPlane, LOG_TOKEN } from "./fake-control-plane.ts";
import { attemptOf } from "./jobs.ts";

let control: FakeControlPlane;
let client: ApiClient;
beforeEach(async () => {
  control = new FakeControlPlane();
  client = new ApiClient(await control.start());
});
afterEach(async () => {
  await client.close();
  await control.stop();
});

const ref = attemptOf("true");
const logOf = (stream: string): string => (control.logs.get(`${ref.runId}/1/${stream}`) ?? Buffer.alloc(0)).toString();
const uploader = (secrets: string[] = [], token = LOG_TOKEN): LogUploader =>
  new LogUploader({ client, flushMs: 20 }, ref, token, maskPatterns(secrets));
const outcome = (stdoutBytes: number) => ({
  exitCode: 0,
  signal: null,
  durationMs: 1,
  timedOut: false,
  stdout: "",
  stderr: "",
  stdoutBytes,
  stderrBytes: 0,
  graderExits: {},
  files: {},
  diff: null,
  node: "n",
});

test("chunks arrive in order, streams apart, gathered, through errors and lost answers", async () => {
  control.fault = (_path, seen) =>
    seen === 1 ? { status: 503 } : seen === 2 ? "lost" : seen === 4 ? "cut" : undefined;
  const log = uploader();
  let wanted = "";
  for (let line = 0; line < 300; line++) {
    log.write("stdout", Buffer.from(`line ${line}\n`));
    wanted += `line ${line}\n`;
    if (line % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  log.write("stderr", Buffer.from("warning\n"));
  await log.finish(null, 20_000);
  expect(logOf("stdout")).toBe(wanted);
  expect(logOf("stderr")).toBe("warning\n");
  expect(control.logCalls.length).toBeLessThan(30);
});

test("a 409 tells where to go on when an answer was lost", async () => {
  const log = uploader();
  control.logs.set(`${ref.runId}/1/stdout`, Buffer.from("one\n"));
  log.write("stdout", Buffer.from("one\ntwo\n"));
  await log.finish(null, 10_000);
  expect(logOf("stdout")).toBe("one\ntwo\n");
});

test("output of more than a chunk is split; of what the buffer cannot hold the newest is kept, and the rest counted in words", async () => {
  control.fault = (_path, seen) => (seen <= 1 ? { status: 503, headers: { "retry-after": "1" } } : undefined);
  const log = uploader();
  for (let part = 0; part < 12; part++) log.write("stdout", Buffer.alloc(1_000_000, "x"));
  log.write("stdout", Buffer.from("END\n"));
  await log.finish(null, 20_000);
  expect(Math.max(...control.logCalls.map((call) => call.bytes))).toBeLessThanOrEqual(1024 * 1024);
  expect(logOf("stdout")).toMatch(/^\n\[8854276 bytes are missing here\]\nx+END\n$/);
});

test("an output that the Outcome holds whole is not uploaded, a longer one is", async () => {
  const short = uploader();
  short.write("stdout", Buffer.from("short\n"));
  await short.finish(outcome(6), 1_000);
  expect(control.logCalls).toEqual([]);
  const long = uploader();
  long.write("stdout", Buffer.alloc(70_000, "y"));
  await long.finish(outcome(70_000), 10_000);
  expect(logOf("stdout")).toHaveLength(70_000);
});

test("secrets never leave, wherever chunks are cut", async () => {
  const log = uploader(["super-secret-value"]);
  for (const piece of ["a super-se", "cret-", "value b"]) {
    log.write("stdout", Buffer.from(piece));
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  await log.finish(null, 10_000);
  expect(logOf("stdout")).toBe("a *** b");
});

test("a refused token ends the upload and nothing else", async () => {
  const log = uploader([], "wrong");
  log.write("stdout", Buffer.from("x"));
  await log.finish(null, 10_000);
  log.write("stdout", Buffer.from("y"));
  await log.finish(null, 10_000);
  expect(control.logCalls).toHaveLength(1);
});
