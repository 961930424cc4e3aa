import type { FailureClass } from "../../contracts/run.ts";
import type { ScorecardEnd, ScorecardLive, ScorecardProgress } from "../../contracts/scorecard-rpc.ts";
import type { Channel } from "./channel.ts";
import { newChannel } from "./channel.ts";

/**
 * queued: not fed, bound to no target. feeding: bound, the Dispatcher was asked and has not answered. fed: in its
 * target's queue. Everything from feeding to the end holds one of the scorecard's `concurrency` places.
 */
export type RunState = "queued" | "feeding" | "fed" | "running" | "succeeded" | "failed" | "cancelled";
export const isEnded = (state: RunState): boolean =>
  state === "succeeded" || state === "failed" || state === "cancelled";
const isInFlight = (state: RunState): boolean => state !== "queued" && !isEnded(state);

export interface ScorecardRun {
  /** Place in the plan; also the row's key. */
  readonly ordinal: number;
  readonly runId: string;
  readonly caseId: string;
  readonly trial: number;
  state: RunState;
  target: string | null;
  /** An unanswered feed may have enqueued it: it must never be bound to another target. */
  perhapsFed: boolean;
  /** wanted: the Dispatcher has yet to be told to cancel it. */
  cancel: "no" | "wanted" | "told";
  /** A later run of the same case and trial stands for it; it counts no more. */
  replaced: boolean;
  score: number | null;
  pass: boolean | null;
  durationMs: number | null;
  failureClass: FailureClass | null;
  failureCode: string | null;
  /** Number of its latest event; 0 when there was none. */
  seq: number;
}

export interface TargetState extends Channel {
  readonly name: string;
  /** Whether the newest plan offers it; runs may still be in flight on one that it does not. */
  offered: boolean;
  inFlight: number;
  /** Those of `inFlight` that have started; the others wait in its queue. */
  running: number;
  readonly feeding: Set<ScorecardRun>;
  /** Runs that ended there, not counting infrastructure failures, in the time it was busy; both halved now and then. */
  completed: number;
  busyMs: number;
  /** Infrastructure failures since the last run that was none, and when the last one was. */
  infraInRow: number;
  infraAt: number;
  busyAsOf: number;
}

export interface ScorecardState {
  id: string;
  workspace: string;
  concurrency: number;
  status: ScorecardLive["status"];
  cancelRequested: boolean;
  /** Set when all runs have ended; the Worker has yet to store it until `status` is terminal. */
  end: ScorecardEnd | null;
  /** Whether D1 lists this object as active, as far as the Worker confirmed. */
  markedActive: boolean;
  readonly runs: ScorecardRun[];
  readonly byId: Map<string, ScorecardRun>;
  readonly byTrial: Map<string, ScorecardRun>;
  readonly targets: Map<string, TargetState>;
  readonly counts: Record<RunState, number>;
  inFlight: number;
  /** No run before this place is queued, but for those in `returned`. */
  nextQueued: number;
  /** Places of runs that a target refused, ascending. */
  returned: number[];
  readonly cancelWanted: Set<ScorecardRun>;
  readonly cancelling: Channel;
  readonly finishing: Channel;
  readonly marking: Channel;
  /** Number of the newest event, of the newest progress event, and of the end event (0 while there is none). */
  head: number;
  progressSeq: number;
  endSeq: number;
  /** Newest events of this instance, ascending; an entry whose run has a higher number since is stale. */
  recent: { seq: number; run: ScorecardRun }[];
  /** Every event with a higher number than this is in `recent`. */
  recentFrom: number;
  /** Runs to be stored; emptied by the shell. */
  readonly changed: Set<ScorecardRun>;
  progressChanged: boolean;
}

export function emptyState(): ScorecardState {
  return {
    id: "",
    workspace: "",
    concurrency: 1,
    status: "queued",
    cancelRequested: false,
    end: null,
    markedActive: false,
    runs: [],
    byId: new Map(),
    byTrial: new Map(),
    targets: new Map(),
    counts: { queued: 0, feeding: 0, fed: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0 },
    inFlight: 0,
    nextQueued: 0,
    returned: [],
    cancelWanted: new Set(),
    cancelling: newChannel(),
    finishing: newChannel(),
    marking: newChannel(),
    head: 0,
    progressSeq: 0,
    endSeq: 0,
    recent: [],
    recentFrom: 0,
    changed: new Set(),
    progressChanged: false,
  };
}

export const hasEnded = (state: ScorecardState): boolean =>
  state.status === "succeeded" || state.status === "failed" || state.status === "cancelled";

/** The target's state, made on first mention. */
export function targetOf(state: ScorecardState, name: string, now: number): TargetState {
  let target = state.targets.get(name);
  if (!target) {
    target = {
      ...newChannel(),
      name,
      offered: false,
      inFlight: 0,
      running: 0,
      feeding: new Set(),
      completed: 0,
      busyMs: 0,
      infraInRow: 0,
      infraAt: 0,
      busyAsOf: now,
    };
    state.targets.set(name, target);
  }
  return target;
}

/** Adds a run of a new plan; an ended run of the same case and trial is replaced by it. */
export function addRun(state: ScorecardState, run: ScorecardRun, now: number): void {
  const before = state.byTrial.get(trialKey(run));
  if (before && isEnded(before.state) && !before.replaced) {
    before.replaced = true;
    state.counts[before.state] -= 1;
    state.changed.add(before);
  }
  restoreRun(state, run, now);
  state.changed.add(run);
  state.progressChanged = true;
}

/** Takes in a run as its row has it. */
export function restoreRun(state: ScorecardState, run: ScorecardRun, now: number): void {
  state.byTrial.set(trialKey(run), run);
  state.runs.push(run);
  state.byId.set(run.runId, run);
  if (!run.replaced) state.counts[run.state] += 1;
  if (run.cancel === "wanted") state.cancelWanted.add(run);
  if (!isInFlight(run.state)) return;
  state.inFlight += 1;
  if (run.target === null) return;
  const target = targetOf(state, run.target, now);
  target.inFlight += 1;
  if (run.state === "running") target.running += 1;
  if (run.state === "feeding") target.feeding.add(run);
}

const trialKey = (run: ScorecardRun): string => `${run.trial} ${run.caseId}`;

/** Moves a run to another state and keeps every count in step. */
export function moveRun(state: ScorecardState, run: ScorecardRun, to: RunState, now: number): void {
  const from = run.state;
  if (from === to) return;
  const target = run.target === null ? null : targetOf(state, run.target, now);
  const step = Number(isInFlight(to)) - Number(isInFlight(from));
  state.inFlight += step;
  if (target) {
    accrue(target, now);
    target.inFlight += step;
    target.running += Number(to === "running") - Number(from === "running");
    if (to === "feeding") target.feeding.add(run);
    else target.feeding.delete(run);
  }
  if (!run.replaced) {
    state.counts[from] -= 1;
    state.counts[to] += 1;
  }
  run.state = to;
  if (to === "queued") run.target = null;
  state.changed.add(run);
  if (shown(from) !== shown(to)) state.progressChanged = true;
}

/** Adds the time since the last look to a target's busy time while it had runs in flight. */
export function accrue(target: TargetState, now: number): void {
  if (target.inFlight > 0) target.busyMs += Math.max(0, now - target.busyAsOf);
  target.busyAsOf = now;
}

const shown = (state: RunState): RunState => (isInFlight(state) && state !== "running" ? "queued" : state);

export function progressOf({ counts }: ScorecardState): ScorecardProgress {
  const { running, succeeded, failed, cancelled } = counts;
  const queued = counts.queued + counts.feeding + counts.fed;
  return { total: queued + running + succeeded + failed + cancelled, queued, running, succeeded, failed, cancelled };
}
