import type { Observation, ObservedUnit, StartAnswer } from "../../contracts/rpc.ts";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import { lastPart } from "./begin-attempt.ts";
import { noteAnswer, noteError, noteRelayOffline, noteStart, reopen } from "./circuit.ts";
import { cancelRun, failAttempt, infraFailure, succeed, versionOf } from "./endings.ts";
import type { Effect, UnitRef } from "./events.ts";
import { evictedVerdict, evictionOf } from "./eviction.ts";
import { markRunning, reject, withhold } from "./leases.ts";
import {
  ABSENT_GAP_MS,
  backoffMs,
  CALL_MS,
  DEADLINE_SLACK_SEC,
  OBSERVE_GAP_MS,
  OUTCOME_KNOWN_MS,
  START_WINDOW_MS,
  SWEEP_MS,
} from "./limits.ts";
import { type Entry, type LiveAttempt, type State, touch, type UnitEvidence } from "./state.ts";

/** Longest stop list of one sweep; the rest is found by the next. */
const MAX_ORPHANS = 200;

/** Takes what the Worker said about starts; an answer for another epoch changes nothing. */
export function startAnswers(state: State, answers: StartAnswer[], now: number, out: Effect[]): void {
  for (const answer of answers) {
    if (answer.kind === "withheld") {
      withhold(state, [answer], now, out);
      continue;
    }
    if (answer.kind === "started") noteStart(state, out);
    if (answer.kind === "unknown") noteError(state, answer.error, now, out);
    const entry = state.entries.get(answer.runId);
    const attempt = entry?.attempt;
    if (!entry || !attempt?.unit || attempt.epoch !== answer.epoch) continue;
    const { unit } = attempt;
    unit.busyUntil = 0;
    if (answer.kind === "started") started(state, entry, unit, answer, now);
    else if (answer.kind === "failed") startFailed(state, entry, answer, now, out);
    else {
      // Shown while it is tried again, and among the events of what became of it.
      unit.detail = `not started yet, ${answer.error.message}`.slice(0, 1_000);
      startUnknown(state, entry, attempt, unit, now, out);
    }
  }
}

function started(
  state: State,
  entry: Entry,
  unit: UnitEvidence,
  answer: Extract<StartAnswer, { kind: "started" }>,
  now: number,
): void {
  unit.createdAt ??= now;
  unit.seenAt = now;
  unit.startAt = null;
  unit.detail = null;
  unit.node = answer.node ?? unit.node;
  unit.version = answer.runtimeVersion;
  unit.ranOn = answer.ranOn ?? unit.ranOn;
  touch(state, entry);
}

function startFailed(
  state: State,
  entry: Entry,
  answer: Extract<StartAnswer, { kind: "failed" }>,
  now: number,
  out: Effect[],
): void {
  noteAnswer(state);
  const { unit } = entry.attempt ?? {};
  // The first try was refused, so nothing exists; after a lost answer something may, and sweeps look for it.
  if (unit && unit.startTries === 1) unit.createdAt ??= now;
  if (state.circuit.probe === entry.runId && answer.failure.class === "infra") reopen(state, now);
  reject(state, [answer], now, out);
}

function startUnknown(
  state: State,
  entry: Entry,
  attempt: LiveAttempt,
  unit: UnitEvidence,
  now: number,
  out: Effect[],
): void {
  const { circuit } = state;
  if (circuit.probe === entry.runId) {
    reopen(state, now);
    circuit.probe = null;
  }
  if (attempt.state === "stopping" || unit.createdAt !== null) return;
  if (now - attempt.grantedAt >= START_WINDOW_MS) {
    startLost(state, entry, now, out);
    return;
  }
  const calm = Math.max(circuit.pausedUntil, circuit.openUntil ?? 0);
  unit.startAt = Math.max(calm, now + backoffMs(unit.startTries, 1_000, 30_000));
  touch(state, entry);
}

function startLost(state: State, entry: Entry, now: number, out: Effect[]): void {
  const last = entry.attempt?.unit?.detail;
  const message = `the cluster gave no answer to the start for 10 minutes${last ? `: ${last}` : ""}`;
  lose(state, entry, "dispatch", "START_LOST", message, true, now, out);
}

function lose(
  state: State,
  entry: Entry,
  stage: "dispatch" | "run",
  code: string,
  message: string,
  retryable: boolean,
  now: number,
  out: Effect[],
): void {
  const unit = entry.attempt?.unit ?? null;
  const events = [...(unit?.detail ? [unit.detail] : []), message];
  const failure = {
    ...infraFailure(stage, code, message, retryable),
    placement: { unit: unit?.name ?? null, node: unit?.node ?? null, events },
  };
  const node = unit?.node ?? null;
  failAttempt(state, entry, { kind: "failed", failure, stdout: "", stderr: "", node, durationMs: null }, now, out);
}

/** Takes the answer of one observe pass. A failed listing says nothing about any unit. */
export function observed(state: State, observation: Observation, now: number, out: Effect[]): void {
  const { observing } = state;
  const awaited = observing.busyUntil > 0;
  observing.busyUntil = 0;
  if (!observation.ok) {
    const { error } = observation;
    if (error?.relayOffline) noteRelayOffline(state, error.message, error.retryAfterSec ?? 1, now);
    else if (error) noteError(state, error, now, out);
    return;
  }
  // Where nothing was left to ask about, nobody was asked.
  if (observation.units.length === 0 && observation.listed.length === 0) return;
  noteAnswer(state);
  // Who answers a listing is there.
  state.relayOffline = null;
  for (const seen of observation.units) {
    const entry = state.entries.get(seen.runId);
    const attempt = entry?.attempt;
    // What was read before the unit was known to exist, or comes a second time, proves no absence.
    const late = !awaited || observing.startedAt >= now || (attempt?.unit?.createdAt ?? now) > observing.startedAt;
    if (seen.state === "absent" && late) continue;
    if (entry && attempt?.unit && attempt.epoch === seen.epoch)
      takeEvidence(state, entry, attempt, attempt.unit, seen, now, out);
  }
  observing.listed = observation.listed;
  observing.listedAt = now;
  if (now - observing.sweptAt >= SWEEP_MS) sweepOrphans(state, observation.listed, now, out);
}

function takeEvidence(
  state: State,
  entry: Entry,
  attempt: LiveAttempt,
  unit: UnitEvidence,
  seen: ObservedUnit,
  now: number,
  out: Effect[],
): void {
  touch(state, entry);
  if (seen.state === "absent") {
    absent(state, entry, attempt, unit, now, out);
    return;
  }
  unit.absentAt = null;
  unit.node = seen.node ?? unit.node;
  if (seen.state === "stopped") {
    if (attempt.state === "stopping") endStopping(state, entry, attempt, now, out);
    else gone(state, entry, unit, "was stopped by someone else", now, out);
    return;
  }
  unit.createdAt ??= now;
  unit.seenAt = now;
  unit.ranOn ??= seen.ranOn ?? null;
  unit.startAt = null;
  unit.detail = seen.detail?.slice(0, 1_000) ?? null;
  if (seen.state === "finished" && seen.verdict) finished(state, entry, attempt, seen.verdict, now, out);
  else if (seen.state === "running" && attempt.state !== "stopping") markRunning(state, entry, attempt, now, out);
}

function finished(
  state: State,
  entry: Entry,
  attempt: LiveAttempt,
  verdict: NonNullable<ObservedUnit["verdict"]>,
  now: number,
  out: Effect[],
): void {
  if (attempt.state === "stopping" && (attempt.stopCause === "cancel" || verdict.kind !== "measured")) {
    // Its container has ended by itself, which is as good as a confirmed stop.
    endStopping(state, entry, attempt, now, out);
    return;
  }
  if (attempt.startedAt === null && attempt.unit?.createdAt) attempt.startedAt = attempt.unit.createdAt;
  if (verdict.kind === "measured") succeed(state, entry, verdict, now, out);
  else if (verdict.kind === "failed") failAttempt(state, entry, evictedVerdict(verdict, attempt.unit, now), now, out);
  else lose(state, entry, "run", "UNIT_LOST", "the unit ended without a verdict", true, now, out);
}

/** Absent counts when it was said twice, at least 10 s apart: a listing alone only raises suspicion. */
function absent(
  state: State,
  entry: Entry,
  attempt: LiveAttempt,
  unit: UnitEvidence,
  now: number,
  out: Effect[],
): void {
  if (attempt.state === "stopping") return;
  if (unit.createdAt === null) return;
  if (unit.absentAt === null) {
    unit.absentAt = now;
    return;
  }
  if (now - unit.absentAt >= ABSENT_GAP_MS) gone(state, entry, unit, "is gone", now, out);
}

function gone(state: State, entry: Entry, unit: UnitEvidence, what: string, now: number, out: Effect[]): void {
  const known = unit.seenAt !== null && now - unit.seenAt <= OUTCOME_KNOWN_MS;
  const eviction = evictionOf(unit, now);
  if (eviction) {
    lose(state, entry, "run", eviction.code, eviction.message, true, now, out);
    return;
  }
  if (known) {
    lose(state, entry, "run", "UNIT_LOST", `unit ${unit.name} ${what}`, true, now, out);
    return;
  }
  const message = `unit ${unit.name} ${what}, and was last seen more than 10 minutes ago: it may have finished and been collected`;
  lose(state, entry, "run", "OUTCOME_LOST", message, false, now, out);
}

function endStopping(state: State, entry: Entry, attempt: LiveAttempt, now: number, out: Effect[]): void {
  const seenAt = attempt.unit?.seenAt ?? now;
  if (attempt.stopCause === "cancel") cancelRun(state, entry, attempt.stopReason ?? "cancelled", now, out);
  else if (attempt.unit && now - seenAt > OUTCOME_KNOWN_MS) gone(state, entry, attempt.unit, "is gone", now, out);
  else lose(state, entry, "run", "DEADLINE_EXCEEDED", attempt.stopReason ?? "the time limit passed", true, now, out);
}

/** When an attempt must have ended by itself, in epoch ms; null before it runs. */
export function deadlineOf(entry: Entry): number | null {
  const startedAt = entry.attempt?.startedAt ?? null;
  if (startedAt === null) return null;
  return startedAt + (entry.demand.timeoutSec + entry.demand.graceSec + DEADLINE_SLACK_SEC) * 1_000;
}

/** Starts, stops and deadlines of one push attempt that are due. */
export function driveUnit(state: State, entry: Entry, now: number, out: Effect[], due: Due): void {
  const { attempt } = entry;
  const unit = attempt?.unit;
  if (!attempt || !unit) return;
  const deadline = deadlineOf(entry);
  if (attempt.state === "running" && deadline !== null && deadline <= now) {
    attempt.state = "stopping";
    attempt.stopCause = "deadline";
    attempt.stopReason = `it ran for more than ${entry.demand.timeoutSec} s and its grace and grading time`;
    unit.stopAt = now;
    touch(state, entry);
  }
  if (attempt.state === "stopping") {
    if (unit.createdAt === null && attempt.stopCause === "cancel" && now - attempt.grantedAt >= START_WINDOW_MS) {
      // As for a start whose answer never came: sweeps look for what may turn up.
      const reason = `${attempt.stopReason ?? "cancelled"}; the cluster never said whether it had started`;
      cancelRun(state, entry, reason, now, out);
      return;
    }
    if (unit.stopAt === null || unit.stopAt > now) return;
    unit.stopTries += 1;
    unit.stopAt = now + backoffMs(unit.stopTries, 5_000, 60_000);
    due.stops.push(unitRef(state, entry, attempt, unit));
    touch(state, entry);
    return;
  }
  if (unit.createdAt !== null) return;
  if (unit.startAt === null && unit.busyUntil > now) return;
  if (unit.startAt !== null && unit.startAt > now) return;
  if (now - attempt.grantedAt >= START_WINDOW_MS) {
    startLost(state, entry, now, out);
    return;
  }
  unit.startTries += 1;
  unit.startAt = null;
  unit.busyUntil = now + CALL_MS;
  due.starts.push({ runId: entry.runId, epoch: attempt.epoch });
  touch(state, entry);
}

export interface Due {
  starts: AttemptRef[];
  stops: UnitRef[];
}

function unitRef(state: State, entry: Entry, attempt: LiveAttempt, unit: UnitEvidence): UnitRef {
  const { target, workspace } = entry.demand;
  return {
    runId: entry.runId,
    epoch: attempt.epoch,
    name: unit.name,
    target,
    workspace,
    pinnedVersion: versionOf(state, entry),
  };
}

/** When the next observe pass may begin; null when there is nothing to look for. */
export function nextObserveAt(state: State): number | null {
  if (state.kind === "runner") return null;
  const { observing } = state;
  let units = false;
  for (const entry of state.live.values()) if (entry.attempt) units = true;
  const at = Math.max(observing.busyUntil, observing.startedAt + OBSERVE_GAP_MS);
  if (units) return at;
  const sweepAt = Math.max(at, observing.sweptAt + SWEEP_MS);
  return sweepAt <= observing.sweepUntil ? sweepAt : null;
}

/** Begins an observe pass when one is due; the row of the pass in flight has an expiry. */
export function observeIfDue(state: State, now: number, out: Effect[]): void {
  const at = nextObserveAt(state);
  if (at === null || at > now) return;
  state.observing.startedAt = now;
  state.observing.busyUntil = now + CALL_MS;
  const refs: AttemptRef[] = [];
  for (const { runId, attempt } of state.live.values()) if (attempt) refs.push({ runId, epoch: attempt.epoch });
  out.push({ kind: "observe", refs });
}

/** Stops units that carry this object's labels and are no live attempt. */
function sweepOrphans(state: State, listed: string[], now: number, out: Effect[]): void {
  state.observing.sweptAt = now;
  const live = liveNames(state);
  const orphans: UnitRef[] = [];
  for (const name of listed) {
    if (live.has(name) || orphans.length >= MAX_ORPHANS) continue;
    const ref = parseName(state, name);
    if (ref) orphans.push(ref);
  }
  if (orphans.length === 0) return;
  out.push({ kind: "log", event: "orphans.stop", fields: { count: orphans.length } });
  out.push({ kind: "stop", units: orphans });
}

function liveNames(state: State): Set<string> {
  const names = new Set<string>();
  for (const { attempt } of state.live.values()) if (attempt?.unit) names.add(attempt.unit.name);
  return names;
}

function parseName(state: State, name: string): UnitRef | null {
  const match = /^evd-([0-9a-f]{8})-([0-9a-z]+)-([1-9][0-9]*)$/.exec(name);
  const [, hash, run, epoch] = match ?? [];
  if (hash !== state.objectHash || run === undefined || epoch === undefined) return null;
  const runId = `run_${run}`;
  const known = state.terminals.get(runId);
  const entry = state.entries.get(runId);
  const owner = state.object.split(":")[1] ?? "";
  return {
    runId,
    epoch: Number(epoch),
    name,
    target: entry?.demand.target ?? (known?.target || lastPart(state.object)),
    workspace: entry?.demand.workspace ?? (known?.workspace || owner),
    pinnedVersion: entry?.demand.pinnedVersion ?? known?.pinnedVersion ?? null,
  };
}

/** Difference between our units in the last listing and the attempts that should have been in it. */
export function listingDrift(state: State): number {
  const { listed, startedAt, listedAt } = state.observing;
  if (!listed) return 0;
  const began = Math.min(startedAt, listedAt);
  const expected = new Set<string>();
  const allowed = new Set<string>();
  for (const { attempt } of state.live.values()) {
    if (!attempt?.unit) continue;
    allowed.add(attempt.unit.name);
    if (attempt.unit.createdAt !== null && attempt.unit.createdAt < began) expected.add(attempt.unit.name);
  }
  const there = new Set(listed);
  let drift = 0;
  for (const name of there) if (!allowed.has(name)) drift += 1;
  for (const name of expected) if (!there.has(name)) drift += 1;
  return drift;
}
