import type { ScorecardEvent } from "../../contracts/scorecard-rpc.ts";
import { progressOf, type ScorecardRun, type ScorecardState } from "./state.ts";

/** Run events in one answer. */
export const EVENTS_PAGE = 500;
/** Events kept in order of arrival; a reader further behind gets the current state of every run instead. */
export const RECENT_EVENTS = 2_000;

/** Gives a run's change the next number. */
export function emitRun(state: ScorecardState, run: ScorecardRun): void {
  state.head += 1;
  run.seq = state.head;
  state.changed.add(run);
  state.recent.push({ seq: run.seq, run });
  if (state.recent.length <= 2 * RECENT_EVENTS) return;
  state.recentFrom = state.recent.at(-RECENT_EVENTS - 1)?.seq ?? state.recentFrom;
  state.recent = state.recent.slice(-RECENT_EVENTS);
}

/**
 * What a reader that has seen everything up to `after` has yet to see, in order of its numbers, at most a page. Only the
 * latest event of a run and of the progress is told: states, not history. A reader further behind than the recent events
 * first gets the progress as it is, under the number it came with, then the current state of every run that changed since.
 */
export function eventsAfter(state: ScorecardState, after: number): ScorecardEvent[] {
  if (state.id === "") return [];
  const from = after > state.head || after < 0 ? 0 : after;
  const behind = from < state.recentFrom;
  const runs = behind ? changedSince(state, from) : recentSince(state, from);
  const page = runs.slice(0, EVENTS_PAGE);
  const events: ScorecardEvent[] = page.map((run) => ({
    seq: run.seq,
    event: "run",
    data: {
      id: run.runId,
      caseId: run.caseId,
      status: run.state === "feeding" || run.state === "fed" ? "queued" : run.state,
      score: run.score,
    },
  }));
  if (page.length === runs.length) {
    if (state.progressSeq > from) events.push({ seq: state.progressSeq, event: "progress", data: progressOf(state) });
    if (state.endSeq > from) events.push({ seq: state.endSeq, event: "end" });
    events.sort((a, b) => a.seq - b.seq);
  }
  // Who has seen the end and asks again, as a browser does by itself, is told it again.
  if (state.endSeq > 0 && from >= state.endSeq) events.push({ seq: state.endSeq, event: "end" });
  if (behind) events.unshift({ seq: from, event: "progress", data: progressOf(state) });
  return events;
}

/** From the recent events: those after `from` that are still their run's latest. */
function recentSince({ recent }: ScorecardState, from: number): ScorecardRun[] {
  let low = 0;
  let high = recent.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((recent[middle]?.seq ?? 0) > from) high = middle;
    else low = middle + 1;
  }
  const runs: ScorecardRun[] = [];
  for (let i = low; i < recent.length && runs.length <= EVENTS_PAGE; i++) {
    const entry = recent[i];
    if (entry && entry.run.seq === entry.seq && !entry.run.replaced) runs.push(entry.run);
  }
  return runs;
}

/** From all runs: what changed after `from`, oldest change first. */
function changedSince({ runs }: ScorecardState, from: number): ScorecardRun[] {
  return runs.filter((run) => run.seq > from && !run.replaced).sort((a, b) => a.seq - b.seq);
}
