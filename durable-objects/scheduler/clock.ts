import { HEARTBEAT_MS } from "../../contracts/runner-protocol.ts";
import { anyCapableOnline, missingOn } from "./capacity.ts";
import { dropHold, failRun, infraFailure, loneClock, requeue } from "./endings.ts";
import type { Effect } from "./events.ts";
import { type Due, deadlineOf, driveUnit, nextObserveAt, observeIfDue } from "./evidence.ts";
import { expireLease } from "./leases.ts";
import { LATE_MS, MAX_LATE_EXTENSIONS, ONLINE_MS, RECONCILE_MS, RESERVE_AFTER_MS } from "./limits.ts";
import { type Demand, type Entry, type State, touch } from "./state.ts";

/** What the passing of time alone brings about: ends of leases and holds, starts, stops, observe passes, queue timeouts. */
export function passTime(state: State, now: number, out: Effect[]): void {
  const due: Due = { starts: [], stops: [] };
  for (const entry of [...state.live.values()]) {
    const { attempt, hold } = entry;
    if (hold && hold.until <= now) {
      dropHold(state, entry, out);
      requeue(state, entry, 1_000, "the workspace's quota did not answer", now, out);
    } else if (attempt?.unit) driveUnit(state, entry, now, out, due);
    else if (attempt && attempt.until <= now) expireLease(state, entry, now, out);
  }
  if (due.starts.length > 0) out.push({ kind: "start", refs: due.starts });
  if (due.stops.length > 0) out.push({ kind: "stop", units: due.stops });
  observeIfDue(state, now, out);
  liftBarriers(state, now);
  state.fleetChanged = true;
  watchFleet(state, now, out);
  reconcileQuota(state, now, out);
}

function liftBarriers(state: State, now: number): void {
  if (state.secretsOffline && state.secretsOffline.until <= now) state.secretsOffline = null;
}

/**
 * Gives every lease the time by which we were late ourselves, so that an outage of ours expires nothing; time slept
 * on purpose is not late and extends nothing.
 */
export function compensateLateness(state: State, now: number): void {
  const armed = state.armedWakeAt;
  if (armed === null || now < armed) return;
  state.armedWakeAt = null;
  const late = now - armed;
  if (late < LATE_MS) return;
  for (const entry of state.live.values()) {
    const { attempt } = entry;
    if (!attempt || attempt.unit || attempt.lateExtensions >= MAX_LATE_EXTENSIONS) continue;
    attempt.lateExtensions += 1;
    attempt.until = Math.max(attempt.until + late, now + Math.min(late, HEARTBEAT_MS));
    touch(state, entry);
  }
  for (const demand of state.timed) {
    if (demand.loneSince === null) continue;
    demand.loneSince = Math.min(now, demand.loneSince + late);
    state.dirty.demands.set(demand.id, demand);
  }
}

/** Runs and stops the clocks of demands with a queue timeout, and fails entries whose time is up. */
export function watchFleet(state: State, now: number, out: Effect[]): void {
  if (!state.fleetChanged) return;
  state.fleetChanged = false;
  for (const demand of [...state.timed]) {
    const online = anyCapableOnline(state, demand, now);
    if (online && demand.loneSince !== null) {
      demand.loneMs += Math.max(0, now - demand.loneSince);
      demand.loneSince = null;
      state.dirty.demands.set(demand.id, demand);
    } else if (!online && demand.loneSince === null) {
      demand.loneSince = now;
      state.dirty.demands.set(demand.id, demand);
    }
    if (!online) failOverdue(state, demand, now, out);
  }
}

function failOverdue(state: State, demand: Demand, now: number, out: Effect[]): void {
  for (;;) {
    const entry = oldestWaiting(state, demand);
    if (!entry || loneClock(entry, now) - entry.loneBase < demand.queueTimeoutSec * 1_000) return;
    const message = `no capable runner was online for ${demand.queueTimeoutSec} s: ${describeLack(state, demand, now)}`;
    failRun(state, entry, infraFailure("dispatch", "NO_RUNNER", message, false), now, out);
  }
}

function oldestWaiting(state: State, demand: Demand): Entry | undefined {
  let oldest: Entry | undefined;
  for (const cls of state.tenants.get(demand.workspace)?.classes ?? []) {
    const head = cls.all
      .get(demand.batchId ?? "")
      ?.all.get(demand.id)
      ?.entries.first();
    if (head && (!oldest || head.loneBase < oldest.loneBase)) oldest = head;
  }
  return oldest;
}

/** Why no runner that is online can take a demand: what the nearest one lacks. */
export function describeLack(state: State, demand: Demand, now: number): string {
  let nearest: { runnerId: string; missing: string[] } | null = null;
  for (const instance of state.instances.values()) {
    if (demand.runnerId !== null && demand.runnerId !== instance.runnerId) continue;
    if (instance.poll === null && now - instance.seenAt >= ONLINE_MS) continue;
    const missing = missingOn(instance, demand);
    if (!nearest || missing.length < nearest.missing.length) nearest = { runnerId: instance.runnerId, missing };
  }
  if (!nearest) return demand.runnerId === null ? "no runner is online" : `runner ${demand.runnerId} is not online`;
  if (nearest.missing.length > 0) return `runner ${nearest.runnerId} lacks ${nearest.missing.join(", ")}`;
  const { memoryMb, cpu } = demand.ask;
  const asks = [memoryMb.declared ? `${memoryMb.value} MB` : "", cpu.declared ? `${cpu.value} millicores` : ""];
  return `no runner online is large enough for ${asks.filter((ask) => ask !== "").join(" and ")}`;
}

function reconcileQuota(state: State, now: number, out: Effect[]): void {
  if (now - state.reconciledAt < RECONCILE_MS) return;
  state.reconciledAt = now;
  for (const tenant of state.tenants.values()) {
    if (tenant.limits.maxInFlight === null) continue;
    const live = [];
    for (const entry of state.live.values()) {
      if (entry.demand.workspace !== tenant.workspace) continue;
      if (entry.attempt?.quotaHeld) live.push({ runId: entry.runId, epoch: entry.attempt.epoch });
      else if (entry.hold) live.push({ runId: entry.runId, epoch: entry.epoch + 1 });
    }
    out.push({ kind: "reconcileQuota", workspace: tenant.workspace, live });
  }
}

/** The earliest time at which something is due by itself, in epoch ms; null when nothing is. */
export function nextWakeAt(state: State, now: number): number | null {
  let at = Number.POSITIVE_INFINITY;
  const due = (time: number | null | undefined) => {
    if (time !== null && time !== undefined && time < at) at = time;
  };
  let quota = false;
  for (const entry of state.live.values()) {
    due(entry.hold?.until);
    if (entry.attempt) dueOf(entry, due);
    quota ||= entry.hold !== null || entry.attempt?.quotaHeld === true;
  }
  due(nextObserveAt(state));
  if (quota) due(state.reconciledAt + RECONCILE_MS);
  due(state.delayed.first()?.backoff?.until);
  due(state.lookAgainAt);
  if (state.fair.size > 0) {
    const { circuit } = state;
    for (const time of [circuit.openUntil, circuit.pausedUntil, state.relayOffline?.until, state.secretsOffline?.until])
      if (time && time > now) due(time);
    dueForWaiting(state, now, due);
  }
  return at === Number.POSITIVE_INFINITY ? null : at;
}

function dueOf(entry: Entry, due: (time: number | null) => void): void {
  const { attempt } = entry;
  if (!attempt) return;
  const { unit } = attempt;
  if (!unit) {
    due(attempt.until);
    return;
  }
  if (attempt.state === "stopping") due(unit.stopAt);
  else if (unit.createdAt === null) due(unit.startAt ?? unit.busyUntil);
  if (attempt.state === "running") due(deadlineOf(entry));
}

function dueForWaiting(state: State, now: number, due: (time: number | null) => void): void {
  for (const tenant of state.fair) if (tenant.deniedUntil > now) due(tenant.deniedUntil);
  if (!state.reservation)
    for (const demand of state.skipped) {
      if (demand.skippedSince === null) continue;
      const at = demand.skippedSince + RESERVE_AFTER_MS;
      if (at > now) due(at);
    }
  for (const demand of state.timed) {
    const head = oldestWaiting(state, demand);
    if (head && demand.loneSince !== null)
      due(demand.loneSince + demand.queueTimeoutSec * 1_000 + head.loneBase - demand.loneMs);
  }
  if (state.timed.size > 0)
    for (const instance of state.instances.values()) {
      const offlineAt = instance.seenAt + ONLINE_MS;
      if (instance.poll === null && offlineAt > now) due(offlineAt);
    }
}
