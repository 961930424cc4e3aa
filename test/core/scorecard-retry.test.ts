import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ScorecardPlan } from "../../contracts/scorecard-rpc.ts";
import { apply, type CoreEvent, type Effect, liveOf } from "../../durable-objects/scorecard/core.ts";
import { EVENTS_PAGE, eventsAfter, RECENT_EVENTS } from "../../durable-objects/scorecard/events.ts";
import { emptyState, isEnded, progressOf } from "../../durable-objects/scorecard/state.ts";
import { waitingOf } from "../../durable-objects/scorecard/waiting.ts";

import { drive, feeds, measured, plan, recount, running, wellDone } from "./scorecard-lab.ts";

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
    for (let ended = false; !ended; ) {
      const events = eventsAfter(state, after);
      ended = events.at(-1)?.event === "end";
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
