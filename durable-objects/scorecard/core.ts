import type { FeedAnswer, FeedItem } from "../../contracts/rpc.ts";
import type { RunDigest, ScorecardEnd, ScorecardLive, ScorecardPlan } from "../../contracts/scorecard-rpc.ts";
import { summarise } from "../../contracts/statistics.ts";
import { type Channel, callFailed, callSucceeded, isExpired, isReady, nextLook, openCall } from "./channel.ts";
import { emitRun } from "./events.ts";
import { feedAnswered, feedDue, feedLost, recordEnd, wantCancel } from "./feeding.ts";
import {
  addRun,
  hasEnded,
  isEnded,
  moveRun,
  progressOf,
  type ScorecardRun,
  type ScorecardState,
  targetOf,
} from "./state.ts";

/** Runs in one cancel call. */
export const CANCEL_BATCH = 500;
export type CoreEvent =
  | { kind: "begin"; plan: ScorecardPlan }
  | { kind: "cancel" }
  | { kind: "started"; runIds: string[] }
  | { kind: "settled"; digests: RunDigest[] }
  | { kind: "fed"; target: string; call: number; asked: FeedItem[]; answers: FeedAnswer[] }
  | { kind: "feed-lost"; target: string; call: number; reason: string }
  | { kind: "cancel-told"; call: number; runIds: string[]; ok: boolean }
  | { kind: "finish-told"; call: number; end: ScorecardEnd; ok: boolean }
  | { kind: "mark-told"; call: number; active: boolean; ok: boolean }
  | { kind: "tick" };

export type Effect =
  | { kind: "feed"; target: string; call: number; items: FeedItem[] }
  | { kind: "cancel-runs"; call: number; runIds: string[] }
  | { kind: "finish"; call: number; end: ScorecardEnd }
  | { kind: "mark-active"; call: number; active: boolean }
  | { kind: "wake-at"; at: number };

/**
 * Takes one event into the state and says what is to be done. Pure but for the state it is given: no clock, no I/O.
 * Runs that must be stored are in `state.changed`.
 * @param now epoch milliseconds
 */
export function apply(state: ScorecardState, event: CoreEvent, now: number): Effect[] {
  switch (event.kind) {
    case "begin":
      begin(state, event.plan, now);
      break;
    case "cancel":
      cancel(state, now);
      break;
    case "started":
      for (const runId of event.runIds) start(state, runId, now);
      break;
    case "settled":
      for (const digest of event.digests) settle(state, digest, now);
      break;
    case "fed": {
      const target = targetOf(state, event.target, now);
      for (const digest of feedAnswered(state, target, event.call, event.asked, event.answers, now)) {
        settle(state, digest, now);
      }
      break;
    }
    case "feed-lost":
      feedLost(targetOf(state, event.target, now), event.call, now, event.reason);
      break;
    case "cancel-told":
      answered(state.cancelling, event.call, event.ok, now);
      if (event.ok) for (const runId of event.runIds) cancelTold(state, runId);
      break;
    case "finish-told":
      answered(state.finishing, event.call, event.ok, now);
      if (event.ok && event.end === state.end) finish(state, event.end);
      break;
    case "mark-told":
      answered(state.marking, event.call, event.ok, now);
      if (event.ok) state.markedActive = event.active;
      break;
    case "tick":
      break;
  }
  return due(state, now);
}

/** What a scorecard shows of itself; null before it has begun. Its end shows only once it is stored. */
export function liveOf(state: ScorecardState): ScorecardLive | null {
  if (state.id === "") return null;
  const ended = hasEnded(state);
  return {
    status: state.status,
    progress: progressOf(state),
    summary: ended ? (state.end?.summary ?? null) : null,
    finishedAt: ended ? (state.end?.finishedAt ?? null) : null,
  };
}

function begin(state: ScorecardState, plan: ScorecardPlan, now: number): void {
  const fresh = plan.runs.filter((run) => !state.byId.has(run.runId));
  if (fresh.length === 0 && state.id !== "") return;
  if (hasEnded(state)) {
    state.status = "running";
    state.cancelRequested = false;
    state.endSeq = 0;
  }
  state.end = null;
  state.id = plan.id;
  state.workspace = plan.workspace;
  state.concurrency = Math.max(1, plan.concurrency);
  for (const target of state.targets.values()) target.offered = false;
  for (const name of plan.targets) targetOf(state, name, now).offered = true;
  for (const { runId, caseId, trial } of fresh) {
    if (state.byId.has(runId)) continue;
    const run: ScorecardRun = {
      ordinal: state.runs.length,
      runId,
      caseId,
      trial,
      state: "queued",
      target: null,
      perhapsFed: false,
      cancel: "no",
      replaced: false,
      score: null,
      pass: null,
      durationMs: null,
      failureClass: null,
      failureCode: null,
      seq: 0,
    };
    addRun(state, run, now);
  }
  if (state.cancelRequested) cancel(state, now);
}

function cancel(state: ScorecardState, now: number): void {
  if (hasEnded(state) || state.end !== null || state.id === "") return;
  state.cancelRequested = true;
  for (const run of state.runs) {
    if (isEnded(run.state) || run.cancel !== "no") continue;
    wantCancel(state, run);
    if (run.state === "queued") {
      moveRun(state, run, "cancelled", now);
      emitRun(state, run);
    }
  }
  state.returned = [];
}

function cancelTold(state: ScorecardState, runId: string): void {
  const run = state.byId.get(runId);
  if (run?.cancel !== "wanted") return;
  run.cancel = "told";
  state.cancelWanted.delete(run);
  state.changed.add(run);
}

function start(state: ScorecardState, runId: string, now: number): void {
  const run = state.byId.get(runId);
  if (!run || isEnded(run.state) || run.state === "running") return;
  moveRun(state, run, "running", now);
  emitRun(state, run);
  if (state.status === "queued") state.status = "running";
}

function settle(state: ScorecardState, digest: RunDigest, now: number): void {
  const run = state.byId.get(digest.runId);
  if (!run || isEnded(run.state)) return;
  run.score = digest.score;
  run.pass = digest.pass;
  run.durationMs = digest.durationMs;
  run.failureClass = digest.failureClass;
  run.failureCode = digest.failureCode;
  moveRun(state, run, digest.status, now);
  emitRun(state, run);
  if (run.target !== null) recordEnd(targetOf(state, run.target, now), run, digest.failureStage, now);
  if (state.status === "queued") state.status = "running";
}

function answered(channel: Channel, call: number, ok: boolean, now: number): void {
  if (channel.callNumber !== call) return;
  if (ok) callSucceeded(channel);
  else callFailed(channel, now, "the Worker did not take it");
}

function finish(state: ScorecardState, end: ScorecardEnd): void {
  state.status = end.status;
  state.head += 1;
  state.endSeq = state.head;
}

/** Everything that is due now, and when to look again. */
function due(state: ScorecardState, now: number): Effect[] {
  const effects: Effect[] = [];
  if (state.progressChanged) {
    state.progressChanged = false;
    state.head += 1;
    state.progressSeq = state.head;
  }
  if (state.id === "") return effects;
  expireCalls(state, now);
  feedDue(state, now, effects);
  if (state.cancelWanted.size > 0 && isReady(state.cancelling, now)) {
    const runIds = [...state.cancelWanted].slice(0, CANCEL_BATCH).map((run) => run.runId);
    effects.push({ kind: "cancel-runs", call: openCall(state.cancelling, now), runIds });
  }
  if (isOver(state) && !hasEnded(state)) {
    state.end ??= endOf(state, now);
    if (isReady(state.finishing, now)) {
      effects.push({ kind: "finish", call: openCall(state.finishing, now), end: state.end });
    }
  }
  const active = !hasEnded(state);
  if (state.markedActive !== active && isReady(state.marking, now)) {
    effects.push({ kind: "mark-active", call: openCall(state.marking, now), active });
  }
  const at = nextWake(state, now);
  if (at !== null) effects.push({ kind: "wake-at", at });
  return effects;
}

function expireCalls(state: ScorecardState, now: number): void {
  for (const target of state.targets.values()) {
    if (isExpired(target, now)) feedLost(target, target.callNumber, now, "the answer did not come");
  }
  for (const channel of [state.cancelling, state.finishing, state.marking]) {
    if (isExpired(channel, now)) callFailed(channel, now, "the answer did not come");
  }
}

/** Whether nothing can change any more: every run has ended, and the Worker knows of every cancel. */
function isOver(state: ScorecardState): boolean {
  return state.inFlight === 0 && state.counts.queued === 0 && state.cancelWanted.size === 0;
}

function endOf(state: ScorecardState, now: number): ScorecardEnd {
  const progress = progressOf(state);
  const counted = state.runs.flatMap((run) =>
    run.replaced || !(run.state === "succeeded" || run.state === "failed" || run.state === "cancelled")
      ? []
      : [{ ...run, status: run.state }],
  );
  const summary = summarise(counted);
  const stopped = progress.cancelled > 0 && (state.cancelRequested || progress.cancelled === progress.total);
  const status = stopped ? "cancelled" : summary.measured > 0 ? "succeeded" : "failed";
  return { status, progress, summary, finishedAt: new Date(now).toISOString() };
}

function nextWake(state: ScorecardState, now: number): number | null {
  const waiting = state.counts.queued > 0 && state.inFlight < state.concurrency;
  const looks = [...state.targets.values()].map((target) =>
    nextLook(target, target.feeding.size > 0 || (target.offered && waiting), now),
  );
  looks.push(
    nextLook(state.cancelling, state.cancelWanted.size > 0, now),
    nextLook(state.finishing, state.end !== null && !hasEnded(state), now),
    nextLook(state.marking, state.markedActive !== !hasEnded(state), now),
  );
  const known = looks.filter((at) => at !== null);
  return known.length === 0 ? null : Math.min(...known);
}
