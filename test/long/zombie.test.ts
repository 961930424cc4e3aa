import { rm } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ControlPlane, startRunner, until } from "../support/control-plane.ts";

/* A lease lasts 120 s: these take a little more, in real time. */

let plane: ControlPlane;
const runners: Awaited<ReturnType<typeof startRunner>>[] = [];

beforeAll(async () => {
  plane = await ControlPlane.start();
});
afterAll(async () => {
  for (const runner of runners) {
    runner.signal("SIGCONT");
    await runner.stop();
    await rm(runner.folder, { recursive: true, force: true });
  }
  await plane.stop();
});

const submit = (target: string) =>
  plane.client().call("submit_run", {
    body: {
      harness: { spec: { kind: "command", command: "sleep 3; echo done" } },
      case: { id: "c", task: "t" },
      runtime: target,
      retries: 0,
    },
  });
const runOf = (id: string) => plane.client().call("get_run", { params: { id } });

test("runs of a killed and of a frozen runner start again with a higher epoch, and the late answer is refused", {
  timeout: 240_000,
}, async () => {
  const killed = await startRunner(plane, { maxConcurrent: 1 });
  const frozen = await startRunner(plane, { maxConcurrent: 1 });
  runners.push(killed, frozen);
  const ids = [(await submit("self")).id, (await submit("self")).id];
  await until("both run", 20_000, async () =>
    (await Promise.all(ids.map(runOf))).every(({ status }) => status === "running"),
  );
  killed.signal("SIGKILL");
  frozen.signal("SIGSTOP");
  const healthy = await startRunner(plane, { maxConcurrent: 2 });
  runners.push(healthy);
  const ended = await until("both have ended", 180_000, async () => {
    const now = await Promise.all(ids.map(runOf));
    return now.every(({ finishedAt }) => finishedAt !== null) ? now : null;
  });
  for (const run of ended) {
    expect(run).toMatchObject({ status: "succeeded", epoch: 2 });
    expect(run.attempts.map(({ state }) => state)).toEqual(["lost", "succeeded"]);
  }
  const before = ended.map(({ finishedAt }) => finishedAt);
  frozen.signal("SIGCONT");
  await until("the frozen runner was told", 60_000, async () => /superseded/.test(frozen.output));
  const after = await Promise.all(ids.map(runOf));
  expect(after.map(({ finishedAt, epoch }) => [finishedAt, epoch])).toEqual(before.map((at) => [at, 2]));
  const { lanes } = await plane.client().call("get_queue");
  expect(lanes.every(({ slots }) => slots.inFlight === 0)).toBe(true);
});
