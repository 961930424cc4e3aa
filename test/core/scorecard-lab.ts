import type { RunDigest, ScorecardPlan } from "../../contracts/scorecard-rpc.ts";
import { apply, type CoreEvent, type Effect } from "../../durable-objects/scorecard/core.ts";
import { emptyState, isEnded, type RunState, type ScorecardState } from "../../durable-objects/scorecard/state.ts";

export const plan = (runs: number, over: Partial<ScorecardPlan> = {}): ScorecardPlan => ({
  id: "sc_1",
  workspace: "acme",
  targets: ["gpu"],
  concurrency: 4,
  runs: Array.from({ length: runs }, (_, i) => ({ runId: `run_${i}`, caseId: `c${i}`, trial: 1 })),
  ...over,
});

export const measured = (runId: string, over: Partial<RunDigest> = {}): RunDigest => ({
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

export type Feed = Extract<Effect, { kind: "feed" }>;
export const feeds = (effects: Effect[]): Feed[] => effects.filter((effect) => effect.kind === "feed");
export const accept = (state: ScorecardState, feed: Feed, now: number): Effect[] =>
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
export const ids = (feed: Feed | undefined): string[] => feed?.items.map((item) => item.runId) ?? [];

/** A scorecard whose Worker answers every call at once, so that only runs are left to end. */
export function running(runs: number, over: Partial<ScorecardPlan> = {}): ScorecardState {
  const state = emptyState();
  drive(state, { kind: "begin", plan: plan(runs, over) }, 0);
  return state;
}

/** Applies an event and lets the Worker carry out all that follows. @returns the effects in order */
export function drive(state: ScorecardState, event: CoreEvent, now: number): Effect[] {
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

export function wellDone(effect: Effect): CoreEvent | null {
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
export function recount(state: ScorecardState): { counts: Record<RunState, number>; inFlight: number } {
  const counts = { queued: 0, feeding: 0, fed: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0 };
  let inFlight = 0;
  for (const run of state.runs) {
    if (!run.replaced) counts[run.state] += 1;
    if (run.state !== "queued" && !isEnded(run.state)) inFlight += 1;
  }
  return { counts, inFlight };
}
