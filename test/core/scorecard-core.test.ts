import { describe, expect, it } from "vitest";
import type { RunDigest } from "../../contracts/scorecard-rpc.ts";
import { apply, liveOf } from "../../durable-objects/scorecard/core.ts";
import { eventsAfter } from "../../durable-objects/scorecard/events.ts";
import { emptyState, isEnded, progressOf } from "../../durable-objects/scorecard/state.ts";

import { accept, drive, feeds, ids, measured, plan, running } from "./scorecard-lab.ts";

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
