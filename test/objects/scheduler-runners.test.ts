import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import type { Settlement } from "../../contracts/rpc.ts";
import { resetScript, script } from "./dispatcher.ts";
import { entryOf, LIMITS, measured, pollOf } from "./scheduler-builders.ts";

beforeEach(resetScript);
let objects = 0;

async function runnerObject() {
  const object = `runners:ws:acme${++objects}`;
  const stub = env.SCHEDULER.getByName(object);
  await stub.pairRunner(object, { id: "rnr-1", label: "laptop", tokenHash: "hash-1" });
  return { object, stub };
}

test("an entry reaches a parked poll, is accepted, and its result is settled through the outbox", async () => {
  const settled: Settlement[] = [];
  script.settle = async (settlements) => {
    settled.push(...settlements);
    return settlements.map((settlement) => settlement.runId);
  };
  const { object, stub } = await runnerObject();
  const polling = stub.lease("hash-1", pollOf({ waitMs: 5_000 }));
  const entry = entryOf();
  const answers = await stub.enqueue(object, null, LIMITS, [entry]);
  expect(answers).toEqual([{ runId: entry.runId, ok: true }]);
  const leased = await polling;
  expect(leased).toMatchObject({
    ok: true,
    grants: [{ runId: entry.runId, epoch: 1, programJson: JSON.stringify("echo hi") }],
  });
  const beat = await stub.heartbeat("hash-1", {
    instanceId: "i1",
    attempts: [{ runId: entry.runId, epoch: 1, phase: "accepted" }],
  });
  expect(beat).toEqual({ ok: true, attempts: [{ runId: entry.runId, epoch: 1, verdict: "extended" }] });
  const done = await stub.results("hash-1", "i1", [measured(entry.runId, 1)], null);
  expect(done).toMatchObject({ ok: true, accepted: [{ runId: entry.runId, epoch: 1, accepted: true }] });
  await expect.poll(() => settled.length).toBe(1);
  expect(settled[0]).toMatchObject({ runId: entry.runId, status: "succeeded", stdout: "hi" });
});

test("a queue survives eviction and goes on with the next poll", async () => {
  const { object, stub } = await runnerObject();
  const entry = entryOf();
  await stub.enqueue(object, null, LIMITS, [entry]);
  await evictDurableObject(stub);
  expect(await stub.views([entry.runId])).toMatchObject([{ status: "queued", epoch: 0 }]);
  const leased = await stub.lease("hash-1", pollOf());
  expect(leased).toMatchObject({ ok: true, grants: [{ runId: entry.runId, epoch: 1 }] });
  await evictDurableObject(stub);
  expect(await stub.views([entry.runId])).toMatchObject([{ status: "dispatching", epoch: 1 }]);
  await runInDurableObject(stub, async (_, state) => {
    expect(await state.storage.getAlarm()).not.toBeNull();
  });
});
