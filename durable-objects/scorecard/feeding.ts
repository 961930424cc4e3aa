import type { FeedAnswer, FeedItem } from "../../contracts/rpc.ts";
import type { RunDigest } from "../../contracts/scorecard-rpc.ts";
import { callFailed, callSucceeded, isCurrent, isReady, openCall } from "./channel.ts";
import type { Effect } from "./core.ts";
import { emitRun } from "./events.ts";
import { accrue, moveRun, type ScorecardRun, type ScorecardState, type TargetState } from "./state.ts";

/** Cases in one feed call: each is read from D1 and rendered to up to 768 KiB, in a Worker with 128 MB. */
export const FEED_BATCH = 50;
/** After so many ended runs a target's record is halved, so that speed is that of the recent past. */
const RECORD_MAX = 64;
/** A target's speed counts as at least this share of the fastest one's: it must be fed to be observed. */
const MIN_SHARE = 0.05;
/** After so many failures in a row that are the target's own a target gets one run at a time, and that with a pause. */
const SUSPECT_AFTER = 3;
const PROBE_MS = 10_000;

/** Runs per second that ended at a target while it had any in flight, with one imagined run so that all start equal. */
export const speedOf = (target: TargetState): number => (target.completed + 1) / (target.busyMs / 1_000 + 1);

/**
 * Takes the end of a run into the record of its target. What was never started there, whoever is to blame for it, counts
 * against the target like a failure of its infrastructure: one that cannot start anything fails fastest.
 */
export function recordEnd(
  target: TargetState,
  run: ScorecardRun,
  failureStage: RunDigest["failureStage"],
  now: number,
): void {
  accrue(target, now);
  if (run.state === "cancelled") return;
  if (run.state === "failed" && (run.failureClass === "infra" || failureStage === "dispatch")) {
    target.infraInRow += 1;
    target.infraAt = now;
    return;
  }
  target.infraInRow = 0;
  target.completed += 1;
  if (target.completed < RECORD_MAX) return;
  target.completed /= 2;
  target.busyMs /= 2;
}

/** Binds queued runs to targets while there is a free place, and asks the Dispatcher for what is bound and unanswered. */
export function feedDue(state: ScorecardState, now: number, effects: Effect[]): void {
  for (const target of state.targets.values()) accrue(target, now);
  const open = [...state.targets.values()].filter((target) => isReady(target, now));
  if (!state.cancelRequested) bind(state, open, now);
  for (const target of open) {
    if (target.feeding.size === 0) continue;
    const items: FeedItem[] = [];
    for (const run of target.feeding) {
      if (items.length === FEED_BATCH) break;
      items.push({ runId: run.runId, target: target.name });
    }
    effects.push({ kind: "feed", target: target.name, call: openCall(target, now), items });
  }
}

function bind(state: ScorecardState, open: TargetState[], now: number): void {
  const offered = [...state.targets.values()].filter((target) => target.offered);
  const sound = offered.filter((target) => target.infraInRow < SUSPECT_AFTER);
  while (state.inFlight < state.concurrency) {
    const candidates = open.filter(
      (target) => target.offered && target.feeding.size < FEED_BATCH && mayTake(target, sound.length > 0, now),
    );
    const best = choose(candidates);
    const run = best && takeQueued(state);
    if (!best || !run) return;
    run.target = best.name;
    moveRun(state, run, "feeding", now);
  }
}

/** Where there are sound targets, a suspect one is only probed, so that one that fails fast does not swallow the cases. */
function mayTake(target: TargetState, othersAreSound: boolean, now: number): boolean {
  if (target.infraInRow < SUSPECT_AFTER || !othersAreSound) return true;
  return target.inFlight === 0 && now - target.infraAt >= PROBE_MS;
}

/**
 * The target that a run waits least at: first one where nothing waits, since its capacity may be idle; else the least
 * (waiting + 1) / speed. Speed alone would send ever more to the fastest and leave the capacity of the others unused.
 */
function choose(candidates: readonly TargetState[]): TargetState | null {
  const fastest = Math.max(0, ...candidates.map(speedOf));
  let best: TargetState | null = null;
  let leastCost = Number.POSITIVE_INFINITY;
  for (const target of candidates) {
    const waiting = target.inFlight - target.running;
    const cost = waiting === 0 ? 0 : (waiting + 1) / Math.max(speedOf(target), fastest * MIN_SHARE);
    const better =
      cost < leastCost ||
      (cost === leastCost &&
        best !== null &&
        (speedOf(target) > speedOf(best) || (speedOf(target) === speedOf(best) && target.inFlight < best.inFlight)));
    if (!better) continue;
    best = target;
    leastCost = cost;
  }
  return best;
}

/** The queued run that stands first in the plan, taken out of the line. */
function takeQueued(state: ScorecardState): ScorecardRun | null {
  while (state.nextQueued < state.runs.length && state.runs[state.nextQueued]?.state !== "queued")
    state.nextQueued += 1;
  const first = state.returned.shift();
  const ordinal = first ?? state.nextQueued;
  const run = state.runs[ordinal];
  if (run === undefined) return null;
  return run.state === "queued" ? run : takeQueued(state);
}

/** Puts a refused run back to its place in the line; after a cancel there is none to go back to. */
function giveBack(state: ScorecardState, run: ScorecardRun, now: number): void {
  if (state.cancelRequested) {
    moveRun(state, run, "cancelled", now);
    emitRun(state, run);
    wantCancel(state, run);
    return;
  }
  moveRun(state, run, "queued", now);
  const at = state.returned.findIndex((ordinal) => ordinal > run.ordinal);
  state.returned.splice(at === -1 ? state.returned.length : at, 0, run.ordinal);
}

/**
 * Takes the answers of a feed call. What is not answered, or refused though an earlier call may have enqueued it, stays
 * bound and is asked for again: binding it elsewhere could run it twice.
 * @returns the digests of runs that ended without ever being enqueued
 */
export function feedAnswered(
  state: ScorecardState,
  target: TargetState,
  call: number,
  asked: readonly FeedItem[],
  answers: readonly FeedAnswer[],
  now: number,
): Extract<FeedAnswer, { settled: unknown }>["settled"][] {
  const current = isCurrent(target, call);
  const byId = new Map(answers.map((answer) => [answer.runId, answer]));
  const settled: Extract<FeedAnswer, { settled: unknown }>["settled"][] = [];
  const refusals: { afterSec: number; detail: string }[] = [];
  for (const { runId } of asked) {
    const run = state.byId.get(runId);
    const answer = byId.get(runId);
    if (!run) continue;
    if (answer && !answer.ok && "settled" in answer) settled.push(answer.settled);
    if (run.state !== "feeding" || run.target !== target.name) continue;
    if (answer?.ok) {
      run.perhapsFed = false;
      moveRun(state, run, "fed", now);
      // Enqueued though the scorecard was cancelled meanwhile: its Scheduler must be told again.
      if (state.cancelRequested) wantCancel(state, run);
    } else if (!answer) {
      run.perhapsFed = true;
      refusals.push({ afterSec: 0, detail: "the answer left runs out" });
    } else if (!("settled" in answer)) {
      refusals.push({ afterSec: answer.retryAfterSec, detail: answer.detail });
      if (current && !run.perhapsFed) giveBack(state, run, now);
    }
  }
  const longest = refusals.sort((a, b) => b.afterSec - a.afterSec)[0];
  if (current && longest) callFailed(target, now, longest.detail, longest.afterSec * 1_000);
  else if (current) callSucceeded(target);
  return settled;
}

/** A feed call whose answer never came: its runs may or may not be enqueued. */
export function feedLost(target: TargetState, call: number, now: number, reason: string): void {
  for (const run of target.feeding) run.perhapsFed = true;
  if (isCurrent(target, call)) callFailed(target, now, reason);
}

/** Marks a run for the next cancel call. */
export function wantCancel(state: ScorecardState, run: ScorecardRun): void {
  run.cancel = "wanted";
  state.cancelWanted.add(run);
  state.changed.add(run);
}
