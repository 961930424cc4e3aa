import { expect, test } from "vitest";
import { queueView, runnerViews } from "../../durable-objects/scheduler/views.ts";
import {
  acceptedOf,
  commandsOf,
  entriesOf,
  entryOf,
  failedWith,
  grantsOf,
  heartbeatOf,
  type Lab,
  MEASURED,
  only,
  pollEvent,
  resultOf,
  runnerLab,
  verdictsOf,
} from "./lab.ts";

const MINUTE = 60_000;

/** One run, granted to the runner's process i1 and accepted. */
function running(lab: Lab, parts: Parameters<typeof entryOf>[0] = {}) {
  const entry = entryOf({ target: "self:ws", ...parts });
  lab.enqueue(entry);
  const ref = only(grantsOf(lab.poll(1)));
  expect(verdictsOf(lab.turn(heartbeatOf([ref])))).toEqual(["extended"]);
  return { entry, ref };
}

test("a poll leases up to its free slots, oldest first, and no more", () => {
  const lab = runnerLab();
  const entries = entriesOf(5, { target: "self:ws" });
  lab.enqueue(entries);
  const grants = grantsOf(lab.poll(1, { slots: { total: 4, free: 3 } }));
  expect(grants.map(({ runId }) => runId)).toEqual(entries.slice(0, 3).map(({ runId }) => runId));
});

test("what a process holds here counts even if its poll claims to be free", () => {
  const lab = runnerLab();
  lab.enqueue(entriesOf(5));
  expect(grantsOf(lab.poll(1, { slots: { total: 2, free: 2 } }))).toHaveLength(2);
  expect(grantsOf(lab.poll(2, { slots: { total: 2, free: 2 } }))).toHaveLength(0);
});

test("a new poll of the same process answers the parked one with nothing", () => {
  const lab = runnerLab();
  lab.poll(1);
  expect(lab.poll(2)).toContainEqual({ kind: "answerPoll", pollId: 1, grants: [], commands: [] });
  const effects = lab.enqueue(entryOf());
  expect(effects.filter((effect) => effect.kind === "answerPoll").map((effect) => effect.pollId)).toEqual([2]);
});

test("two processes with one token hold each their own attempts", () => {
  const lab = runnerLab();
  lab.enqueue(entriesOf(2));
  const one = only(grantsOf(lab.poll(1, { instanceId: "i1", slots: { total: 1, free: 1 } })));
  const two = only(grantsOf(lab.poll(2, { instanceId: "i2", slots: { total: 1, free: 1 } })));
  expect(verdictsOf(lab.turn(heartbeatOf([one, two], "accepted", "i1")))).toEqual(["extended", "superseded"]);
});

test("a grant that is not accepted within 10 s is withdrawn and the run keeps its place", () => {
  const lab = runnerLab();
  const [first, second] = entriesOf(2);
  if (!first || !second) throw new Error("two entries");
  lab.enqueue([first, second]);
  const ref = only(grantsOf(lab.poll(1, { slots: { total: 1, free: 1 } })));
  lab.advance(10_000);
  expect(verdictsOf(lab.turn(heartbeatOf([ref])))).toEqual(["superseded"]);
  const again = only(grantsOf(lab.poll(2, { slots: { total: 1, free: 1 } })));
  expect(again).toEqual({ runId: first.runId, epoch: 2 });
});

test("20 grants that nobody accepts end the run as UNDELIVERABLE", () => {
  const lab = runnerLab();
  const entry = entryOf();
  lab.enqueue(entry);
  let grants = 0;
  for (let pollId = 1; lab.settlements.length === 0 && pollId < 200; pollId++) {
    grants += grantsOf(lab.poll(pollId)).length;
    grants += grantsOf(lab.advance(15_000)).length;
  }
  expect(grants).toBe(20);
  expect(only(lab.settlements).failure).toMatchObject({ code: "UNDELIVERABLE", class: "infra" });
});

test("heartbeats keep a lease, and without one it is lost after 120 s", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  for (let i = 0; i < 10; i++) {
    lab.advance(30_000);
    expect(verdictsOf(lab.turn(heartbeatOf([ref], "running")))).toEqual(["extended"]);
  }
  lab.advance(119_000);
  expect(lab.state.live.size).toBe(1);
  lab.advance(1_500);
  expect(lab.state.live.size).toBe(0);
  expect(lab.state.entries.get(ref.runId)?.history).toMatchObject([{ epoch: 1, state: "lost" }]);
});

test("the third lost lease ends the run as LEASE_LOST", () => {
  const lab = runnerLab();
  lab.enqueue(entryOf({ retries: 5 }));
  for (let round = 1; round <= 3; round++) {
    const ref = only(grantsOf(lab.poll(round)));
    expect(ref.epoch).toBe(round);
    lab.turn(heartbeatOf([ref], "running"));
    lab.advance(3 * MINUTE);
  }
  expect(only(lab.settlements)).toMatchObject({ status: "failed", epoch: 3, failure: { code: "LEASE_LOST" } });
});

test("an alarm that comes an hour late expires no lease, and the next silence does", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.now += 60 * MINUTE;
  lab.wake();
  expect(lab.state.entries.get(ref.runId)?.attempt?.epoch).toBe(1);
  expect(verdictsOf(lab.turn(heartbeatOf([ref])))).toEqual(["extended"]);
  lab.advance(121_000);
  expect(lab.state.live.size).toBe(0);
});

test("a heartbeat that comes in before the late alarm finds its lease alive", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.now += 10 * MINUTE;
  expect(verdictsOf(lab.turn(heartbeatOf([ref])))).toEqual(["extended"]);
});

test("time slept on purpose extends nothing: an alarm that is on time expires the lease after an eviction", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.reload();
  lab.advance(121_000);
  expect(lab.state.entries.get(ref.runId)?.attempt).toBeNull();
});

test("alarms that are always late cannot keep a silent lease for ever", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  for (let i = 0; i < 10 && lab.state.live.size > 0; i++) {
    lab.now = (lab.state.armedWakeAt ?? lab.now) + 2_000;
    lab.wake();
  }
  expect(lab.state.entries.get(ref.runId)?.history).toMatchObject([{ state: "lost" }]);
});

test("the accepted result is accepted again when it is repeated, also after an eviction", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual([true]);
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual([true]);
  lab.reload();
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual([true]);
  expect(lab.settlements).toHaveLength(1);
});

test("a zombie's result for an old epoch is refused, leaves a mark, and changes nothing else", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.advance(3 * MINUTE);
  const next = only(grantsOf(lab.poll(2, { instanceId: "i2" })));
  expect(next.epoch).toBe(2);
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual(["superseded"]);
  const entry = lab.state.entries.get(ref.runId);
  expect(entry?.attempt?.epoch).toBe(2);
  expect(entry?.history).toMatchObject([{ epoch: 1, state: "superseded" }]);
  expect(lab.settlements).toHaveLength(0);
  expect(acceptedOf(lab.turn(resultOf(next, MEASURED, "i2")))).toEqual([true]);
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual(["superseded"]);
});

test("another process of the same runner cannot hand in the result", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  expect(acceptedOf(lab.turn(resultOf(ref, MEASURED, "i2")))).toEqual(["superseded"]);
  expect(lab.settlements).toHaveLength(0);
});

test("a result for a run nobody knows is unknown, and a stopped container is always good news", () => {
  const lab = runnerLab();
  const ref = { runId: entryOf().runId, epoch: 1 };
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual(["unknown"]);
  expect(acceptedOf(lab.turn(resultOf(ref, { kind: "stopped" })))).toEqual([true]);
});

test("a retryable infra failure is tried again after a backoff until retries are used up", () => {
  const lab = runnerLab();
  const { entry, ref } = running(lab, { retries: 1 });
  lab.turn(resultOf(ref, failedWith("infra")));
  expect(lab.why(entry.runId)).toBe("backoff: retry 1 of 1 after BROKEN, in 2 s");
  expect(grantsOf(lab.poll(2))).toHaveLength(0);
  const again = only(grantsOf(lab.advance(2_100)));
  expect(again.epoch).toBe(2);
  lab.turn(resultOf(again, failedWith("infra")));
  expect(only(lab.settlements)).toMatchObject({ status: "failed", failure: { code: "BROKEN" } });
});

test.each(["config", "harness", "agent"] as const)("a failure of class %s is never tried again", (cls) => {
  const lab = runnerLab();
  const { ref } = running(lab, { retries: 5 });
  lab.turn(resultOf(ref, failedWith(cls)));
  expect(only(lab.settlements).failure?.class).toBe(cls);
});

test("an attempt that is handed back costs no retry and goes to the next poll", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  expect(acceptedOf(lab.turn(resultOf(ref, { kind: "released" })))).toEqual([true]);
  expect(only(grantsOf(lab.poll(2)))).toEqual({ runId: ref.runId, epoch: 2 });
});

test("a result that was taken is taken again, whatever became of the run, and its evidence stays", () => {
  const lab = runnerLab();
  const { entry, ref } = running(lab, { retries: 1 });
  expect(acceptedOf(lab.turn(resultOf(ref, failedWith("infra"))))).toEqual([true]);
  expect(acceptedOf(lab.turn(resultOf(ref, failedWith("infra"))))).toEqual([true]);
  lab.reload();
  const again = only(grantsOf([...lab.poll(2), ...lab.advance(2_100)]));
  expect(acceptedOf(lab.turn(resultOf(ref, failedWith("infra"))))).toEqual([true]);
  // Another process never had it.
  expect(acceptedOf(lab.turn(resultOf(ref, failedWith("infra"), "i9")))).toEqual(["superseded"]);
  expect(lab.state.entries.get(entry.runId)?.attempt?.epoch).toBe(2);
  expect(acceptedOf(lab.turn(resultOf(again, { kind: "released" })))).toEqual([true]);
  expect(acceptedOf(lab.turn(resultOf(again, { kind: "released" })))).toEqual([true]);
  const last = only(grantsOf([...lab.poll(3), ...lab.advance(100)]));
  expect(acceptedOf(lab.turn(heartbeatOf([last]), resultOf(last)))).toEqual([true]);
  for (const [each, verdict] of [
    [ref, failedWith("infra")],
    [again, { kind: "released" }],
    [last, MEASURED],
  ] as const)
    expect(acceptedOf(lab.turn(resultOf(each, verdict)))).toEqual([true]);
  expect(only(lab.settlements).attempts.map(({ epoch, state }) => [epoch, state])).toEqual([
    [1, "superseded"],
    [2, "released"],
    [3, "succeeded"],
  ]);
});

test("where nothing was handed over, nothing ran", () => {
  const lab = runnerLab();
  lab.enqueue(entryOf());
  const ref = only(grantsOf(lab.poll(1)));
  const failure = {
    stage: "dispatch",
    class: "config",
    code: "SECRETS_TOO_LARGE",
    message: "m",
    retryable: false,
  } as const;
  lab.turn({ type: "reject", items: [{ ...ref, failure }] });
  expect(only(lab.settlements)).toMatchObject({ status: "failed", provenance: null });
});

test("what a machine runs is in flight at it and at its pool", () => {
  const lab = runnerLab();
  running(lab, { memoryMb: 512 });
  const { lanes } = queueView(lab.state, { workspace: null, target: null, limit: 10, after: null }, 1, lab.now);
  expect(lanes.map(({ lane, slots }) => [lane, slots.inFlight, slots.total])).toEqual([
    [lab.object, 1, 4],
    [`${lab.object}:rnr-1`, 1, 4],
  ]);
});

test("a process that never asked for work has no slots; one that holds something has, after a reload too", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  const total = () => runnerViews(lab.state, lab.now)[0]?.slots?.total;
  expect(total()).toBe(4);
  lab.turn(heartbeatOf([], "running", "i9"));
  lab.turn({ type: "results", runnerId: "rnr-1", instanceId: "i8", results: [] });
  expect(total()).toBe(4);
  lab.reload();
  expect(verdictsOf(lab.turn(heartbeatOf([ref])))).toEqual(["extended"]);
  expect(total()).toBe(4);
});

test("a cancelled waiting run ends at once", () => {
  const lab = runnerLab();
  const entry = entryOf();
  lab.enqueue(entry);
  const effects = lab.turn({ type: "cancel", runIds: [entry.runId], reason: "not needed" });
  expect(effects).toContainEqual({ kind: "cancelled", answers: [{ runId: entry.runId, state: "cancelled" }] });
  expect(only(lab.settlements).status).toBe("cancelled");
  expect(grantsOf(lab.poll(1))).toHaveLength(0);
});

test("a cancelled running run keeps its slot until its container is gone, and its parked poll is told at once", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.poll(2, { slots: { total: 1, free: 0 } });
  const effects = lab.turn({ type: "cancel", runIds: [ref.runId], reason: "stop" });
  expect(effects).toContainEqual({ kind: "cancelled", answers: [{ runId: ref.runId, state: "stopping" }] });
  expect(commandsOf(effects)).toEqual([{ ...ref, verdict: "cancel" }]);
  expect(verdictsOf(lab.turn(heartbeatOf([ref], "running")))).toEqual(["cancel"]);
  expect(lab.state.live.size).toBe(1);
  expect(acceptedOf(lab.turn(resultOf(ref, { kind: "stopped" })))).toEqual([true]);
  expect(lab.state.live.size).toBe(0);
  expect(only(lab.settlements)).toMatchObject({ status: "cancelled", attempts: [{ state: "cancelled" }] });
});

test("a poll is told of a cancel once and not in a hot loop", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.turn({ type: "cancel", runIds: [ref.runId], reason: "stop" });
  expect(commandsOf(lab.poll(2))).toHaveLength(1);
  expect(commandsOf(lab.poll(3))).toHaveLength(0);
  lab.now += 6_000;
  expect(commandsOf(lab.poll(4))).toHaveLength(1);
});

test("a result that crosses a cancel is refused as cancelled and frees the slot", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.turn({ type: "cancel", runIds: [ref.runId], reason: "stop" });
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual(["cancelled"]);
  expect(lab.state.live.size).toBe(0);
  expect(only(lab.settlements).status).toBe("cancelled");
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual(["cancelled"]);
});

test("a cancelled run whose holder is silent is freed when the lease ends", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.turn({ type: "cancel", runIds: [ref.runId], reason: "stop" });
  lab.advance(121_000);
  expect(only(lab.settlements).status).toBe("cancelled");
});

test("a cancel of an unknown run leaves a tombstone, so that it never starts", () => {
  const lab = runnerLab();
  const entry = entryOf();
  lab.turn({ type: "cancel", runIds: [entry.runId], reason: "early" });
  lab.reload();
  lab.enqueue(entry);
  expect(grantsOf(lab.poll(1))).toHaveLength(0);
});

test("enqueueing the same run twice, or after its end, changes nothing", () => {
  const lab = runnerLab();
  const { entry, ref } = running(lab);
  lab.enqueue(entry);
  expect(lab.state.entries.size).toBe(1);
  lab.turn(resultOf(ref));
  lab.enqueue(entry);
  expect(lab.state.entries.size).toBe(0);
});

test("a revoked runner's poll is refused and it gets nothing more", () => {
  const lab = runnerLab();
  lab.poll(7);
  expect(lab.turn({ type: "revoke", runnerId: "rnr-1" })).toContainEqual({ kind: "refusePoll", pollId: 7 });
  lab.enqueue(entryOf());
  expect(lab.turn(pollEvent(8))).toContainEqual({ kind: "refusePoll", pollId: 8 });
});

test("a runner that waits for commands only gets no work", () => {
  const lab = runnerLab();
  lab.enqueue(entryOf());
  expect(grantsOf(lab.poll(1, { slots: { total: 4, free: 0 } }))).toHaveLength(0);
});

test("withheld secrets put the grant back uncharged and hold back only jobs with secrets", () => {
  const lab = runnerLab();
  const secret = entryOf({ secrets: true });
  const plain = entryOf();
  lab.enqueue(secret);
  const ref = only(grantsOf(lab.poll(1)));
  lab.turn({
    type: "withhold",
    items: [{ ...ref, reason: "secrets-unavailable", detail: "D1 stalls", retryAfterSec: 30 }],
  });
  lab.enqueue(plain);
  const other = only(grantsOf(lab.poll(2)));
  expect(other.runId).toBe(plain.runId);
  lab.turn(heartbeatOf([other]));
  expect(lab.why(secret.runId)).toBe("secrets-unavailable: D1 stalls");
  lab.poll(3);
  expect(only(grantsOf(lab.advance(31_000)))).toEqual({ runId: secret.runId, epoch: 2 });
});

test("a rejected grant ends the run with the Worker's failure", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  const { failure } = failedWith("config", "SECRET_MISSING");
  lab.turn({ type: "reject", items: [{ ...ref, failure }] });
  expect(only(lab.settlements).failure?.code).toBe("SECRET_MISSING");
});

test("the same process cannot hand in a result for an epoch that it has lost, even while it holds the next", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.advance(3 * MINUTE);
  const next = only(grantsOf(lab.poll(2)));
  lab.turn(heartbeatOf([next]));
  expect(acceptedOf(lab.turn(resultOf(ref)))).toEqual(["superseded"]);
  expect(verdictsOf(lab.turn(heartbeatOf([ref])))).toEqual(["superseded"]);
  expect(acceptedOf(lab.turn(resultOf(next)))).toEqual([true]);
});

test("an extended lease is extended in storage too", () => {
  const lab = runnerLab();
  const { ref } = running(lab);
  lab.advance(100_000);
  lab.turn(heartbeatOf([ref]));
  lab.reload();
  lab.advance(100_000);
  expect(verdictsOf(lab.turn(heartbeatOf([ref], "running")))).toEqual(["extended"]);
});

test("a run bound to a revoked runner ends at once, for nobody can take it any more", () => {
  const lab = runnerLab();
  running(lab, { runnerId: "rnr-1" });
  lab.turn({ type: "revoke", runnerId: "rnr-1" });
  expect(only(lab.settlements).failure?.code).toBe("NO_RUNNER");
});
