import { afterEach, beforeEach, expect, test } from "vitest";
import { RESULT_MARK } from "../../contracts/job.ts";
import type { BackendAttempt } from "../../worker/backends/backend.ts";
import { attemptOf, randomOwner } from "./attempts.ts";
import { observeEnds } from "./conformance.ts";
import { type FakeTarget, fakeKubernetesTarget } from "./fake-kubernetes-target.ts";

const owner = randomOwner();
let target: FakeTarget;
let attempt: BackendAttempt;
/** What the API would answer to the next read of the log; null: what the container wrote. */
let log: { status: number; body: string } | null = null;
const asked: string[] = [];

beforeEach(async () => {
  target = fakeKubernetesTarget();
  attempt = attemptOf(owner, { program: { command: "sleep 30" } });
  await target.backend(owner).start(attempt);
  await observeEnds(target.backend(owner), [attempt], ({ state }) => state === "running");
  target.fake.fault = ({ path }) => {
    if (!path.includes("/log?")) return null;
    asked.push(path);
    return log && { kind: "answer", ...log };
  };
});
afterEach(() => target.close());

/** One step; what it took. */
async function step(cursor: string | null, most = Number.POSITIVE_INFINITY) {
  let text = "";
  const answer = await target.backend(owner).follow(attempt.job.name, cursor, (raw) => {
    const taken = raw.subarray(0, most);
    text += new TextDecoder().decode(taken);
    return taken.length;
  });
  return { ...answer, text };
}

const at = (nanoseconds: string): string => `2026-11-30T08:00:07.${nanoseconds}Z`;

test("K 55: lines of the same second come again and are told apart, those of the same stamp by their number", async () => {
  log = { status: 200, body: `${at("100000000")} a\n${at("200000000")} b\n` };
  const first = await step(null);
  expect(first.text).toBe("a\nb\n");
  log.body += `${at("200000000")} b\n${at("200000000")} c\n${at("300000000")} d\n`;
  const second = await step(first.cursor);
  expect(second.text).toBe("b\nc\nd\n");
  expect(asked.at(-1)).toContain(`sinceTime=${encodeURIComponent(at("200000000"))}`);
  expect((await step(second.cursor)).text).toBe("");
  // Another one goes on in the middle of a line.
  log.body += `${at("400000000")} eleven bytes\n`;
  const part = await step(second.cursor, 6);
  const rest = await step(part.cursor);
  expect([part.text, rest.text]).toEqual(["eleven", " bytes\n"]);
});

test("a line that grows is followed as it grows, and a result line never shows, not even its beginning", async () => {
  log = { status: 200, body: `${at("100000000")} half` };
  const first = await step(null);
  log.body = `${at("100000000")} half and the rest\n${at("200000000")} ${RESULT_MARK.slice(0, 7)}`;
  const second = await step(first.cursor);
  expect([first.text, second.text]).toEqual(["half", " and the rest\n"]);
  log.body = `${at("100000000")} half and the rest\n${at("200000000")} ${RESULT_MARK} ${"0".repeat(32)} abc\n${at("300000000")} after\n`;
  expect((await step(second.cursor)).text).toBe("after\n");
});

test("K 58: an error of the kubelet's that comes as the text of a 200 is no output", async () => {
  log = { status: 200, body: "unable to retrieve container logs for containerd://4cf35ab6f1" };
  expect(await step(null)).toMatchObject({ text: "", live: true });
});

test("K 56, K 57: a container that has not started, or that the kubelet does not know yet, has no output yet", async () => {
  const status = (code: number, message: string) => ({
    status: code,
    body: JSON.stringify({
      kind: "Status",
      status: "Failure",
      message,
      reason: code === 400 ? "BadRequest" : "NotFound",
      code,
    }),
  });
  log = status(400, 'container "main" in pod "x" is waiting to start: ContainerCreating');
  expect(await step(null)).toMatchObject({ text: "", live: true });
  log = status(404, "the server could not find the requested resource ( pods/log x)");
  expect(await step(null)).toMatchObject({ text: "", live: true });
});

test("K 61: a node that is away is an error of the step, after which the log goes on where it was", async () => {
  log = { status: 200, body: `${at("100000000")} a\n` };
  const first = await step(null);
  log = {
    status: 500,
    body: JSON.stringify({
      kind: "Status",
      status: "Failure",
      message: 'Get "https://10.0.0.1:10250": connection refused',
      code: 500,
    }),
  };
  await expect(step(first.cursor)).rejects.toMatchObject({ code: "UPSTREAM_ERROR" });
  log = { status: 200, body: `${at("100000000")} a\n${at("200000000")} b\n` };
  expect((await step(first.cursor)).text).toBe("b\n");
});

test("K 59: what the kubelet has rotated away is missing, and what it still serves is followed", async () => {
  log = { status: 200, body: `${at("100000000")} old\n` };
  const first = await step(null);
  log = { status: 200, body: `${at("900000000")} newest file\n` };
  expect((await step(first.cursor)).text).toBe("newest file\n");
});

test("K 60: a phase that lags keeps the log live; the end of the pod ends it", async () => {
  log = null;
  expect((await step(null)).live).toBe(true);
  await target.evictUnit(attempt.job.name);
  await expect
    .poll(async () => (await step(null).catch(({ code }) => ({ live: code }))).live, { timeout: 20_000 })
    .toBe("NOT_FOUND");
});

test("a burst is handed on in steps of bounded size", async () => {
  const line = "x".repeat(1_000);
  log = { status: 200, body: Array.from({ length: 2_500 }, () => `${at("100000000")} ${line}\n`).join("") };
  let cursor: string | null = null;
  let bytes = 0;
  let steps = 0;
  for (let more = true; more; steps++) {
    const taken = await step(cursor);
    bytes += taken.text.length;
    ({ cursor, more } = taken);
  }
  expect([bytes, steps]).toEqual([2_500 * 1_001, 3]);
});
