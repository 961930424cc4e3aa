import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, test } from "vitest";
import type { Grant, Settlement } from "../../contracts/rpc.ts";
import { resetScript, script } from "./dispatcher.ts";
import { ENVELOPE, entryOf, LIMITS, measured, pollOf } from "./scheduler-builders.ts";

beforeEach(resetScript);
let objects = 0;

async function runnerObject() {
  const object = `runners:ws:durable${++objects}`;
  const stub = env.SCHEDULER.getByName(object);
  await stub.pairRunner(object, { id: "rnr-1", label: "laptop", tokenHash: "hash-1" });
  return { object, stub };
}

/** One run that the process i1 has accepted. */
async function accepted() {
  const { object, stub } = await runnerObject();
  const entry = entryOf();
  await stub.enqueue(object, null, LIMITS, [entry]);
  const leased = await stub.lease("hash-1", pollOf());
  expect(leased).toMatchObject({ ok: true, grants: [{ runId: entry.runId, epoch: 1 }] });
  const ref = { runId: entry.runId, epoch: 1 };
  await stub.heartbeat("hash-1", { instanceId: "i1", attempts: [{ ...ref, phase: "accepted" }] });
  return { object, stub, entry, ref };
}

test("an accepted attempt survives eviction and its result still counts", async () => {
  const { stub, ref } = await accepted();
  await evictDurableObject(stub);
  expect(await stub.heartbeat("hash-1", { instanceId: "i1", attempts: [{ ...ref, phase: "running" }] })).toMatchObject({
    attempts: [{ verdict: "extended" }],
  });
  await evictDurableObject(stub);
  expect(await stub.results("hash-1", "i1", [measured(ref.runId, 1)], null)).toMatchObject({
    accepted: [{ accepted: true }],
  });
});

test("a cancelled attempt is still stopping after eviction, and its parked poll is told", async () => {
  const { stub, ref } = await accepted();
  expect(await stub.cancel([ref.runId], "not needed")).toEqual([{ runId: ref.runId, state: "stopping" }]);
  await evictDurableObject(stub);
  const told = await stub.lease("hash-1", pollOf({ waitMs: 5_000, slots: { total: 4, free: 0 } }));
  expect(told).toMatchObject({ commands: [{ ...ref, verdict: "cancel" }] });
  expect(await stub.cancel([ref.runId], "again")).toEqual([{ runId: ref.runId, state: "stopping" }]);
});

test("a parked poll is answered at once when its run is cancelled", async () => {
  const { stub, ref } = await accepted();
  const polling = stub.lease("hash-1", pollOf({ waitMs: 20_000, slots: { total: 4, free: 0 } }));
  await runInDurableObject(stub, () => undefined);
  await stub.cancel([ref.runId], "not needed");
  expect(await polling).toMatchObject({ commands: [{ ...ref, verdict: "cancel" }] });
});

test("the same result again is accepted again, also after eviction", async () => {
  const { stub, ref } = await accepted();
  const result = [measured(ref.runId, 1)];
  const first = await stub.results("hash-1", "i1", result, null);
  expect(await stub.results("hash-1", "i1", result, null)).toEqual(first);
  await evictDurableObject(stub);
  expect(await stub.results("hash-1", "i1", result, null)).toEqual(first);
});

test("a settlement stays in the outbox while D1 fails, is shown meanwhile, and is delivered after eviction", async () => {
  const stored: Settlement[] = [];
  script.settle = async () => {
    throw new Error("D1 stalls");
  };
  const { stub, ref } = await accepted();
  await stub.results("hash-1", "i1", [measured(ref.runId, 1)], null);
  expect(await stub.views([ref.runId])).toMatchObject([{ status: "succeeded", settlement: { runId: ref.runId } }]);
  await evictDurableObject(stub);
  script.settle = async (settlements) => {
    stored.push(...settlements);
    return settlements.map(({ runId }) => runId);
  };
  await stub.sweep();
  await expect.poll(() => stored.map(({ runId }) => runId)).toContain(ref.runId);
  await expect.poll(() => stub.views([ref.runId])).toEqual([]);
});

test("a settlement that D1 did not confirm is written again", async () => {
  const calls: number[] = [];
  script.settle = async (settlements) => {
    calls.push(settlements.length);
    return calls.length === 1 ? [] : settlements.map(({ runId }) => runId);
  };
  const { stub, ref } = await accepted();
  await stub.results("hash-1", "i1", [measured(ref.runId, 1)], null);
  await expect.poll(() => calls.length, { timeout: 5_000 }).toBe(2);
});

test("an alarm that fires twice, and early, changes nothing", async () => {
  const { stub, ref } = await accepted();
  await runDurableObjectAlarm(stub);
  await runDurableObjectAlarm(stub);
  expect(await stub.views([ref.runId])).toMatchObject([{ epoch: 1, status: "dispatching" }]);
  await runInDurableObject(stub, async (_, state) => {
    expect(await state.storage.getAlarm()).toBeGreaterThan(Date.now());
  });
});

test("a new poll of the same process answers the parked one with nothing", async () => {
  const { object, stub } = await runnerObject();
  const first = stub.lease("hash-1", pollOf({ waitMs: 20_000 }));
  await runInDurableObject(stub, () => undefined);
  const second = stub.lease("hash-1", pollOf({ waitMs: 20_000 }));
  expect(await first).toEqual({ ok: true, grants: [], commands: [] });
  const entry = entryOf();
  await stub.enqueue(object, null, LIMITS, [entry]);
  expect(await second).toMatchObject({ grants: [{ runId: entry.runId }] });
});

test("a poll that finds nothing is answered at its waitMs", async () => {
  const { stub } = await runnerObject();
  expect(await stub.lease("hash-1", pollOf({ waitMs: 50 }))).toEqual({ ok: true, grants: [], commands: [] });
});

test("a revoked runner's parked poll and all its later messages are refused", async () => {
  const { stub } = await runnerObject();
  const polling = stub.lease("hash-1", pollOf({ waitMs: 20_000 }));
  await runInDurableObject(stub, () => undefined);
  expect(await stub.revokeRunner("rnr-1")).toMatchObject({ done: true });
  const refused = { ok: false, code: "UNAUTHENTICATED" };
  expect(await polling).toEqual(refused);
  await evictDurableObject(stub);
  expect(await stub.lease("hash-1", pollOf())).toEqual(refused);
  expect(await stub.heartbeat("hash-1", { instanceId: "i1", attempts: [] })).toEqual(refused);
  expect(await stub.revokeRunner("rnr-1")).toEqual({ done: false, held: [] });
});

test("an unknown token is refused", async () => {
  const { stub } = await runnerObject();
  expect(await stub.lease("hash-2", pollOf())).toEqual({ ok: false, code: "UNAUTHENTICATED" });
});

test("operations of one turn share one write and each gets its own answer", async () => {
  const { object, stub } = await runnerObject();
  const entries = Array.from({ length: 40 }, () => entryOf());
  const answers = await Promise.all(entries.map((entry) => stub.enqueue(object, null, LIMITS, [entry])));
  expect(answers.map(([answer]) => answer?.runId)).toEqual(entries.map(({ runId }) => runId));
  const leased = await stub.lease("hash-1", pollOf({ slots: { total: 100, free: 100 } }));
  expect(leased.ok && leased.grants).toHaveLength(40);
  const results = entries.map(({ runId }) => measured(runId, 1));
  const more = entryOf();
  await stub.enqueue(object, null, LIMITS, [more]);
  const done = await stub.results(
    "hash-1",
    "i1",
    results,
    pollOf({ slots: { total: 100, free: 100 }, waitMs: 20_000 }),
  );
  expect(done).toMatchObject({ ok: true, grants: [{ runId: more.runId }] });
  expect(done.ok && done.accepted.every(({ accepted }) => accepted)).toBe(true);
});

test("a push object starts through the Dispatcher, observes, and settles what was observed", async () => {
  const entry = entryOf({ target: "gpu" });
  const starts: Grant[] = [];
  const observed: number[] = [];
  script.start = async (_object, grants) => {
    starts.push(...grants);
    return grants.map(({ runId, epoch, name }) => {
      return {
        kind: "started",
        runId,
        epoch,
        externalId: name,
        node: "n1",
        runtimeVersion: "1.0.0",
        ranOn: "nomad:gpu@1.0.0",
      };
    });
  };
  script.observe = async (_object, units) => {
    observed.push(units.length);
  };
  const settled: Settlement[] = [];
  script.settle = async (settlements) => {
    settled.push(...settlements.filter(({ runId }) => runId === entry.runId));
    return settlements.map(({ runId }) => runId);
  };
  const object = `cluster:acme:gpu${++objects}`;
  const stub = env.SCHEDULER.getByName(object);
  await stub.enqueue(object, ENVELOPE, LIMITS, [entry]);
  await expect.poll(() => starts.length).toBe(1);
  expect(starts[0]).toMatchObject({ runId: entry.runId, epoch: 1, nonce: expect.stringMatching(/^[0-9a-f]{32}$/) });
  await expect.poll(() => observed.length, { timeout: 5_000 }).toBeGreaterThan(0);
  await evictDurableObject(stub);
  const { verdict } = measured(entry.runId, 1);
  const unit = { runId: entry.runId, epoch: 1, name: starts[0]?.name ?? "", state: "finished" as const, node: "n1" };
  await stub.observed({ ok: true, error: null, units: [{ ...unit, detail: null, verdict }], listed: [] });
  await expect.poll(() => settled.length).toBe(1);
  expect(settled[0]?.provenance).toEqual({
    ranOn: "nomad:gpu@1.0.0",
    runner: null,
    node: "n1",
    attestation: "managed",
  });
});

test("a start that throws is repeated under the same epoch", async () => {
  const epochs: number[] = [];
  script.start = async (_object, grants) => {
    epochs.push(...grants.map(({ epoch }) => epoch));
    throw new Error("the Worker was cut off");
  };
  const object = `cluster:acme:cut${++objects}`;
  const stub = env.SCHEDULER.getByName(object);
  await stub.enqueue(object, ENVELOPE, LIMITS, [entryOf({ target: "cut" })]);
  await expect.poll(() => epochs, { timeout: 5_000 }).toEqual([1, 1]);
});

test("D1 is told once when an object becomes active", async () => {
  const marks: [string, boolean][] = [];
  script.markActive = async (_kind, name, active) => {
    marks.push([name, active]);
  };
  const { object, stub } = await runnerObject();
  await stub.enqueue(object, null, LIMITS, [entryOf()]);
  await stub.enqueue(object, null, LIMITS, [entryOf()]);
  await expect.poll(() => marks).toEqual([[object, true]]);
});

test("a workspace's limit holds over two objects, and a release nudges the one that was denied", async () => {
  const limits = { ...LIMITS, maxInFlight: 1 };
  const workspace = `capped${++objects}`;
  const names = [`cluster:acme:one${objects}`, `cluster:acme:two${objects}`];
  const started: string[] = [];
  const { start } = script;
  script.start = async (object, grants) => {
    started.push(object);
    return start(object, grants);
  };
  const [one = "", two = ""] = names;
  const first = entryOf({ workspace, target: "one" });
  const second = entryOf({ workspace, target: "two" });
  await env.SCHEDULER.getByName(one).enqueue(one, ENVELOPE, limits, [first]);
  await expect.poll(() => started).toEqual([one]);
  await env.SCHEDULER.getByName(two).enqueue(two, ENVELOPE, limits, [second]);
  const views = () => env.SCHEDULER.getByName(two).views([second.runId]);
  await expect.poll(async () => (await views())[0]?.waiting?.detail).toMatch(/all are taken on its other runtimes/);
  const { verdict } = measured(first.runId, 1);
  const unit = {
    runId: first.runId,
    epoch: 1,
    name: "x",
    state: "finished" as const,
    node: "n1",
    detail: null,
    verdict,
  };
  await env.SCHEDULER.getByName(one).observed({ ok: true, error: null, units: [unit], listed: [] });
  await expect.poll(() => started, { timeout: 5_000 }).toEqual([one, two]);
});

test("jobs that the first version stored as one document are found after an upgrade", async () => {
  const { object, stub } = await runnerObject();
  const entry = entryOf();
  await stub.enqueue(object, null, LIMITS, [entry]);
  await runInDurableObject(stub, (_, { storage: { sql } }) => {
    sql.exec("CREATE TABLE jobs (key TEXT PRIMARY KEY, bytes INTEGER NOT NULL, json TEXT NOT NULL)");
    sql.exec("INSERT INTO jobs SELECT key, bytes, ? FROM stored_jobs", JSON.stringify(entry.job));
    sql.exec("DROP TABLE stored_jobs");
  });
  await evictDurableObject(stub);
  const { program, ...facts } = entry.job;
  expect(await stub.lease("hash-1", pollOf())).toMatchObject({
    ok: true,
    grants: [{ runId: entry.runId, job: facts, programJson: JSON.stringify(program) }],
  });
});
