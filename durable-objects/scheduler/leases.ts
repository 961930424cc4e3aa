import type { JudgedResult } from "../../contracts/rpc.ts";
import type { Failure } from "../../contracts/run.ts";
import {
  type Accepted,
  type AttemptRef,
  type Command,
  type HeartbeatRequest,
  LEASE_MS,
  type LeaseRequest,
} from "../../contracts/runner-protocol.ts";
import { instanceKey } from "./capacity.ts";
import { noteRelayOffline } from "./circuit.ts";
import { cancelRun, closeAttempt, failAttempt, failRun, infraFailure, requeue, succeed, uncharge } from "./endings.ts";
import type { Effect, Withheld } from "./events.ts";
import { failMismatched } from "./intake.ts";
import {
  backoffMs,
  COMMAND_REPEAT_MS,
  FORGET_INSTANCE_MS,
  MAX_INSTANCES,
  MAX_LOST_LEASES,
  MAX_UNDELIVERED,
} from "./limits.ts";
import { type Answered, type Entry, type Instance, type LiveAttempt, type Runner, type State, touch } from "./state.ts";

/** How often a runner's "last seen" is written down. */
const SEEN_EVERY_MS = 60_000;
/** A result is repeated soon or never. */
const MAX_ANSWERED = 5;

/** Parks a poll; an earlier one of the same process is answered with nothing. */
export function poll(
  state: State,
  event: { pollId: number; runnerId: string; request: LeaseRequest },
  now: number,
  out: Effect[],
): void {
  const runner = state.runners.get(event.runnerId);
  if (!runner) {
    out.push({ kind: "refusePoll", pollId: event.pollId });
    return;
  }
  const { request } = event;
  const key = instanceKey(runner.id, request.instanceId);
  const known = state.instances.get(key);
  if (known && known.poll !== null) out.push({ kind: "answerPoll", pollId: known.poll, grants: [], commands: [] });
  const facts = [request.os, request.slots.total, request.memoryMb?.total, request.cpu?.total, ...request.capabilities];
  const before = known && [known.os, known.slots.total, known.memoryMb?.total, known.cpu?.total, ...known.capabilities];
  if (!before || before.join() !== facts.join()) state.fleetChanged = true;
  // Set again, so that the map's order is the order of parking.
  state.instances.delete(key);
  state.instances.set(key, {
    key,
    runnerId: runner.id,
    instanceId: request.instanceId,
    seenAt: now,
    slots: request.slots,
    memoryMb: request.memoryMb ?? null,
    cpu: request.cpu ?? null,
    capabilities: request.capabilities,
    os: request.os,
    poll: event.pollId,
  });
  if (!known) forgetInstances(state, now);
  noteFacts(state, runner, request, now, out);
}

function forgetInstances(state: State, now: number): void {
  const holding = new Set<string>();
  for (const { attempt } of state.live.values())
    if (attempt) holding.add(instanceKey(attempt.runnerId, attempt.instanceId));
  for (const instance of state.instances.values()) {
    const stale = now - instance.seenAt > FORGET_INSTANCE_MS || state.instances.size > MAX_INSTANCES;
    if (stale && instance.poll === null && !holding.has(instance.key)) state.instances.delete(instance.key);
  }
}

function noteFacts(state: State, runner: Runner, request: LeaseRequest, now: number, out: Effect[]): void {
  const facts = {
    machineId: request.machineId,
    os: request.os,
    arch: request.arch,
    version: request.version,
    hostname: request.hostname ?? null,
    capabilities: request.capabilities,
    labels: request.labels,
    slots: request.slots,
  };
  const { facts: before } = runner;
  const osIsNew = before?.os !== facts.os;
  const changed =
    !before ||
    osIsNew ||
    before.version !== facts.version ||
    before.slots.total !== facts.slots.total ||
    before.capabilities.join() !== facts.capabilities.join();
  runner.facts = facts;
  seen(state, runner, now, changed);
  if (osIsNew) failMismatched(state, runner, now, out);
}

function seen(state: State, runner: Runner, now: number, changed: boolean): void {
  if (changed || runner.seenAt === null || now - runner.seenAt >= SEEN_EVERY_MS) {
    runner.seenAt = now;
    state.dirty.runners.set(runner.id, runner);
  }
}

/**
 * The process of a runner that sends a heartbeat or a result. After the object was reloaded one that holds something counts
 * before it polls again; any other has no slots until it asks for work.
 */
function heardFrom(state: State, runner: Runner, instanceId: string, now: number): void {
  const key = instanceKey(runner.id, instanceId);
  const known = state.instances.get(key);
  if (known) known.seenAt = now;
  else if (runner.facts && holdsSomething(state, runner.id, instanceId)) {
    const { os, capabilities, slots } = runner.facts;
    const whole = { total: slots.total, free: 0 };
    const instance: Instance = {
      key,
      runnerId: runner.id,
      instanceId,
      seenAt: now,
      slots: whole,
      memoryMb: null,
      cpu: null,
      capabilities,
      os,
      poll: null,
    };
    state.instances.set(key, instance);
    state.fleetChanged = true;
  }
  seen(state, runner, now, false);
}

function holdsSomething(state: State, runnerId: string, instanceId: string): boolean {
  for (const { attempt } of state.live.values())
    if (attempt?.runnerId === runnerId && attempt.instanceId === instanceId) return true;
  return false;
}

const isHeld = (attempt: LiveAttempt | null, epoch: number, runnerId: string, instanceId: string) =>
  attempt !== null && attempt.epoch === epoch && attempt.runnerId === runnerId && attempt.instanceId === instanceId;

/** Extends the leases of a process and tells it what to stop. */
export function heartbeat(
  state: State,
  event: { runnerId: string; request: HeartbeatRequest },
  now: number,
  out: Effect[],
): void {
  const runner = state.runners.get(event.runnerId);
  const { instanceId } = event.request;
  if (runner) heardFrom(state, runner, instanceId, now);
  const attempts = event.request.attempts.map(({ runId, epoch, phase }) => {
    const entry = state.entries.get(runId);
    const attempt = entry?.attempt ?? null;
    if (!entry || !attempt || !isHeld(attempt, epoch, event.runnerId, instanceId))
      return { runId, epoch, verdict: "superseded" as const };
    attempt.until = now + LEASE_MS;
    attempt.lateExtensions = 0;
    touch(state, entry);
    if (attempt.state === "stopping") return { runId, epoch, verdict: "cancel" as const };
    attempt.acceptedAt ??= now;
    attempt.phase = phase;
    if (phase === "running") markRunning(state, entry, attempt, now, out);
    return { runId, epoch, verdict: "extended" as const };
  });
  out.push({ kind: "heartbeat", answer: { attempts } });
}

/** The work itself has begun. */
export function markRunning(state: State, entry: Entry, attempt: LiveAttempt, now: number, out: Effect[]): void {
  if (attempt.startedAt === null) {
    attempt.startedAt = now;
    if (entry.demand.batchId !== null)
      out.push({ kind: "started", scorecardId: entry.demand.batchId, runId: entry.runId });
  }
  if (attempt.state === "granted") attempt.state = "running";
  touch(state, entry);
}

/** Takes results: each is accepted once, for the current epoch and its holder only. */
export function results(
  state: State,
  event: { runnerId: string; instanceId: string; results: JudgedResult[] },
  now: number,
  out: Effect[],
): void {
  const runner = state.runners.get(event.runnerId);
  if (runner) heardFrom(state, runner, event.instanceId, now);
  const accepted = event.results.map((result): Accepted => {
    const reason = takeResult(state, event, result, now, out);
    const { runId, epoch } = result;
    return reason === null ? { runId, epoch, accepted: true } : { runId, epoch, accepted: false, reason };
  });
  out.push({ kind: "results", accepted });
}

function takeResult(
  state: State,
  from: { runnerId: string; instanceId: string },
  result: JudgedResult,
  now: number,
  out: Effect[],
): "superseded" | "cancelled" | "unknown" | null {
  const { runId, epoch, verdict } = result;
  const entry = state.entries.get(runId);
  if (!entry) return lateResult(state, from, result);
  const { attempt } = entry;
  const holder = instanceKey(from.runnerId, from.instanceId);
  if (!attempt || !isHeld(attempt, epoch, from.runnerId, from.instanceId)) {
    if (verdict.kind === "stopped" || wasAnswered(entry.answered, epoch, holder)) return null;
    markSuperseded(state, entry, epoch);
    return "superseded";
  }
  if (attempt.state === "stopping") {
    cancelRun(state, entry, attempt.stopReason ?? "cancelled", now, out);
    return verdict.kind === "stopped" || verdict.kind === "released" ? null : "cancelled";
  }
  entry.answered = [...entry.answered, { epoch, holder }].slice(-MAX_ANSWERED);
  if (verdict.kind === "measured") succeed(state, entry, verdict, now, out);
  else if (verdict.kind === "failed") failAttempt(state, entry, verdict, now, out);
  else handBack(state, entry, verdict.kind === "released" ? "handed back by the runner" : "stopped", now, out);
  return null;
}

const wasAnswered = (answered: readonly Answered[], epoch: number, holder: string): boolean =>
  answered.some((each) => each.epoch === epoch && each.holder === holder);

function handBack(state: State, entry: Entry, reason: string, now: number, out: Effect[]): void {
  closeAttempt(state, entry, "released", reason, now, out);
  entry.releases += 1;
  const delay = entry.releases === 1 ? 0 : backoffMs(entry.releases - 1, 1_000, 30_000);
  requeue(state, entry, delay, `handed back ${entry.releases} times by runners`, now, out);
}

/** A refused result leaves a mark in the evidence and changes nothing else. */
function markSuperseded(state: State, entry: Entry, epoch: number): void {
  const index = entry.history.findIndex((past) => past.epoch === epoch);
  const past = entry.history[index];
  if (!past || past.state === "superseded") return;
  const reason = `${past.reason ?? past.state}; a later result was refused`.slice(0, 1_000);
  entry.history = entry.history.with(index, { ...past, state: "superseded", reason });
  touch(state, entry);
}

function lateResult(state: State, from: { runnerId: string; instanceId: string }, result: JudgedResult) {
  if (result.verdict.kind === "stopped") return null;
  const terminal = state.terminals.get(result.runId);
  if (!terminal || terminal.status === "tombstone") return "unknown" as const;
  const holder = instanceKey(from.runnerId, from.instanceId);
  if (terminal.epoch !== result.epoch || terminal.holder !== holder)
    return wasAnswered(terminal.answered ?? [], result.epoch, holder) ? null : ("superseded" as const);
  return terminal.status === "cancelled" ? ("cancelled" as const) : null;
}

/** Ends the accept window or the lease of a runner attempt whose time is up. */
export function expireLease(state: State, entry: Entry, now: number, out: Effect[]): void {
  const { attempt } = entry;
  if (!attempt) return;
  if (attempt.state === "stopping") {
    cancelRun(state, entry, attempt.stopReason ?? "cancelled", now, out);
    return;
  }
  if (attempt.acceptedAt === null) {
    withdraw(state, entry, now, out);
    return;
  }
  entry.lostLeases += 1;
  if (entry.lostLeases >= MAX_LOST_LEASES) {
    const message = `${MAX_LOST_LEASES} leases were lost, the last on ${attempt.holder}: does the job end its machine?`;
    failRun(state, entry, infraFailure("run", "LEASE_LOST", message), now, out);
    return;
  }
  closeAttempt(state, entry, "lost", "the lease ended without a heartbeat", now, out);
  requeue(state, entry, backoffMs(entry.lostLeases, 1_000, 30_000), `lease ${entry.lostLeases} was lost`, now, out);
}

/**
 * Ends what a revoked runner holds: nothing it says can be accepted any more, so waiting for its lease helps nobody.
 * @returns what it held
 */
export function loseAttempts(state: State, runnerId: string, now: number, out: Effect[]): AttemptRef[] {
  const held: AttemptRef[] = [];
  for (const entry of [...state.live.values()]) {
    const { attempt } = entry;
    if (attempt?.runnerId !== runnerId) continue;
    held.push({ runId: entry.runId, epoch: attempt.epoch });
    if (attempt.state === "stopping") cancelRun(state, entry, attempt.stopReason ?? "cancelled", now, out);
    else {
      closeAttempt(state, entry, "lost", "its runner was revoked", now, out);
      requeue(state, entry, 0, "its runner was revoked", now, out);
    }
  }
  return held;
}

function withdraw(state: State, entry: Entry, now: number, out: Effect[]): void {
  entry.undelivered += 1;
  if (entry.undelivered >= MAX_UNDELIVERED) {
    const message = `${MAX_UNDELIVERED} grants were not accepted by ${entry.attempt?.holder ?? "any runner"}`;
    failRun(state, entry, infraFailure("dispatch", "UNDELIVERABLE", message), now, out);
    return;
  }
  closeAttempt(state, entry, "released", "the grant was not accepted in time", now, out);
  uncharge(state, entry);
  const delay = entry.undelivered === 1 ? 0 : backoffMs(entry.undelivered - 1, 250, 30_000);
  requeue(state, entry, delay, `${entry.undelivered} grants were not accepted`, now, out);
}

/** Grants that could not be handed over go back to their place without a charge. */
export function withhold(state: State, items: Withheld[], now: number, out: Effect[]): void {
  for (const item of items) {
    const entry = state.entries.get(item.runId);
    const until = now + Math.min(600, Math.max(1, item.retryAfterSec)) * 1_000;
    if (item.reason === "secrets-unavailable") state.secretsOffline = { until, detail: item.detail.slice(0, 500) };
    else noteRelayOffline(state, item.detail, item.retryAfterSec, now);
    if (!entry?.attempt || entry.attempt.epoch !== item.epoch) continue;
    if (entry.attempt.state === "stopping") {
      cancelRun(state, entry, entry.attempt.stopReason ?? "cancelled", now, out);
      continue;
    }
    const { unit } = entry.attempt;
    if (unit && unit.startTries > 1) {
      // An earlier start of this attempt may have taken effect: it is repeated under its name, never given a new one.
      unit.startAt = until;
      unit.busyUntil = 0;
      touch(state, entry);
      continue;
    }
    // Nothing was started, so no unit can turn up later.
    if (unit) unit.createdAt ??= now;
    closeAttempt(state, entry, "released", `${item.reason}: ${item.detail}`, now, out);
    forgetEqualRelease(entry, item.reason);
    uncharge(state, entry);
    requeue(state, entry, 0, "", now, out);
  }
}

/** Of releases for one reason in a row the last one is kept: they may go on for days. */
function forgetEqualRelease(entry: Entry, reason: string): void {
  const [last, before] = [entry.history.at(-1), entry.history.at(-2)];
  const equal = [last, before].every((each) => each?.state === "released" && each.reason?.startsWith(`${reason}:`));
  if (equal) entry.history = [...entry.history.slice(0, -2), ...entry.history.slice(-1)];
}

/** Grants that can never be handed over end with their failure. */
export function reject(state: State, items: (AttemptRef & { failure: Failure })[], now: number, out: Effect[]): void {
  for (const { runId, epoch, failure } of items) {
    const entry = state.entries.get(runId);
    if (!entry?.attempt || entry.attempt.epoch !== epoch) continue;
    if (entry.attempt.state === "stopping") cancelRun(state, entry, entry.attempt.stopReason ?? "cancelled", now, out);
    else
      failAttempt(
        state,
        entry,
        { kind: "failed", failure, stdout: "", stderr: "", node: null, durationMs: null },
        now,
        out,
      );
  }
}

/** Cancels that the parked polls of their holders are to be answered with. */
export function pendingCommands(state: State, now: number): Map<string, Command[]> {
  const commands = new Map<string, Command[]>();
  for (const { runId, attempt } of state.live.values()) {
    if (attempt?.state !== "stopping" || attempt.instanceId === null) continue;
    if (now - attempt.commandedAt < COMMAND_REPEAT_MS) continue;
    const key = instanceKey(attempt.runnerId, attempt.instanceId);
    if (state.instances.get(key)?.poll === null || !state.instances.has(key)) continue;
    attempt.commandedAt = now;
    const list = commands.get(key) ?? [];
    list.push({ runId, epoch: attempt.epoch, verdict: "cancel" });
    commands.set(key, list);
  }
  return commands;
}
