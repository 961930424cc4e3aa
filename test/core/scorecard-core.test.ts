import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RunDigest, ScorecardPlan } from "../../contracts/rpc.ts";
import { apply, type CoreEvent, type Effect, liveOf } from "../../durable-objects/scorecard/core.ts";
import { EVENTS_PAGE, eventsAfter, RECENT_EVENTS } from "../../durable-objects/scorecard/events.ts";
import {
  emptyState,
  isEnded,
  progressOf,
  type RunState,
  type ScorecardState,
} from "../../durable-objects/scorecard/state.ts";
import { waitingOf } from "../../durable-objects/scorecard/waiting.ts";

const plan = (runs: number, over: Partial<ScorecardPlan> = {}): ScorecardPlan => ({
  id: "sc_1",
  workspace: "acme",
  targets: ["gpu"],
  concurrency: 4,
  runs: Array.from({ length: runs }, (_, i) => ({ runId: `run_${i}`, caseId: `c${i}`, trial: 1 })),
  ...over,
});

const measured = (runId: string, over: Partial<RunDigest> = {}): RunDigest => ({
  runId,
  status: "succeeded",
  score: 1,
  pass: true,
  durationMs: 100,
  failureClass: null,
  failureCode: null,
  failureStage: null,
  ...over,
});

type Feed = Extract<Effect, { kind: "feed" }>;
const feeds = (effects: Effect[]): Feed[] => effects.filter((effect) => effect.kind === "feed");
const accept = (state: ScorecardState, feed: Feed, now: number): Effect[] =>
  apply(
    state,
    {
      kind: "fed",
      target: feed.target,
      call: feed.call,
      asked: feed.items,
      answers: feed.items.map(({ runId }) => ({ runId, ok: true })),
    },
    now,
  );
const ids = (feed: Feed | undefined): string[] => feed?.items.map((item) => item.runId) ?? [];

/** A scorecard whose Worker answers every call at once, so that only runs are left to end. */
function running(runs: number, over: Partial<ScorecardPlan> = {}): ScorecardState {
  const state = emptyState();
  drive(state, { kind: "begin", plan: plan(runs, over) }, 0);
  return state;
}

/** Applies an event and lets the Worker carry out all that follows. @returns the effects in order */
function drive(state: ScorecardState, event: CoreEvent, now: number): Effect[] {
  const seen: Effect[] = [];
  const queue: CoreEvent[] = [event];
  for (let next = queue.shift(); next; next = queue.shift()) {
    for (const effect of apply(state, next, now)) {
      seen.push(effect);
      const answer = wellDone(effect);
      if (answer) queue.push(answer);
    }
  }
  return seen;
}

function wellDone(effect: Effect): CoreEvent | null {
  switch (effect.kind) {
    case "feed":
      return {
        kind: "fed",
        target: effect.target,
        call: effect.call,
        asked: effect.items,
        answers: effect.items.map(({ runId }) => ({ runId, ok: true })),
      };
    case "cancel-runs":
      return { kind: "cancel-told", call: effect.call, runIds: effect.runIds, ok: true };
    case "finish":
      return { kind: "finish-told", call: effect.call, end: effect.end, ok: true };
    case "mark-active":
      return { kind: "mark-told", call: effect.call, active: effect.active, ok: true };
    case "wake-at":
      return null;
  }
}

/** Counts from the runs themselves, to hold the incremental ones against. */
function recount(state: ScorecardState): { counts: Record<RunState, number>; inFlight: number } {
  const counts = { queued: 0, feeding: 0, fed: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0 };
  let inFlight = 0;
  for (const run of state.runs) {
    if (!run.replaced) counts[run.state] += 1;
    if (run.state !== "queued" && !isEnded(run.state)) inFlight += 1;
  }
  return { counts, inFlight };
}

describe("feeding", () => {
  it("keeps no more than `concurrency` runs in flight, and feeds the next as one ends", () => {
    const state = emptyState();
    const [feed] = feeds(apply(state, { kind: "begin", plan: plan(10) }, 0));
    expect(ids(feed)).toEqual(["run_0", "run_1", "run_2", "run_3"]);
    if (feed) expect(feeds(accept(state, feed, 1))).toEqual([]);
    const [next] = feeds(apply(state, { kind: "settled", digests: [measured("run_2")] }, 2));
    expect(ids(next)).toEqual(["run_4"]);
  });

  it("asks again for what was not answered, of the same target, and gives it to no other", () => {
    const state = emptyState();
    const targets = ["a", "b"];
    const first = feeds(apply(state, { kind: "begin", plan: plan(8, { targets, concurrency: 2 }) }, 0));
    const lost = first.find((feed) => feed.target === "a");
    const taken = first.find((feed) => feed.target === "b");
    if (!lost || !taken) throw new Error("both targets are fed");
    accept(state, taken, 1);
    expect(feeds(apply(state, { kind: "feed-lost", target: "a", call: lost.call, reason: "cut" }, 10))).toEqual([]);
    // While a is blocked its run keeps its place, and b's places go on turning over.
    for (let n = 0; n < 3; n++) {
      const running = state.runs.find((run) => run.target === "b" && !isEnded(run.state));
      const [feed] = feeds(apply(state, { kind: "settled", digests: [measured(running?.runId ?? "")] }, 20 + n));
      expect(feed?.target).toBe("b");
      if (feed) accept(state, feed, 20 + n);
    }
    const again = feeds(apply(state, { kind: "tick" }, 2_000)).find((feed) => feed.target === "a");
    expect(ids(again)).toEqual(ids(lost));
  });

  it("gives what a target refused to another, and the refusing one nothing until it may be asked again", () => {
    const state = emptyState();
    const first = feeds(apply(state, { kind: "begin", plan: plan(8, { targets: ["a", "b"], concurrency: 2 }) }, 0));
    const refused = first.find((feed) => feed.target === "a");
    const taken = first.find((feed) => feed.target === "b");
    if (!refused || !taken) throw new Error("both targets are fed");
    accept(state, taken, 1);
    const answers = refused.items.map(({ runId }) => ({
      runId,
      ok: false as const,
      retryAfterSec: 30,
      detail: "queue full",
    }));
    const next = feeds(
      apply(state, { kind: "fed", target: "a", call: refused.call, asked: refused.items, answers }, 2),
    );
    expect(next.map((feed) => [feed.target, ids(feed)])).toEqual([["b", ids(refused)]]);
    expect(feeds(apply(state, { kind: "settled", digests: [measured(ids(taken)[0] ?? "")] }, 29_000))).toEqual([]);
    if (next[0]) accept(state, next[0], 29_500);
    const [third] = state.runs.filter((run) => run.target === "b" && !isEnded(run.state));
    const after = feeds(apply(state, { kind: "settled", digests: [measured(third?.runId ?? "")] }, 30_500));
    expect(after.map((feed) => feed.target)).toEqual(["a"]);
  });

  it("does not rebind a refused run that an earlier, unanswered feed may have enqueued", () => {
    const state = emptyState();
    const [first] = feeds(apply(state, { kind: "begin", plan: plan(2, { targets: ["a", "b"], concurrency: 1 }) }, 0));
    if (!first) throw new Error("fed");
    apply(state, { kind: "feed-lost", target: first.target, call: first.call, reason: "cut" }, 0);
    const [again] = feeds(apply(state, { kind: "tick" }, 5_000));
    if (!again) throw new Error("fed again");
    const answers = again.items.map(({ runId }) => ({ runId, ok: false as const, retryAfterSec: 1, detail: "full" }));
    const next = feeds(
      apply(state, { kind: "fed", target: again.target, call: again.call, asked: again.items, answers }, 5_001),
    );
    expect(next).toEqual([]);
    expect(state.byId.get("run_0")).toMatchObject({ state: "feeding", target: first.target });
  });

  it("takes a run that can never be enqueued as ended", () => {
    const state = emptyState();
    const [feed] = feeds(apply(state, { kind: "begin", plan: plan(1) }, 0));
    if (!feed) throw new Error("fed");
    const settled = measured("run_0", { status: "failed", score: null, pass: null, failureClass: "config" });
    const effects = apply(
      state,
      {
        kind: "fed",
        target: "gpu",
        call: feed.call,
        asked: feed.items,
        answers: [{ runId: "run_0", ok: false, settled }],
      },
      1,
    );
    expect(effects.find((effect) => effect.kind === "finish")).toMatchObject({ end: { status: "failed" } });
  });

  it("shares by observed speed: a target that measures four times as fast gets about four times the runs", () => {
    const state = running(2_000, { targets: ["slow", "fast"], concurrency: 20 });
    const endsAt = new Map<string, number>();
    const done = { slow: 0, fast: 0 };
    for (let now = 0; now < 60_000; now += 50) {
      const digests: RunDigest[] = [];
      // Each target runs 10 at once; the slow one needs 2 s a run, the fast one 0.5 s.
      for (const name of ["slow", "fast"] as const) {
        const fed = state.runs.filter((run) => run.target === name && !isEnded(run.state)).slice(0, 10);
        drive(state, { kind: "started", runIds: fed.map((run) => run.runId) }, now);
        for (const run of fed) {
          if (!endsAt.has(run.runId)) endsAt.set(run.runId, now + (name === "slow" ? 2_000 : 500));
          if ((endsAt.get(run.runId) ?? 0) > now) continue;
          digests.push(measured(run.runId));
          done[name] += 1;
        }
      }
      drive(state, { kind: "settled", digests }, now);
    }
    expect(done.fast / done.slow).toBeGreaterThan(3);
    expect(done.fast / done.slow).toBeLessThan(5);
  });

  it.each([{ failureClass: "infra" as const }, { failureClass: "config" as const, failureStage: "dispatch" as const }])(
    "keeps the cases from a target that only fails fast, and tries it again now and then: %o",
    (fault) => {
      const state = running(400, { targets: ["broken", "sound"], concurrency: 10 });
      const given = { broken: 0, sound: 0 };
      for (let now = 0; now < 60_000; now += 100) {
        const live = state.runs.filter((run) => run.target !== null && !isEnded(run.state));
        drive(state, { kind: "started", runIds: live.map((run) => run.runId) }, now);
        const digests = live.flatMap((run) => {
          if (run.target === "sound" && now % 1_000 !== 0) return [];
          given[run.target === "sound" ? "sound" : "broken"] += 1;
          if (run.target === "sound") return [measured(run.runId)];
          return [measured(run.runId, { status: "failed", score: null, pass: null, ...fault })];
        });
        drive(state, { kind: "settled", digests }, now);
      }
      expect(given.sound).toBeGreaterThan(380);
      expect(given.broken).toBeGreaterThan(6);
      expect(given.broken).toBeLessThan(20);
    },
  );

  it("goes on with a target that fails when there is no other", () => {
    const state = running(50, { concurrency: 1 });
    const lost = { status: "failed" as const, score: null, pass: null, failureClass: "infra" as const };
    for (let i = 0; i < 50; i++) drive(state, { kind: "settled", digests: [measured(`run_${i}`, lost)] }, i);
    expect(liveOf(state)).toMatchObject({ status: "failed", progress: { failed: 50 } });
  });
});

describe("status and end", () => {
  it("is queued until the first run starts, running until the end is stored, then what became of it", () => {
    const state = running(2);
    expect(liveOf(state)?.status).toBe("queued");
    drive(state, { kind: "started", runIds: ["run_0"] }, 1);
    expect(liveOf(state)).toMatchObject({ status: "running", progress: { queued: 1, running: 1 } });
    apply(state, { kind: "settled", digests: [measured("run_0")] }, 2);
    const effects = apply(state, { kind: "settled", digests: [measured("run_1", { pass: false, score: 0 })] }, 3);
    const finish = effects.find((effect) => effect.kind === "finish");
    if (!finish) throw new Error("no finish");
    expect(liveOf(state)).toMatchObject({ status: "running", summary: null, finishedAt: null });
    const repeat = apply(state, { kind: "finish-told", call: finish.call, end: finish.end, ok: false }, 4);
    expect(repeat.some((effect) => effect.kind === "finish")).toBe(false);
    expect(eventsAfter(state, 0).some((event) => event.event === "end")).toBe(false);
    const again = apply(state, { kind: "tick" }, 5_000).find((effect) => effect.kind === "finish");
    if (!again) throw new Error("no second finish");
    expect(again.end).toBe(finish.end);
    apply(state, { kind: "finish-told", call: again.call, end: again.end, ok: true }, 5_001);
    expect(liveOf(state)).toMatchObject({ status: "succeeded", summary: { passRate: 0.5, measured: 2 } });
    expect(eventsAfter(state, 0).at(-1)?.event).toBe("end");
  });

  it("is failed only when nothing was measured", () => {
    const lost = { status: "failed" as const, score: null, pass: null, failureClass: "infra" as const };
    const state = running(2);
    drive(state, { kind: "settled", digests: [measured("run_0", lost), measured("run_1", lost)] }, 1);
    expect(liveOf(state)).toMatchObject({ status: "failed", summary: { failedByClass: { infra: 2 } } });
    const other = running(2);
    drive(other, { kind: "settled", digests: [measured("run_0", lost), measured("run_1")] }, 1);
    expect(liveOf(other)?.status).toBe("succeeded");
  });

  it("marks itself active at its begin and idle at its end, and repeats what was not confirmed", () => {
    const state = emptyState();
    const begun = apply(state, { kind: "begin", plan: plan(1) }, 0);
    const mark = begun.find((effect) => effect.kind === "mark-active");
    expect(mark).toMatchObject({ active: true });
    const [feed] = feeds(begun);
    if (feed) accept(state, feed, 1);
    if (mark) apply(state, { kind: "mark-told", call: mark.call, active: true, ok: false }, 1);
    const repeated = apply(state, { kind: "tick" }, 5_000).find((effect) => effect.kind === "mark-active");
    expect(repeated).toMatchObject({ active: true });
    if (repeated) apply(state, { kind: "mark-told", call: repeated.call, active: true, ok: true }, 5_001);
    const effects = drive(state, { kind: "settled", digests: [measured("run_0")] }, 6_000);
    expect(effects.filter((effect) => effect.kind === "mark-active")).toMatchObject([{ active: false }]);
    expect(apply(state, { kind: "tick" }, 9_000)).toEqual([]);
  });

  it("does not count a settlement twice", () => {
    const state = running(3);
    drive(state, { kind: "settled", digests: [measured("run_0"), measured("run_0", { status: "failed" })] }, 1);
    drive(state, { kind: "settled", digests: [measured("run_0")] }, 2);
    drive(state, { kind: "started", runIds: ["run_0"] }, 3);
    expect(progressOf(state)).toMatchObject({ succeeded: 1, failed: 0, running: 0, total: 3 });
  });
});

describe("cancel", () => {
  it("ends unfed runs at once, tells the Worker of all, and waits for those in flight", () => {
    const state = running(6, { concurrency: 2 });
    const told = drive(state, { kind: "cancel" }, 1).flatMap((effect) =>
      effect.kind === "cancel-runs" ? effect.runIds : [],
    );
    expect(told).toHaveLength(6);
    expect(progressOf(state)).toMatchObject({ cancelled: 4, queued: 2 });
    expect(liveOf(state)?.status).toBe("queued");
    const stopped = { status: "cancelled" as const, score: null, pass: null, durationMs: null };
    const effects = drive(state, { kind: "settled", digests: [measured("run_0", stopped), measured("run_1")] }, 2);
    expect(feeds(effects)).toEqual([]);
    expect(liveOf(state)).toMatchObject({ status: "cancelled", summary: { measured: 1 }, progress: { cancelled: 5 } });
  });

  it("tells the Worker until it listens, and does not end before", () => {
    const state = running(2, { concurrency: 1 });
    drive(state, { kind: "settled", digests: [measured("run_0")] }, 0);
    const [call] = apply(state, { kind: "cancel" }, 1).filter((effect) => effect.kind === "cancel-runs");
    if (!call) throw new Error("not told");
    apply(state, { kind: "settled", digests: [measured("run_1", { status: "cancelled" })] }, 2);
    apply(state, { kind: "cancel-told", call: call.call, runIds: call.runIds, ok: false }, 3);
    expect(liveOf(state)?.status).toBe("running");
    drive(state, { kind: "tick" }, 5_000);
    expect(liveOf(state)?.status).toBe("cancelled");
  });

  it("tells of a run again that was enqueued after the cancel", () => {
    const state = emptyState();
    const [feed] = feeds(apply(state, { kind: "begin", plan: plan(1) }, 0));
    if (!feed) throw new Error("fed");
    const first = apply(state, { kind: "cancel" }, 1).find((effect) => effect.kind === "cancel-runs");
    if (!first) throw new Error("not told");
    apply(state, { kind: "cancel-told", call: first.call, runIds: first.runIds, ok: true }, 2);
    expect(accept(state, feed, 3)).toContainEqual(expect.objectContaining({ kind: "cancel-runs", runIds: ["run_0"] }));
  });

  it("is no cancel when everything had ended", () => {
    const state = running(1);
    drive(state, { kind: "settled", digests: [measured("run_0")] }, 1);
    drive(state, { kind: "cancel" }, 2);
    expect(liveOf(state)?.status).toBe("succeeded");
  });
});

describe("retry", () => {
  it("runs again under the same id, and the new runs stand for those they replace", () => {
    const state = running(3);
    const lost = { status: "failed" as const, score: null, pass: null, failureClass: "infra" as const };
    drive(state, { kind: "settled", digests: [measured("run_0"), measured("run_1", lost), measured("run_2")] }, 1);
    expect(liveOf(state)).toMatchObject({ status: "succeeded", summary: { failedByClass: { infra: 1 } } });
    const endedAt = state.head;
    drive(state, { kind: "begin", plan: plan(0, { runs: [{ runId: "run_9", caseId: "c1", trial: 1 }] }) }, 10);
    expect(liveOf(state)).toMatchObject({
      status: "running",
      progress: { total: 3, succeeded: 2, failed: 0, queued: 1 },
      summary: null,
    });
    drive(state, { kind: "settled", digests: [measured("run_9")] }, 11);
    expect(liveOf(state)).toMatchObject({
      status: "succeeded",
      progress: { total: 3, succeeded: 3 },
      summary: { measured: 3, passRate: 1, failedByClass: { infra: 0 } },
    });
    expect(eventsAfter(state, endedAt).map((event) => event.event)).toEqual(["run", "progress", "end"]);
  });

  it("changes nothing when begun again with runs it knows", () => {
    const state = running(3);
    drive(state, { kind: "settled", digests: [measured("run_0")] }, 1);
    const before = { progress: progressOf(state), head: state.head };
    drive(state, { kind: "begin", plan: plan(3) }, 2);
    expect({ progress: progressOf(state), head: state.head }).toEqual(before);
  });
});

describe("events", () => {
  it("tells what happened since, in order, and nothing twice", () => {
    const state = running(3);
    drive(state, { kind: "started", runIds: ["run_0", "run_1"] }, 1);
    const first = eventsAfter(state, 0);
    expect(first.map((event) => event.event)).toEqual(["run", "run", "progress"]);
    const after = first.at(-1)?.seq ?? 0;
    expect(eventsAfter(state, after)).toEqual([]);
    drive(state, { kind: "settled", digests: [measured("run_1", { score: 0.5, pass: false })] }, 2);
    expect(eventsAfter(state, after)).toMatchObject([
      { event: "run", data: { id: "run_1", caseId: "c1", status: "succeeded", score: 0.5 } },
      { event: "progress", data: { running: 1, succeeded: 1 } },
    ]);
  });

  it("brings a reader who is too far behind up to the state of every run, page by page, progress first", () => {
    const total = 2 * RECENT_EVENTS + 500;
    const state = running(total, { concurrency: 512 });
    for (let from = 0; from < total; from += 500) {
      const digests = Array.from({ length: 500 }, (_, i) => measured(`run_${from + i}`));
      drive(state, { kind: "settled", digests }, from);
    }
    expect(state.recentFrom).toBeGreaterThan(0);
    const seen = new Map<string, string>();
    let after = 0;
    let pages = 0;
    let last = "";
    for (let events = eventsAfter(state, after); events.length > 0; events = eventsAfter(state, after)) {
      if (pages === 0) expect(events[0]).toMatchObject({ event: "progress", seq: 0 });
      expect(events.length).toBeLessThanOrEqual(EVENTS_PAGE + 3);
      for (const event of events) {
        expect(event.seq).toBeGreaterThanOrEqual(after);
        after = event.seq;
        last = event.event;
        if (event.event === "run") seen.set(event.data.id, event.data.status);
      }
      pages += 1;
    }
    expect(seen.size).toBe(total);
    expect(last).toBe("end");
  });

  it("starts from the beginning for a number that was never given", () => {
    const state = running(1);
    expect(eventsAfter(state, 1_000_000)).toEqual(eventsAfter(state, 0));
  });
});

describe("waiting", () => {
  it("says how many runs are in flight and how many stand before, in figures", () => {
    const state = running(50);
    expect(waitingOf(state, ["run_0", "run_41", "run_x"], 0)).toEqual([
      { runId: "run_0", waiting: null },
      {
        runId: "run_41",
        waiting: {
          position: null,
          reason: "concurrency",
          detail: "4 of 4 of this scorecard's runs are in flight; 37 are before it",
          etaSec: null,
        },
      },
      { runId: "run_x", waiting: null },
    ]);
  });

  it("estimates from what was observed", () => {
    const state = running(50);
    drive(state, { kind: "settled", digests: [measured("run_0"), measured("run_1")] }, 4_000);
    expect(waitingOf(state, ["run_49"], 4_000)[0]?.waiting?.etaSec).toBe(88);
  });

  it("names the target that takes nothing, and why", () => {
    const state = emptyState();
    const [feed] = feeds(apply(state, { kind: "begin", plan: plan(3) }, 0));
    if (!feed) throw new Error("fed");
    const answers = feed.items.map(({ runId }) => ({ runId, ok: false as const, retryAfterSec: 30, detail: "full" }));
    apply(state, { kind: "fed", target: "gpu", call: feed.call, asked: feed.items, answers }, 1_000);
    expect(waitingOf(state, ["run_2"], 1_000)[0]?.waiting).toEqual({
      position: null,
      reason: "backoff",
      detail: "gpu takes no runs for 30 s: full; 2 are before it",
      etaSec: null,
    });
  });
});

describe("whatever happens", () => {
  const command = fc.oneof(
    { weight: 3, arbitrary: fc.constant("answer" as const) },
    { weight: 3, arbitrary: fc.constant("settle" as const) },
    { weight: 1, arbitrary: fc.constant("start" as const) },
    { weight: 1, arbitrary: fc.constant("lose" as const) },
    { weight: 1, arbitrary: fc.constant("refuse" as const) },
    { weight: 1, arbitrary: fc.constant("tick" as const) },
    { weight: 1, arbitrary: fc.constant("duplicate" as const) },
  );

  it("keeps its counts true and its concurrency, enqueues no run twice, and ends once the faults do", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(command, fc.nat(1_000)), { maxLength: 200 }),
        fc.record({
          runs: fc.integer({ min: 1, max: 40 }),
          concurrency: fc.integer({ min: 1, max: 8 }),
          targets: fc.integer({ min: 1, max: 3 }),
          cancelAt: fc.option(fc.nat(200)),
        }),
        (steps, { runs, concurrency, targets, cancelAt }) => {
          const world = new World(plan(runs, { concurrency, targets: ["a", "b", "c"].slice(0, targets) }));
          for (const [i, [step, pick]] of steps.entries()) {
            if (i === cancelAt) world.give({ kind: "cancel" });
            world.step(step, pick);
            world.check();
          }
          world.heal();
          world.check();
          expect(["succeeded", "failed", "cancelled"]).toContain(liveOf(world.state)?.status);
          expect(world.state.runs.every((run) => isEnded(run.state))).toBe(true);
        },
      ),
      { numRuns: 300 },
    );
  });

  /** Schedulers and a Worker that lose, refuse and repeat: what was enqueued where, and which calls are out. */
  class World {
    readonly state = emptyState();
    readonly #out: Effect[] = [];
    readonly #enqueued = new Map<string, string>();
    readonly #ended = new Set<string>();
    readonly #cancelled = new Set<string>();
    #now = 0;
    #last: CoreEvent = { kind: "tick" };

    constructor(first: ScorecardPlan) {
      this.give({ kind: "begin", plan: first });
    }

    give(event: CoreEvent): void {
      this.#now += 100;
      this.#last = event;
      this.#out.push(...apply(this.state, event, this.#now).filter((effect) => effect.kind !== "wake-at"));
    }

    step(kind: "answer" | "settle" | "start" | "lose" | "refuse" | "tick" | "duplicate", pick: number): void {
      if (kind === "tick") {
        this.#now += pick * 100;
        this.give({ kind });
      } else if (kind === "duplicate") {
        this.give(this.#last);
      } else if (kind === "settle" || kind === "start") {
        const live = [...this.#enqueued.keys()].filter((runId) => !this.#ended.has(runId));
        const runId = live[pick % Math.max(1, live.length)];
        if (runId === undefined) return;
        if (kind === "start") this.give({ kind: "started", runIds: [runId] });
        else this.#settle(runId, pick);
      } else {
        const [effect] = this.#out.splice(pick % Math.max(1, this.#out.length), 1);
        if (effect) this.#answer(effect, kind, pick);
      }
    }

    #settle(runId: string, pick: number): void {
      this.#ended.add(runId);
      const status = this.#cancelled.has(runId) ? "cancelled" : pick % 3 === 0 ? "failed" : "succeeded";
      this.give({ kind: "settled", digests: [measured(runId, { status })] });
    }

    #answer(effect: Effect, how: "answer" | "lose" | "refuse", pick: number): void {
      if (effect.kind !== "feed") {
        const ok = how === "answer";
        if (effect.kind === "cancel-runs" && how !== "refuse") {
          for (const runId of effect.runIds) this.#cancelled.add(runId);
        }
        const answer = wellDone(effect);
        if (answer) this.give("ok" in answer ? { ...answer, ok } : answer);
        return;
      }
      const { target, call, items } = effect;
      if (how === "lose") {
        // Half of the lost calls were carried out before their answer was.
        if (pick % 2 === 0) for (const { runId } of items) this.#enqueue(runId, target);
        this.give({ kind: "feed-lost", target, call, reason: "lost" });
        return;
      }
      const answers = items.map(({ runId }) => {
        if (how === "refuse" && !this.#enqueued.has(runId)) {
          return { runId, ok: false as const, retryAfterSec: 5, detail: "full" };
        }
        if (this.#cancelled.has(runId) && !this.#enqueued.has(runId)) {
          return { runId, ok: false as const, settled: measured(runId, { status: "cancelled" }) };
        }
        this.#enqueue(runId, target);
        return { runId, ok: true as const };
      });
      this.give({ kind: "fed", target, call, asked: items, answers });
    }

    #enqueue(runId: string, target: string): void {
      const before = this.#enqueued.get(runId);
      expect(before === undefined || before === target).toBe(true);
      this.#enqueued.set(runId, target);
    }

    check(): void {
      const { counts, inFlight } = recount(this.state);
      expect(this.state.counts).toEqual(counts);
      expect(this.state.inFlight).toBe(inFlight);
      expect(inFlight).toBeLessThanOrEqual(this.state.concurrency);
      expect(progressOf(this.state).total).toBe(this.state.runs.length);
      for (const target of this.state.targets.values()) {
        const bound = this.state.runs.filter((run) => run.target === target.name && !isEnded(run.state));
        expect(target.inFlight).toBe(bound.length);
        expect(target.running).toBe(bound.filter((run) => run.state === "running").length);
      }
    }

    /** No more faults: every call is answered, every run ends. */
    heal(): void {
      for (
        let round = 0;
        round < 2_000 && !["succeeded", "failed", "cancelled"].includes(liveOf(this.state)?.status ?? "");
        round++
      ) {
        this.#now += 70_000;
        this.give({ kind: "tick" });
        for (const effect of this.#out.splice(0)) this.#answer(effect, "answer", 1);
        for (const runId of this.#enqueued.keys()) if (!this.#ended.has(runId)) this.#settle(runId, 1);
      }
    }
  }
});
