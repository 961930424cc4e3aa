import { expect, test } from "vitest";
import { MAX_LOOKS } from "../../durable-objects/scheduler/limits.ts";
import { driftOf } from "../../durable-objects/scheduler/views.ts";
import {
  clusterLab,
  entriesOf,
  entryOf,
  grantsOf,
  heartbeatOf,
  type Lab,
  LIMITS,
  observedOf,
  only,
  runnerLab,
  startedOf,
  startsOf,
} from "./lab.ts";

const finish = (lab: Lab, runId: string) =>
  lab.turn(observedOf([{ runId, epoch: lab.state.entries.get(runId)?.epoch ?? 0 }], "finished"));

test("no more than the slots run, and the next starts when one ends", () => {
  const lab = clusterLab({ slots: 2 });
  const entries = entriesOf(3);
  const starts = startsOf(lab.enqueue(entries));
  expect(starts.map(({ runId }) => runId)).toEqual(entries.slice(0, 2).map(({ runId }) => runId));
  lab.turn(startedOf(starts));
  expect(only(startsOf(finish(lab, entries[0]?.runId ?? ""))).runId).toBe(entries[2]?.runId);
});

test("declared memory and CPU are kept within their budgets, defaulted ones are not counted", () => {
  const lab = clusterLab({ slots: 10, memoryBudgetMb: 4_096, cpuBudget: 2_000 });
  expect(startsOf(lab.enqueue(entriesOf(5, { memoryMb: 1_024 })))).toHaveLength(4);
  expect(startsOf(lab.enqueue(entriesOf(3, { cpu: 1_000 })))).toHaveLength(2);
  expect(startsOf(lab.enqueue(entriesOf(2)))).toHaveLength(2);
});

test("an entry that does not fit is passed over and later ones backfill", () => {
  const lab = clusterLab({ slots: 10, memoryBudgetMb: 4_096 });
  lab.enqueue(entryOf({ memoryMb: 3_072 }));
  const heavy = entryOf({ memoryMb: 2_048 });
  const light = entryOf({ memoryMb: 512 });
  expect(only(startsOf(lab.enqueue([heavy, light]))).runId).toBe(light.runId);
});

test("an aged heavy run gets the reservation and starts although small ones keep coming", () => {
  const lab = clusterLab({ slots: 8, memoryBudgetMb: 8_192 });
  const limitSec = 100;
  let running = startsOf(lab.enqueue(entriesOf(8, { workspace: "small", memoryMb: 1_024, timeoutSec: limitSec })));
  lab.turn(startedOf(running));
  const heavy = entryOf({ workspace: "heavy", memoryMb: 6_144 });
  lab.enqueue(heavy);
  const beganAt = lab.now;
  while (lab.state.entries.get(heavy.runId)?.attempt === null && lab.now - beganAt < 1_000_000) {
    lab.now += 10_000;
    const [first, ...rest] = running;
    const effects = first ? lab.turn(observedOf([first], "finished")) : [];
    const more = startsOf(lab.enqueue(entryOf({ workspace: "small", memoryMb: 1_024, timeoutSec: limitSec })));
    running = [...rest, ...startsOf(effects), ...more].filter(({ runId }) => runId !== heavy.runId);
    lab.turn(startedOf(running));
  }
  expect(lab.state.entries.get(heavy.runId)?.attempt).not.toBeNull();
  expect(lab.now - beganAt).toBeLessThanOrEqual(60_000 + limitSec * 1_000 + 10_000);
});

test("only room makes a reservation: what waits for secrets holds nothing back", () => {
  const lab = clusterLab({ slots: 4, memoryBudgetMb: 4_096 });
  const first = startsOf(lab.enqueue(entryOf({ memoryMb: 3_072 })));
  lab.turn(startedOf(first));
  lab.enqueue(entryOf({ memoryMb: 4_000, secrets: true }));
  const held = only(startsOf(lab.enqueue(entryOf({ secrets: true }))));
  const detail = { reason: "secrets-unavailable" as const, detail: "stall", retryAfterSec: 600 };
  lab.turn({ type: "withhold", items: [{ ...held, ...detail }] });
  lab.advance(90_000);
  expect(lab.state.reservation).toBeNull();
});

test("a slot-bound queue makes no reservation, so age does not undo fair shares", () => {
  const lab = clusterLab({ slots: 1 });
  lab.turn(startedOf(startsOf(lab.enqueue(entriesOf(50, { workspace: "old" })))));
  lab.advance(200_000);
  lab.enqueue(entriesOf(5, { workspace: "new" }));
  expect(lab.state.reservation).toBeNull();
});

test("on runners the reservation is on one process that could hold it when emptied", () => {
  const lab = runnerLab();
  const room = { memoryMb: { total: 8_000, free: 8_000 }, slots: { total: 4, free: 4 } };
  lab.enqueue(entriesOf(2, { memoryMb: 3_000 }));
  const small = grantsOf(lab.poll(1, room));
  lab.turn(heartbeatOf(small, "running"));
  const heavy = entryOf({ memoryMb: 7_000 });
  lab.enqueue(heavy);
  lab.poll(2, { ...room, memoryMb: { total: 8_000, free: 2_000 } });
  for (let i = 0; i < 3; i++) {
    lab.advance(25_000);
    lab.turn(heartbeatOf(small, "running"));
    lab.poll(3 + i, { ...room, memoryMb: { total: 8_000, free: 2_000 } });
  }
  expect(lab.state.reservation).toMatchObject({ runId: heavy.runId, instance: "rnr-1/i1" });
  const next = entryOf({ memoryMb: 1_000 });
  expect(grantsOf(lab.enqueue(next))).toHaveLength(0);
  expect(lab.why(next.runId)).toMatch(/^reservation: room is held back for run_/);
});

test("a run that can never fit is refused as NEVER_FITS, also when the envelope shrinks later", () => {
  const lab = clusterLab({ slots: 1, memoryBudgetMb: 8_192 });
  lab.enqueue(entryOf({ memoryMb: 10_000 }));
  expect(only(lab.settlements).failure).toMatchObject({ code: "NEVER_FITS", class: "config" });
  lab.enqueue(entriesOf(3, { memoryMb: 6_000 }));
  lab.turn({ type: "envelope", envelope: { slots: 1, memoryBudgetMb: 4_096, cpuBudget: null, version: "1.1.0" } });
  expect(lab.settlements).toHaveLength(3);
  expect(lab.settlements.at(-1)?.failure?.message).toMatch(/needs 6000 MB of memory, the whole memoryBudgetMb is 4096/);
});

test("an envelope that shrinks below what runs admits nothing until enough has ended", () => {
  const lab = clusterLab({ slots: 4 });
  const starts = startsOf(lab.enqueue(entriesOf(6)));
  lab.turn(startedOf(starts));
  lab.turn({ type: "envelope", envelope: { slots: 2, memoryBudgetMb: null, cpuBudget: null, version: "1.0.0" } });
  for (const { runId } of starts.slice(0, 2)) expect(startsOf(finish(lab, runId))).toHaveLength(0);
  expect(startsOf(finish(lab, starts[2]?.runId ?? ""))).toHaveLength(1);
});

test("full queues are refused with a time to come back", () => {
  const lab = clusterLab();
  const limits = { ...LIMITS, queueDepth: 3 };
  const effects = lab.enqueue(entriesOf(5), null, limits);
  const answers = effects.flatMap((effect) => (effect.kind === "enqueued" ? effect.answers : []));
  expect(answers.map(({ ok }) => ok)).toEqual([true, true, true, false, false]);
  expect(answers[4]).toMatchObject({ code: "QUEUE_FULL", retryAfterSec: 30 });
});

test("stored jobs are capped for a workspace, equal jobs are stored once", () => {
  const lab = clusterLab();
  const half = 600 * 1024 * 1024;
  const effects = lab.enqueue([
    entryOf({ jobHash: "a1", jobBytes: half }),
    entryOf({ jobHash: "a1", jobBytes: half }),
    entryOf({ jobHash: "b2", jobBytes: half }),
    entryOf({ jobHash: "b2", jobBytes: half, workspace: "other" }),
  ]);
  const answers = effects.flatMap((effect) => (effect.kind === "enqueued" ? effect.answers : []));
  expect(answers.map(({ ok }) => ok)).toEqual([true, true, false, true]);
});

test("a stored job is dropped with its last run", () => {
  const lab = clusterLab({ slots: 2 });
  const entries = entriesOf(2, { jobHash: "a1" });
  lab.turn(startedOf(startsOf(lab.enqueue(entries))));
  finish(lab, entries[0]?.runId ?? "");
  expect(lab.state.jobs.size).toBe(1);
  finish(lab, entries[1]?.runId ?? "");
  expect(lab.state.jobs.size).toBe(0);
  expect(lab.state.jobBytes).toBe(0);
});

test("a workspace's maxInFlight is asked of its quota object and holds a place meanwhile", () => {
  const lab = clusterLab({ slots: 1 });
  const limits = { ...LIMITS, maxInFlight: 5 };
  const [entry, other] = entriesOf(2);
  if (!entry || !other) throw new Error("two entries");
  const effects = lab.enqueue([entry, other], null, limits);
  const ref = { runId: entry.runId, epoch: 1 };
  expect(effects).toContainEqual({ kind: "acquireQuota", workspace: "acme", maxInFlight: 5, refs: [ref] });
  expect(startsOf(effects)).toHaveLength(0);
  expect(startsOf(lab.turn({ type: "quota", workspace: "acme", granted: [ref], denied: [] }))).toEqual([ref]);
  lab.turn(startedOf([ref]));
  expect(finish(lab, entry.runId)).toContainEqual({ kind: "releaseQuota", workspace: "acme", refs: [ref] });
});

test("a denied workspace waits for quota while others go on, and is asked again when nudged", () => {
  const lab = clusterLab({ slots: 2 });
  const entry = entryOf();
  lab.enqueue(entry, null, { ...LIMITS, maxInFlight: 1 });
  lab.turn({ type: "quota", workspace: "acme", granted: [], denied: [{ runId: entry.runId, epoch: 1 }] });
  expect(lab.why(entry.runId)).toMatch(/^quota: workspace 'acme' may have 1 runs in flight/);
  expect(startsOf(lab.enqueue(entryOf({ workspace: "other" })))).toHaveLength(1);
  const asked = lab.turn({ type: "nudge" });
  expect(asked.some((effect) => effect.kind === "acquireQuota")).toBe(true);
});

test("a quota object that does not answer within 5 s costs the place it held", () => {
  const lab = clusterLab({ slots: 1 });
  const entry = entryOf();
  lab.enqueue(entry, null, { ...LIMITS, maxInFlight: 1 });
  expect(lab.state.live.size).toBe(1);
  const effects = lab.advance(5_100);
  expect(effects).toContainEqual({ kind: "releaseQuota", workspace: "acme", refs: [{ runId: entry.runId, epoch: 1 }] });
  expect(lab.state.live.size).toBe(0);
});

test("40 000 blocked entries of one class cost a pump one look, and mixed classes at most 64", () => {
  const lab = clusterLab({ slots: 200, memoryBudgetMb: 100_000 });
  lab.turn(startedOf(startsOf(lab.enqueue(entryOf({ memoryMb: 99_000 })))));
  lab.enqueue(entriesOf(40_000, { memoryMb: 5_000 }));
  lab.turn();
  expect(lab.state.lastLooks).toBe(1);
  for (let i = 0; i < 300; i++) lab.enqueue(entryOf({ memoryMb: 6_000 + i }));
  for (let i = 0; i < 30; i++) {
    lab.turn();
    expect(lab.state.lastLooks).toBeLessThanOrEqual(MAX_LOOKS);
  }
});

test("a class behind many blocked ones is found within a few pumps", () => {
  const lab = clusterLab({ slots: 200, memoryBudgetMb: 100_000 });
  lab.turn(startedOf(startsOf(lab.enqueue(entryOf({ memoryMb: 99_000 })))));
  for (let i = 0; i < 500; i++) lab.enqueue(entryOf({ memoryMb: 6_000 + i }));
  const light = entryOf({ memoryMb: 100 });
  const effects = [...lab.enqueue(light), ...lab.advance(2_000)];
  expect(startsOf(effects).map(({ runId }) => runId)).toEqual([light.runId]);
});

test("many blocked workspaces do not keep one that fits from being looked at", () => {
  const lab = clusterLab({ slots: 200, memoryBudgetMb: 100_000 });
  lab.turn(startedOf(startsOf(lab.enqueue(entryOf({ memoryMb: 99_000 })))));
  for (let i = 0; i < 300; i++) lab.enqueue(entryOf({ workspace: `w${i}`, memoryMb: 6_000 }));
  const light = entriesOf(3, { workspace: "late", memoryMb: 100 });
  const effects = [...lab.enqueue(light), ...lab.advance(2_000)];
  expect(startsOf(effects)).toHaveLength(3);
});

test("drift is zero, and a planted leak shows in it", () => {
  const lab = clusterLab({ slots: 4 });
  lab.turn(startedOf(startsOf(lab.enqueue(entriesOf(3)))));
  expect(driftOf(lab.state, lab.rows.live())).toBe(0);
  const leaked = [...lab.state.live.keys()][0] ?? "";
  lab.state.live.delete(leaked);
  expect(driftOf(lab.state, lab.rows.live())).toBe(1);
});

test("drift counts units of ours that no live attempt explains, and live attempts that are not listed", () => {
  const lab = clusterLab({ slots: 4 });
  const ref = only(startsOf(lab.enqueue(entryOf())));
  lab.turn(startedOf([ref]));
  const name = lab.state.entries.get(ref.runId)?.attempt?.unit?.name ?? "";
  lab.advance(2_000);
  lab.turn(observedOf([ref], "running", { listed: [name, "evd-0123abcd-stray-1"] }));
  expect(driftOf(lab.state, lab.rows.live())).toBe(1);
  lab.advance(2_000);
  lab.turn(observedOf([ref], "running", { listed: [] }));
  expect(driftOf(lab.state, lab.rows.live())).toBe(1);
  lab.advance(2_000);
  lab.turn(observedOf([ref], "running", { listed: [name] }));
  expect(driftOf(lab.state, lab.rows.live())).toBe(0);
});

test("a place granted by quota is given up when the envelope shrank meanwhile", () => {
  const lab = clusterLab({ slots: 2 });
  const entries = entriesOf(2);
  lab.enqueue(entries, null, { ...LIMITS, maxInFlight: 5 });
  lab.turn({ type: "envelope", envelope: { slots: 1, memoryBudgetMb: null, cpuBudget: null, version: "1.0.0" } });
  const granted = entries.map(({ runId }) => ({ runId, epoch: 1 }));
  expect(startsOf(lab.turn({ type: "quota", workspace: "acme", granted, denied: [] }))).toHaveLength(1);
});

test("classes that were set aside are looked at again when room is freed", () => {
  const lab = clusterLab({ slots: 200, memoryBudgetMb: 100_000 });
  const hog = entryOf({ memoryMb: 99_000 });
  lab.turn(startedOf(startsOf(lab.enqueue(hog))));
  for (let i = 0; i < 500; i++) lab.enqueue(entryOf({ memoryMb: 6_000 + i }));
  lab.advance(2_000);
  let running = startsOf([...finish(lab, hog.runId), ...lab.advance(2_000)]);
  let done = 0;
  while (running.length > 0) {
    done += running.length;
    lab.turn(startedOf(running));
    running = startsOf([...lab.turn(observedOf(running, "finished")), ...lab.advance(2_000)]);
  }
  expect(done).toBe(500);
});
