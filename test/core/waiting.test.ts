import { expect, test } from "vitest";
import { healthOf } from "../../durable-objects/scheduler/circuit.ts";
import { queueView, runView } from "../../durable-objects/scheduler/views.ts";
import {
  clusterLab,
  entriesOf,
  entryOf,
  failedWith,
  grantsOf,
  heartbeatOf,
  LIMITS,
  observedOf,
  only,
  pollEvent,
  resultOf,
  runnerLab,
  startedOf,
  startsOf,
} from "./lab.ts";

test("slots: all are in use", () => {
  const lab = clusterLab({ slots: 2 });
  const entries = entriesOf(3);
  lab.enqueue(entries);
  expect(lab.why(entries[2]?.runId ?? "")).toBe("slots: slots 2/2 in use");
});

test("memory: in figures", () => {
  const lab = clusterLab({ slots: 20, memoryBudgetMb: 65_536 });
  lab.enqueue(entryOf({ memoryMb: 61_000 }));
  const entry = entryOf({ memoryMb: 8_192 });
  lab.enqueue(entry);
  expect(lab.why(entry.runId)).toBe("memory: memory 61000/65536 MB in use, needs 8192");
});

test("cpu: in figures", () => {
  const lab = clusterLab({ slots: 20, cpuBudget: 8_000 });
  lab.enqueue(entryOf({ cpu: 7_000 }));
  const entry = entryOf({ cpu: 2_000 });
  lab.enqueue(entry);
  expect(lab.why(entry.runId)).toBe("cpu: cpu 7000/8000 millicores in use, needs 2000");
});

test("reservation: names the run that room is held back for, in its own workspace only", () => {
  const lab = clusterLab({ slots: 20, memoryBudgetMb: 8_192 });
  lab.turn(startedOf(startsOf(lab.enqueue(entryOf({ memoryMb: 6_000 })))));
  const heavy = entryOf({ memoryMb: 8_000 });
  lab.enqueue(heavy);
  lab.advance(61_000);
  const mine = entryOf({ memoryMb: 2_000 });
  const theirs = entryOf({ memoryMb: 2_000, workspace: "other" });
  lab.enqueue([mine, theirs]);
  expect(lab.why(mine.runId)).toBe(`reservation: room is held back for ${heavy.runId}, which waits since 61 s`);
  expect(lab.why(theirs.runId)).toBe("reservation: room is held back for a larger run, which waits since 61 s");
});

test("quota: the workspace's runs in flight", () => {
  const lab = clusterLab({ slots: 20 });
  const [first, second] = entriesOf(2);
  if (!first || !second) throw new Error("two entries");
  lab.enqueue([first, second], null, { ...LIMITS, maxInFlight: 1 });
  lab.turn({ type: "quota", workspace: "acme", granted: [{ runId: first.runId, epoch: 1 }], denied: [] });
  expect(lab.why(second.runId)).toBe("quota: workspace 'acme' may have 1 runs in flight (maxInFlight), 1 are");
});

test("circuit: errors in a row, with the cluster's own words", () => {
  const lab = clusterLab({ slots: 20 });
  const error = { code: "UPSTREAM_TIMEOUT", message: "no answer within 10 s", retryAfterSec: null };
  const failed = { ok: false, error, units: [], listed: [] };
  for (let i = 0; i < 3; i++) lab.turn({ type: "observed", observation: failed });
  const entry = entryOf();
  lab.enqueue(entry);
  expect(lab.why(entry.runId)).toMatch(
    /^circuit: 3 errors in a row, next try at .*Z: UPSTREAM_TIMEOUT: no answer within 10 s$/,
  );
});

test("no-runner: nobody is online", () => {
  const lab = runnerLab();
  const entry = entryOf();
  lab.enqueue(entry);
  expect(lab.why(entry.runId)).toBe("no-runner: no runner is online");
});

test("no-runner: names what the nearest runner lacks", () => {
  const lab = runnerLab();
  lab.poll(1, { capabilities: ["git"] });
  const entry = entryOf({ needs: ["docker", "git"] });
  lab.enqueue(entry);
  expect(lab.why(entry.runId)).toBe("no-runner: runner rnr-1 lacks docker");
});

test("no-runner: names the runner that the entry is bound to", () => {
  const lab = runnerLab();
  lab.turn({ type: "pair", runner: { id: "rnr-2", label: "other", tokenHash: "h2" } });
  lab.poll(1);
  const entry = entryOf({ runnerId: "rnr-2" });
  lab.enqueue(entry);
  expect(lab.why(entry.runId)).toBe("no-runner: runner rnr-2 is not online");
});

test("no-runner: no runner is large enough", () => {
  const lab = runnerLab();
  lab.poll(1, { memoryMb: { total: 4_000, free: 4_000 } });
  const entry = entryOf({ memoryMb: 32_000 });
  lab.enqueue(entry);
  expect(lab.why(entry.runId)).toBe("no-runner: no runner online is large enough for 32000 MB");
});

test("slots and memory of runners: in figures, naming the runner", () => {
  const lab = runnerLab();
  lab.enqueue(entriesOf(2, { memoryMb: 3_000 }));
  const room = { slots: { total: 2, free: 2 }, memoryMb: { total: 8_000, free: 8_000 } };
  lab.turn(heartbeatOf(grantsOf(lab.poll(1, room))));
  const more = entryOf();
  lab.enqueue(more);
  expect(lab.why(more.runId)).toBe("slots: slots 2/2 of the runner in use");
  lab.turn(resultOf(only([...lab.state.live.values()].slice(0, 1).map(({ runId, epoch }) => ({ runId, epoch })))));
  const heavy = entryOf({ memoryMb: 6_000 });
  lab.enqueue(heavy);
  expect(lab.why(heavy.runId)).toBe("memory: memory 3000/8000 MB in use, needs 6000 (runner rnr-1)");
});

test("relay-offline: the Worker's words, until it may be tried again", () => {
  const lab = clusterLab();
  const entry = entryOf();
  const ref = only(startsOf(lab.enqueue(entry)));
  const detail = "relay 'office' is offline since 12:00";
  lab.turn({
    type: "startAnswers",
    answers: [{ kind: "withheld", ...ref, reason: "relay-offline", detail, retryAfterSec: 20 }],
  });
  expect(lab.why(entry.runId)).toBe(`relay-offline: ${detail}`);
  expect(startsOf(lab.advance(21_000))).toEqual([{ runId: entry.runId, epoch: 2 }]);
});

test("relay-offline: a listing that finds the relay away says so, is no failure of the cluster, and one that comes ends it", () => {
  const lab = clusterLab({ slots: 1 });
  const running = startsOf(lab.enqueue(entryOf()));
  lab.turn(startedOf(running));
  const entry = entryOf();
  lab.enqueue(entry);
  const detail = "relay 'office' is offline, last seen 2026-11-30T12:00:00.000Z";
  const error = { code: "UPSTREAM_ERROR", message: detail, retryAfterSec: 9, relayOffline: true };
  for (let n = 0; n < 5; n++) lab.turn({ type: "observed", observation: { ok: false, error, units: [], listed: [] } });
  expect(lab.why(entry.runId)).toBe(`relay-offline: ${detail}`);
  expect(healthOf(lab.state, lab.now)).toEqual({ state: "degraded", detail });
  // Where nothing was asked, nobody answered.
  lab.turn({ type: "observed", observation: { ok: true, error: null, units: [], listed: [] } });
  expect(lab.why(entry.runId)).toBe(`relay-offline: ${detail}`);
  lab.turn({ type: "observed", observation: { ok: true, error: null, units: [], listed: ["evd-x-1"] } });
  expect(lab.why(entry.runId)).toMatch(/^slots/);
});

test("relay-offline: through a night one run tries for all, ever more seldom, and its attempts stay few", () => {
  const lab = clusterLab({ slots: 10 });
  const entries = entriesOf(5);
  const withheld = (refs: readonly { runId: string; epoch: number }[]) =>
    lab.turn({
      type: "startAnswers",
      answers: refs.map((ref) => ({
        kind: "withheld" as const,
        ...ref,
        reason: "relay-offline" as const,
        detail: "relay 'office' is offline",
        retryAfterSec: 10,
      })),
    });
  withheld(startsOf(lab.enqueue(entries)));
  let starts = 0;
  for (let sec = 0; sec < 8 * 3_600; sec += 5) {
    const refs = startsOf(lab.advance(5_000));
    expect(refs.length).toBeLessThanOrEqual(1);
    starts += refs.length;
    withheld(refs);
  }
  expect(starts).toBeGreaterThan(500);
  expect(starts).toBeLessThan(1_100);
  for (const { runId } of entries) {
    expect(lab.why(runId)).toBe("relay-offline: relay 'office' is offline");
    expect(lab.state.entries.get(runId)?.history.length).toBeLessThanOrEqual(1);
  }
  const back = startsOf(lab.advance(31_000));
  expect(back).toHaveLength(1);
  expect(startsOf(lab.turn(startedOf(back)))).toHaveLength(4);
});

test("relay-offline: when the relay says that it is back, one run tries at once and the others follow", () => {
  const lab = clusterLab({ slots: 10 });
  const away = { reason: "relay-offline" as const, detail: "relay 'office' is offline", retryAfterSec: 10 };
  const refs = startsOf(lab.enqueue(entriesOf(5)));
  lab.turn({ type: "startAnswers", answers: refs.map((ref) => ({ kind: "withheld", ...ref, ...away })) });
  for (let tries = 0; tries < 3; tries++) {
    const probe = startsOf(lab.advance(31_000));
    lab.turn({ type: "startAnswers", answers: probe.map((ref) => ({ kind: "withheld", ...ref, ...away })) });
  }
  expect(startsOf(lab.advance(2_000))).toHaveLength(0);
  const back = startsOf(lab.turn({ type: "relayBack" }));
  expect(back).toHaveLength(1);
  expect(startsOf(lab.turn({ type: "relayBack" }))).toHaveLength(0);
  expect(startsOf(lab.turn(startedOf(back)))).toHaveLength(4);
});

test("secrets-unavailable: only for jobs with secrets", () => {
  const lab = clusterLab();
  const entry = entryOf({ secrets: true });
  const ref = only(startsOf(lab.enqueue(entry)));
  const item = {
    ...ref,
    reason: "secrets-unavailable" as const,
    detail: "the vault cannot be read",
    retryAfterSec: 20,
  };
  lab.turn({ type: "startAnswers", answers: [{ kind: "withheld", ...item }] });
  expect(lab.why(entry.runId)).toBe("secrets-unavailable: the vault cannot be read");
  expect(startsOf(lab.enqueue(entryOf()))).toHaveLength(1);
});

test("backoff: which retry, and when", () => {
  const lab = runnerLab();
  const entry = entryOf({ retries: 3 });
  lab.enqueue(entry);
  const ref = only(grantsOf(lab.poll(1)));
  lab.turn(resultOf(ref, failedWith("infra", "DISK_FULL")));
  expect(lab.why(entry.runId)).toBe("backoff: retry 1 of 3 after DISK_FULL, in 2 s");
});

test("cluster: the cluster's own words for a unit it has not placed", () => {
  const lab = clusterLab();
  const entry = entryOf();
  const ref = only(startsOf(lab.enqueue(entry)));
  lab.turn(startedOf([ref]));
  lab.turn(observedOf([ref], "pending", { detail: "0/3 nodes are available: insufficient memory" }));
  expect(lab.why(entry.runId)).toBe("cluster: 0/3 nodes are available: insufficient memory");
  expect(runView(lab.state, entry.runId, lab.now)?.status).toBe("dispatching");
  lab.turn(observedOf([ref], "running"));
  expect(lab.why(entry.runId)).toBe("does not wait");
  expect(runView(lab.state, entry.runId, lab.now)?.status).toBe("running");
});

test("positions are ranks among the workspace's entries for the target", () => {
  const lab = clusterLab({ slots: 0 });
  const batch = entriesOf(2, { priority: "batch", batchId: "sc_1" });
  const others = entriesOf(3, { workspace: "other" });
  const interactive = entriesOf(2);
  lab.enqueue([...batch, ...others, ...interactive]);
  const query = { workspace: "acme", target: null, limit: 10, after: null };
  const view = queueView(lab.state, query, 0, lab.now);
  const positions = new Map(view.entries.map((entry) => [entry.runId, entry.position]));
  expect([...interactive, ...batch].map(({ runId }) => positions.get(runId))).toEqual([1, 2, 3, 4]);
  lab.turn({ type: "promote", runId: batch[1]?.runId ?? "" });
  const after = queueView(lab.state, query, 0, lab.now);
  expect(after.entries.find(({ runId }) => runId === batch[1]?.runId)?.position).toBe(1);
});

test("an estimate comes from observed durations, and there is none before", () => {
  const lab = clusterLab({ slots: 1 });
  const entries = entriesOf(4);
  let starts = startsOf(lab.enqueue(entries));
  const last = entries[3]?.runId ?? "";
  expect(runView(lab.state, last, lab.now)?.waiting?.etaSec).toBeNull();
  lab.turn(startedOf(starts));
  lab.turn(observedOf(starts, "running"));
  lab.now += 30_000;
  starts = startsOf(lab.turn(observedOf(starts, "finished")));
  expect(runView(lab.state, last, lab.now)?.waiting).toMatchObject({ position: 2, etaSec: 60 });
});

test("the queue is paged without gaps or repeats", () => {
  const lab = clusterLab({ slots: 0 });
  const entries = entriesOf(25);
  lab.enqueue(entries);
  const seen: string[] = [];
  let after: number | null = null;
  do {
    const page = queueView(lab.state, { workspace: null, target: null, limit: 10, after }, 0, lab.now);
    seen.push(...page.entries.map(({ runId }) => runId));
    after = page.next;
  } while (after !== null);
  expect(seen).toEqual(entries.map(({ runId }) => runId));
});

test("an entry that no capable runner comes for fails as NO_RUNNER after its queue timeout, naming what is missing", () => {
  const lab = runnerLab();
  lab.poll(1, { capabilities: ["git"] });
  const entry = entryOf({ runnerId: "rnr-1", needs: ["docker"], queueTimeoutSec: 300 });
  lab.enqueue(entry);
  for (let i = 0; i < 11; i++) {
    lab.advance(25_000);
    lab.turn(pollEvent(10 + i, { capabilities: ["git"] }));
  }
  expect(lab.settlements).toHaveLength(0);
  lab.advance(40_000);
  expect(only(lab.settlements).failure).toMatchObject({ code: "NO_RUNNER", class: "infra" });
  expect(only(lab.settlements).failure?.message).toMatch(/for 300 s: runner rnr-1 lacks docker/);
});

test("the queue timeout's clock stands still while a capable runner is online", () => {
  const lab = runnerLab();
  const entry = entryOf({ queueTimeoutSec: 100 });
  lab.enqueue(entry);
  lab.advance(60_000);
  for (let i = 0; i < 20; i++) {
    lab.turn(pollEvent(10 + i, { slots: { total: 1, free: 0 } }));
    lab.advance(25_000);
  }
  expect(lab.settlements).toHaveLength(0);
  lab.turn({ type: "unpark", pollId: 29 });
  lab.advance(130_000);
  expect(only(lab.settlements).failure?.code).toBe("NO_RUNNER");
});

test("the queue timeout goes on over an eviction", () => {
  const lab = runnerLab();
  lab.enqueue(entryOf({ queueTimeoutSec: 300 }));
  lab.advance(200_000);
  lab.reload();
  lab.advance(101_000);
  expect(only(lab.settlements).failure?.code).toBe("NO_RUNNER");
});

test("an entry bound to a runner of another operating system fails at once, naming it", () => {
  const lab = runnerLab();
  lab.poll(1, { os: "macos" });
  lab.enqueue(entryOf({ runnerId: "rnr-1", os: "windows", needs: ["os-windows"] }));
  expect(only(lab.settlements).failure).toMatchObject({
    code: "NO_RUNNER",
    message: "runner 'rnr-1' runs macos, the run needs os-windows",
  });
});

test("an entry bound to a runner that has never polled waits, and fails when the runner says its system", () => {
  const lab = runnerLab();
  lab.enqueue(entryOf({ runnerId: "rnr-1", os: "windows" }));
  expect(lab.settlements).toHaveLength(0);
  lab.poll(1, { os: "linux" });
  expect(only(lab.settlements).failure?.code).toBe("NO_RUNNER");
});
