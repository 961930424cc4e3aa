import type { Waiting, WaitReason } from "../../contracts/run.ts";
import {
  anyCapableOnline,
  barrierFor,
  capable,
  capacityOf,
  declared,
  envelopeRoom,
  instanceRoom,
  isOnline,
  liveOfWorkspace,
  type Room,
  shortOf,
  type Usage,
  usageByInstance,
  usageOf,
  without,
} from "./capacity.ts";
import { describeLack } from "./clock.ts";
import { iso } from "./iso.ts";
import { positionOf, tenantOf } from "./queue.ts";
import type { Entry, State } from "./state.ts";

interface Cause {
  reason: WaitReason;
  detail: string;
  /** Seconds to wait when the cause itself says so. */
  sec?: number;
}

/** Sums over live attempts, made once for a page of entries. */
export interface Snapshot {
  used: Usage;
  byInstance: Map<string, Usage>;
}

export const snapshot = (state: State): Snapshot => ({ used: usageOf(state), byInstance: usageByInstance(state) });

/** Why an entry has not started, its place, and an estimate; null when it runs. */
export function waitingOf(state: State, entry: Entry, now: number, sums: Snapshot = snapshot(state)): Waiting | null {
  const { attempt } = entry;
  if (attempt) {
    const { unit } = attempt;
    if (!unit || attempt.state !== "granted" || (unit.createdAt === null && unit.detail === null)) return null;
    const detail = unit.detail ?? "the cluster has not started it yet";
    return { position: null, reason: "cluster", detail, etaSec: null };
  }
  const position = entry.hold ? 1 : positionOf(state, entry);
  const cause = causeOf(state, entry, now, sums);
  const etaSec = cause.sec ?? etaOf(state, entry, position, cause.reason);
  return { position, reason: cause.reason, detail: cause.detail.slice(0, 2_000), etaSec };
}

function causeOf(state: State, entry: Entry, now: number, sums: Snapshot): Cause {
  if (entry.hold) return { reason: "quota", detail: "asking for one of the workspace's places in flight" };
  if (entry.backoff && entry.backoff.until > now) {
    const sec = Math.ceil((entry.backoff.until - now) / 1_000);
    return { reason: "backoff", detail: `${entry.backoff.detail}, in ${sec} s`, sec };
  }
  const quota = quotaCause(state, entry, now);
  if (quota) return quota;
  const barrier = barrierFor(state, entry, now);
  if (barrier) return barrierCause(state, barrier, now);
  return state.kind === "push" ? pushCause(state, entry, sums, now) : runnerCause(state, entry, sums, now);
}

function quotaCause(state: State, entry: Entry, now: number): Cause | null {
  const tenant = tenantOf(state, entry.demand.workspace);
  const { maxInFlight } = tenant.limits;
  if (maxInFlight === null) return null;
  const live = liveOfWorkspace(state, tenant.workspace);
  const words = `workspace '${tenant.workspace}' may have ${maxInFlight} runs in flight (maxInFlight)`;
  if (live >= maxInFlight) return { reason: "quota", detail: `${words}, ${live} are` };
  return tenant.deniedUntil > now ? { reason: "quota", detail: `${words}, all are taken on its other runtimes` } : null;
}

function barrierCause(state: State, reason: WaitReason, now: number): Cause {
  const { circuit, relayOffline, secretsOffline } = state;
  if (reason === "relay-offline") return { reason, detail: relayOffline?.detail ?? "the relay is offline" };
  if (reason === "secrets-unavailable")
    return { reason, detail: secretsOffline?.detail ?? "secrets cannot be read at the moment" };
  const error = circuit.lastError ?? "the cluster does not answer";
  if (circuit.pausedUntil > now)
    return { reason: "circuit", detail: `the cluster asked for a pause until ${iso(circuit.pausedUntil)}: ${error}` };
  if (circuit.openUntil !== null && circuit.openUntil > now)
    return {
      reason: "circuit",
      detail: `${circuit.failures} errors in a row, next try at ${iso(circuit.openUntil)}: ${error}`,
    };
  return { reason: "circuit", detail: `one job tries whether the cluster is back: ${error}` };
}

const inUse = (what: string, used: number, total: number, unit: string, ask: number): string =>
  `${what} ${used}/${total}${unit} in use, needs ${ask}`;

function pushCause(state: State, entry: Entry, sums: Snapshot, now: number): Cause {
  const { envelope } = state;
  const ask = declared(entry.demand);
  const room = envelopeRoom(state);
  const short = shortOf(room, ask);
  if (!envelope || short === "slots")
    return { reason: "slots", detail: `slots ${sums.used.slots}/${envelope?.slots ?? 0} in use` };
  if (short === "memory")
    return {
      reason: "memory",
      detail: inUse("memory", sums.used.memoryMb, envelope.memoryBudgetMb ?? 0, " MB", ask.memoryMb),
    };
  if (short === "cpu")
    return { reason: "cpu", detail: inUse("cpu", sums.used.cpu, envelope.cpuBudget ?? 0, " millicores", ask.cpu) };
  return reservationCause(state, entry, room, ask, now) ?? nextInLine(sums.used.slots, envelope.slots);
}

function reservationCause(state: State, entry: Entry, room: Room, ask: Usage, now: number): Cause | null {
  const { reservation } = state;
  if (!reservation || reservation.runId === entry.runId) return null;
  const reserved = state.entries.get(reservation.runId);
  if (!reserved || !shortOf(without(room, declared(reserved.demand)), ask)) return null;
  const sec = Math.round((now - reserved.enqueuedAt) / 1_000);
  const whose = reserved.demand.workspace === entry.demand.workspace ? reserved.runId : "a larger run";
  return { reason: "reservation", detail: `room is held back for ${whose}, which waits since ${sec} s` };
}

const nextInLine = (used: number, total: number): Cause => ({
  reason: "slots",
  detail: `slots ${used}/${total} in use, others are before it in fair order`,
});

function runnerCause(state: State, entry: Entry, sums: Snapshot, now: number): Cause {
  const { demand } = entry;
  if (!anyCapableOnline(state, demand, now)) return { reason: "no-runner", detail: describeLack(state, demand, now) };
  const ask = declared(demand);
  let slots = { used: 0, total: 0 };
  const machines = new Set<string>();
  let asking = false;
  let lacking: Cause | null = null;
  for (const instance of state.instances.values()) {
    if (!isOnline(instance, now) || !capable(instance, demand)) continue;
    const used = sums.byInstance.get(instance.key) ?? { slots: 0, memoryMb: 0, cpu: 0 };
    const { total } = instance.slots;
    slots = { used: slots.used + Math.min(total, used.slots), total: slots.total + total };
    machines.add(instance.runnerId);
    asking ||= instance.poll !== null;
    // A process between two polls has said how much was free before it took what it holds now.
    const room = instanceRoom({ ...instance, slots: { total, free: total } }, used);
    const short = shortOf(room, ask);
    if (short === "memory" && instance.memoryMb) {
      const taken = instance.memoryMb.total - (room.memoryMb ?? 0);
      lacking ??= {
        reason: "memory",
        detail: `${inUse("memory", taken, instance.memoryMb.total, " MB", ask.memoryMb)} (runner ${instance.runnerId})`,
      };
    } else if (short === "cpu" && instance.cpu) {
      const taken = instance.cpu.total - (room.cpu ?? 0);
      lacking ??= {
        reason: "cpu",
        detail: `${inUse("cpu", taken, instance.cpu.total, " millicores", ask.cpu)} (runner ${instance.runnerId})`,
      };
    } else if (short === null && state.reservation?.instance === instance.key)
      lacking ??= reservationCause(state, entry, room, ask, now);
  }
  if (lacking) return lacking;
  const many = machines.size === 1 ? "the runner" : `${machines.size} runners`;
  if (slots.used < slots.total && !asking)
    return {
      reason: "no-runner",
      detail: `${many} ${machines.size === 1 ? "is" : "are"} online, but not asking for work at this moment`,
    };
  return { reason: "slots", detail: `slots ${slots.used}/${slots.total} of ${many} in use` };
}

/** Rounds of the mean duration until its turn, at the tenant's share of the slots. */
function etaOf(state: State, entry: Entry, position: number, reason: WaitReason): number | null {
  if (reason === "no-runner" || reason === "circuit" || reason === "relay-offline") return null;
  const tenant = tenantOf(state, entry.demand.workspace);
  const meanMs = tenant.meanMs || state.meanMs;
  if (meanMs === 0) return null;
  let weights = tenant.limits.weight;
  for (const other of state.fair) if (other !== tenant) weights += other.limits.weight;
  const slots = Math.max(1, capacityOf(state).slots * (tenant.limits.weight / weights));
  const { maxInFlight } = tenant.limits;
  const share = maxInFlight === null ? slots : Math.min(slots, Math.max(1, maxInFlight));
  return Math.ceil((Math.ceil(position / share) * meanMs) / 1_000);
}
