import type { LaneView, QueueEntryView, QueueView, RunnerView, RunView } from "../../contracts/rpc.ts";
import type { RunStatus } from "../../contracts/run.ts";
import { lastPart, runtimeOf } from "./begin-attempt.ts";
import { isOnline } from "./capacity.ts";
import { healthOf } from "./circuit.ts";
import { record, versionOf } from "./endings.ts";
import { listingDrift } from "./evidence.ts";
import { iso } from "./iso.ts";
import { ONLINE_MS } from "./limits.ts";
import { type Entry, isWaiting, type LiveAttempt, type Runner, type State } from "./state.ts";
import { snapshot, waitingOf } from "./waiting.ts";

const MAX_PAGE = 1_000;

/** The live view of a run that has not ended; null for any other. */
export function runView(state: State, runId: string, now: number): RunView | null {
  const entry = state.entries.get(runId);
  if (!entry) return null;
  const { attempt } = entry;
  const attempts = attempt
    ? [...entry.history, record(state, entry, attempt, attempt.state, reasonOf(state, attempt, now), null)]
    : entry.history;
  return {
    runId,
    status: statusOf(entry),
    epoch: entry.epoch,
    startedAt: attempt?.startedAt == null ? null : iso(attempt.startedAt),
    finishedAt: null,
    waiting: waitingOf(state, entry, now),
    attempts,
    placed: attempt && placeOf(attempt),
    runtimeVersion: attempt ? versionOf(state, entry) : entry.demand.pinnedVersion,
    settlement: null,
  };
}

/** Why it is being stopped, and what the end waits for where the cluster does not answer. */
function reasonOf(state: State, { state: now, stopReason, unit }: LiveAttempt, time: number): string | null {
  if (now !== "stopping" || !unit) return stopReason;
  const { detail } = healthOf(state, time);
  return detail === null ? stopReason : `${stopReason ?? "stopping"}; waits to hear that it has stopped: ${detail}`;
}

function placeOf({ runnerId, unit }: LiveAttempt): RunView["placed"] {
  if (runnerId !== null) return { node: null, ranOn: `runner:${runnerId}`, detail: null };
  return unit && { node: unit.node, ranOn: unit.ranOn, detail: unit.detail };
}

function statusOf(entry: Entry): RunStatus {
  if (!entry.attempt) return "queued";
  return entry.attempt.startedAt === null ? "dispatching" : "running";
}

/** Entries that wait, oldest first, and the lanes they wait for. `after` is a sequence number. */
export function queueView(
  state: State,
  query: { workspace: string | null; target: string | null; limit: number; after: number | null },
  storedUsage: number,
  now: number,
): QueueView {
  const limit = Math.min(MAX_PAGE, Math.max(1, query.limit));
  const sums = snapshot(state);
  const entries: QueueEntryView[] = [];
  let next: number | null = null;
  let last = 0;
  for (const entry of state.entries.values()) {
    if (!isWaiting(entry) || entry.seq <= (query.after ?? 0)) continue;
    if (query.workspace !== null && entry.demand.workspace !== query.workspace) continue;
    if (query.target !== null && entry.demand.target !== query.target) continue;
    if (entries.length === limit) {
      next = last;
      break;
    }
    last = entry.seq;
    const waiting = waitingOf(state, entry, now, sums);
    if (!waiting) continue;
    entries.push({
      runId: entry.runId,
      workspace: entry.demand.workspace,
      target: entry.demand.target,
      position: waiting.position ?? 1,
      enqueuedAt: iso(entry.enqueuedAt),
      waiting,
    });
  }
  return { lanes: lanesOf(state, query.target, storedUsage, now), entries, next };
}

interface LaneSums {
  lane: string;
  target: string;
  slots: number;
  inFlight: number;
  memoryMb: number;
  cpu: number;
  queued: number;
  oldest: number;
}

function lanesOf(state: State, target: string | null, storedUsage: number, now: number): LaneView[] {
  const lanes = new Map<string, LaneSums>();
  // An object that nobody ever used has no lanes; a local one has those that its entries name.
  if (state.kind === "push" && state.envelope && !state.object.startsWith("local:"))
    sumsOf(lanes, pushLane(state, lastPart(state.object), state.envelope.version), lastPart(state.object));
  if (state.kind === "runner" && state.object !== "")
    for (const runner of [null, ...state.runners.keys()])
      sumsOf(lanes, runnerLane(state, runner), runnerTarget(state, runner));
  for (const instance of state.instances.values()) {
    if (!isOnline(instance, now)) continue;
    for (const runner of [null, instance.runnerId]) {
      const sums = lanes.get(runnerLane(state, runner));
      if (sums) sums.slots += instance.slots.total;
    }
  }
  for (const entry of state.entries.values()) count(lanes, state, entry);
  const drift = driftOf(state, storedUsage);
  const health = healthOf(state, now);
  const { envelope } = state;
  return [...lanes.values()]
    .filter((sums) => target === null || sums.target === target)
    .map((sums) => ({
      lane: sums.lane,
      target: sums.target,
      slots: { total: envelope?.slots ?? sums.slots, inFlight: sums.inFlight },
      memoryMb: envelope?.memoryBudgetMb == null ? null : { budget: envelope.memoryBudgetMb, inFlight: sums.memoryMb },
      cpu: envelope?.cpuBudget == null ? null : { budget: envelope.cpuBudget, inFlight: sums.cpu },
      queued: sums.queued,
      oldestSec: sums.oldest === 0 ? 0 : Math.max(0, Math.floor((now - sums.oldest) / 1_000)),
      health,
      drift,
    }));
}

function count(lanes: Map<string, LaneSums>, state: State, entry: Entry): void {
  const runner = entry.attempt?.runnerId ?? entry.demand.runnerId;
  const version = entry.attempt
    ? versionOf(state, entry)
    : (entry.demand.pinnedVersion ?? state.envelope?.version ?? null);
  const push = state.kind === "push";
  const target = push ? runtimeOf(state, entry) : runnerTarget(state, runner);
  const lane = push ? pushLane(state, target, version) : runnerLane(state, runner);
  const sums = sumsOf(lanes, lane, target);
  if (isWaiting(entry)) {
    sums.queued += 1;
    if (sums.oldest === 0 || entry.enqueuedAt < sums.oldest) sums.oldest = entry.enqueuedAt;
    return;
  }
  take(sums, entry);
  // A pool's slots are those of its machines.
  if (!push && runner !== null) take(sumsOf(lanes, runnerLane(state, null), runnerTarget(state, null)), entry);
}

function take(sums: LaneSums, { demand }: Entry): void {
  sums.inFlight += 1;
  const { memoryMb, cpu } = demand.ask;
  if (memoryMb.declared) sums.memoryMb += memoryMb.value;
  if (cpu.declared) sums.cpu += cpu.value;
}

function sumsOf(lanes: Map<string, LaneSums>, lane: string, target: string): LaneSums {
  let sums = lanes.get(lane);
  if (!sums) {
    sums = { lane, target, slots: 0, inFlight: 0, memoryMb: 0, cpu: 0, queued: 0, oldest: 0 };
    lanes.set(lane, sums);
  }
  return sums;
}

/** `rt:<owner>:<id>@<version>` */
function pushLane(state: State, runtime: string, version: string | null): string {
  const [, owner = ""] = state.object.split(":");
  return `rt:${owner}:${runtime}${version === null ? "" : `@${version}`}`;
}

/** A lane for the pool of an owner's runners, and one for each runner. */
const runnerLane = (state: State, runnerId: string | null): string =>
  runnerId === null ? state.object : `${state.object}:${runnerId}`;

function runnerTarget(state: State, runnerId: string | null): string {
  const pool = state.object.startsWith("runners:ws:") ? "self:ws" : "self";
  return runnerId === null ? pool : `${pool}:${runnerId}`;
}

/** Difference between usage in memory and in storage, and between our units in the last listing and live attempts. */
export function driftOf(state: State, storedUsage: number): number {
  return Math.abs(state.live.size - storedUsage) + (state.kind === "push" ? listingDrift(state) : 0);
}

/** The paired runners as their owner sees them. */
export function runnerViews(state: State, now: number): RunnerView[] {
  const running = new Map<string, { runId: string; epoch: number; phase: string }[]>();
  for (const { runId, attempt } of state.live.values()) {
    if (!attempt?.runnerId) continue;
    const list = running.get(attempt.runnerId) ?? [];
    list.push({ runId, epoch: attempt.epoch, phase: attempt.state === "stopping" ? "stopping" : attempt.phase });
    running.set(attempt.runnerId, list);
  }
  return [...state.runners.values()].map((runner) => runnerView(state, runner, running.get(runner.id) ?? [], now));
}

function runnerView(state: State, runner: Runner, running: RunnerView["running"], now: number): RunnerView {
  let seenAt = runner.seenAt;
  let total = 0;
  let online = false;
  for (const instance of state.instances.values()) {
    if (instance.runnerId !== runner.id) continue;
    seenAt = Math.max(seenAt ?? 0, instance.poll === null ? instance.seenAt : now);
    if (!isOnline(instance, now)) continue;
    online = true;
    total += instance.slots.total;
  }
  // After a reload no process has polled yet; what was written down speaks for a minute.
  if (!online && seenAt !== null && now - seenAt < ONLINE_MS) online = true;
  const { facts } = runner;
  const slots = online && total > 0 ? total : (facts?.slots.total ?? 0);
  return {
    id: runner.id,
    label: runner.label,
    online,
    lastSeenAt: seenAt === null ? null : iso(seenAt),
    machineId: facts?.machineId ?? null,
    os: facts?.os ?? null,
    arch: facts?.arch ?? null,
    version: facts?.version ?? null,
    hostname: facts?.hostname ?? null,
    capabilities: [...(facts?.capabilities ?? [])],
    labels: [...(facts?.labels ?? [])],
    slots: { total: slots, free: Math.max(0, slots - running.length) },
    running,
  };
}

/** Prometheus gauges by name. */
export function gaugesOf(state: State, storedUsage: number): Record<string, number> {
  let online = 0;
  for (const instance of state.instances.values()) if (instance.poll !== null) online += 1;
  return {
    everdict_queue_entries: state.entries.size - state.live.size,
    everdict_attempts_live: state.live.size,
    everdict_runner_polls_parked: online,
    everdict_stored_job_bytes: state.jobBytes,
    everdict_usage_drift: driftOf(state, storedUsage),
    everdict_circuit_open: state.circuit.openUntil === null ? 0 : 1,
  };
}
