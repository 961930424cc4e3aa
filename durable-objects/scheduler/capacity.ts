import type { Os } from "../../contracts/capabilities.ts";
import type { WaitReason } from "../../contracts/run.ts";
import { ONLINE_MS, UNDECLARED_MEMORY_MB } from "./limits.ts";
import type { Demand, Entry, Instance, State } from "./state.ts";

/** Slots, MiB and millicores; null is unlimited or unknown. */
export interface Room {
  slots: number;
  memoryMb: number | null;
  cpu: number | null;
}

export interface Usage {
  slots: number;
  memoryMb: number;
  cpu: number;
}

/** What an entry takes of a budget: only what was declared counts. */
export const declared = (demand: Demand): Usage => ({
  slots: 1,
  memoryMb: demand.ask.memoryMb.declared ? demand.ask.memoryMb.value : 0,
  cpu: demand.ask.cpu.declared ? demand.ask.cpu.value : 0,
});

/** Usage of the object, summed over the rows of live attempts; there is no counter that could drift. */
export function usageOf(state: State): Usage {
  const sum = { slots: 0, memoryMb: 0, cpu: 0 };
  for (const entry of state.live.values()) add(sum, entry.demand);
  return sum;
}

/** Usage of each runner process by its key. */
export function usageByInstance(state: State): Map<string, Usage> {
  const sums = new Map<string, Usage>();
  for (const entry of state.live.values()) {
    const key = entry.attempt ? instanceKey(entry.attempt.runnerId, entry.attempt.instanceId) : entry.hold?.instance;
    if (!key) continue;
    let sum = sums.get(key);
    if (!sum) {
      sum = { slots: 0, memoryMb: 0, cpu: 0 };
      sums.set(key, sum);
    }
    add(sum, entry.demand);
  }
  return sums;
}

export const instanceKey = (runnerId: string | null, instanceId: string | null): string =>
  `${runnerId ?? ""}/${instanceId ?? ""}`;

function add(sum: Usage, demand: Demand): void {
  sum.slots += 1;
  if (demand.ask.memoryMb.declared) sum.memoryMb += demand.ask.memoryMb.value;
  if (demand.ask.cpu.declared) sum.cpu += demand.ask.cpu.value;
}

/** What is left of the envelope. */
export function envelopeRoom(state: State): Room {
  const { envelope } = state;
  const used = usageOf(state);
  if (!envelope) return { slots: 0, memoryMb: null, cpu: null };
  return {
    slots: envelope.slots - used.slots,
    memoryMb: envelope.memoryBudgetMb === null ? null : envelope.memoryBudgetMb - used.memoryMb,
    cpu: envelope.cpuBudget === null ? null : envelope.cpuBudget - used.cpu,
  };
}

/** What a runner process has left: what it says, and never more than its total less what it holds here. */
export function instanceRoom(instance: Instance, used: Usage | undefined): Room {
  const held = used ?? { slots: 0, memoryMb: 0, cpu: 0 };
  const { slots, memoryMb, cpu } = instance;
  return {
    slots: Math.min(slots.free, slots.total - held.slots),
    memoryMb: memoryMb && Math.min(memoryMb.free, memoryMb.total - held.memoryMb),
    cpu: cpu && Math.min(cpu.free, cpu.total - held.cpu),
  };
}

/** The first dimension in which an ask does not fit, or null. */
export function shortOf(room: Room, ask: Usage): "slots" | "memory" | "cpu" | null {
  if (room.slots < ask.slots) return "slots";
  if (ask.memoryMb > 0 && room.memoryMb !== null && room.memoryMb < ask.memoryMb) return "memory";
  if (ask.cpu > 0 && room.cpu !== null && room.cpu < ask.cpu) return "cpu";
  return null;
}

/** Takes an ask out of a room; a dimension may go below zero when a reservation is held back. */
export function take(room: Room, ask: Usage): void {
  room.slots -= ask.slots;
  if (room.memoryMb !== null) room.memoryMb -= ask.memoryMb;
  if (room.cpu !== null) room.cpu -= ask.cpu;
}

/** A copy of a room with an ask held back. */
export function without(room: Room, ask: Usage): Room {
  const rest = { ...room };
  take(rest, ask);
  return rest;
}

/**
 * Whether a machine can run jobs for an operating system. linux is implicit: a POSIX machine runs them, and so does
 * any container engine; Windows and macOS jobs need just that system.
 */
export function osMatches(demand: Pick<Demand, "os" | "needs">, os: Os): boolean {
  if (demand.os !== "linux") return demand.os === os;
  return os !== "windows" || demand.needs.includes("docker");
}

/** Capabilities that a runner process lacks for a demand; its own operating system counts as one. */
export function missingOn(instance: Pick<Instance, "capabilities" | "os">, demand: Demand): string[] {
  const missing: string[] = demand.needs.filter(
    (need) => !instance.capabilities.includes(need) && need !== `os-${instance.os}`,
  );
  if (!osMatches(demand, instance.os) && !missing.includes(`os-${demand.os}`)) missing.push(`os-${demand.os}`);
  return missing;
}

/** Whether a runner process could take a demand if it were empty. */
export function capable(instance: Instance, demand: Demand): boolean {
  if (demand.runnerId !== null && demand.runnerId !== instance.runnerId) return false;
  if (missingOn(instance, demand).length > 0) return false;
  const whole = {
    slots: Math.max(1, instance.slots.total),
    memoryMb: instance.memoryMb?.total ?? null,
    cpu: instance.cpu?.total ?? null,
  };
  return shortOf(whole, declared(demand)) === null;
}

export const isOnline = (instance: Instance, now: number): boolean =>
  instance.slots.total > 0 && (instance.poll !== null || now - instance.seenAt < ONLINE_MS);

/** Whether some process that could take the demand is online. */
export function anyCapableOnline(state: State, demand: Demand, now: number): boolean {
  for (const instance of state.instances.values())
    if (isOnline(instance, now) && capable(instance, demand)) return true;
  return false;
}

/** Dominant share of the whole capacity `total` that a demand takes, in (0, 1]; undeclared memory is charged a default. */
export function costOf(total: Room, demand: Demand): number {
  const { ask } = demand;
  const memory = ask.memoryMb.declared ? ask.memoryMb.value : UNDECLARED_MEMORY_MB;
  const share = Math.max(
    1 / Math.max(1, total.slots),
    total.memoryMb ? memory / total.memoryMb : 0,
    total.cpu && ask.cpu.declared ? ask.cpu.value / total.cpu : 0,
  );
  return Math.min(1, share);
}

/** Whole capacity: the envelope, or what the runners of the object have together. */
export function capacityOf(state: State): Room {
  if (state.kind === "push")
    return {
      slots: state.envelope?.slots ?? 0,
      memoryMb: state.envelope?.memoryBudgetMb ?? null,
      cpu: state.envelope?.cpuBudget ?? null,
    };
  const sum = { slots: 0, memoryMb: 0, cpu: 0 };
  for (const instance of state.instances.values()) {
    sum.slots += instance.slots.total;
    sum.memoryMb += instance.memoryMb?.total ?? 0;
    sum.cpu += instance.cpu?.total ?? 0;
  }
  return { slots: sum.slots, memoryMb: sum.memoryMb || null, cpu: sum.cpu || null };
}

/** Whether a declared ask exceeds the whole envelope, and in which words; null when it could fit. */
export function neverFits(state: State, demand: Demand): string | null {
  const { envelope } = state;
  if (!envelope) return null;
  const ask = declared(demand);
  if (envelope.memoryBudgetMb !== null && ask.memoryMb > envelope.memoryBudgetMb)
    return `needs ${ask.memoryMb} MB of memory, the whole memoryBudgetMb is ${envelope.memoryBudgetMb}`;
  if (envelope.cpuBudget !== null && ask.cpu > envelope.cpuBudget)
    return `needs ${ask.cpu} millicores, the whole cpuBudget is ${envelope.cpuBudget}`;
  return null;
}

/** Live entries of a workspace in this object. */
export function liveOfWorkspace(state: State, workspace: string): number {
  let count = 0;
  for (const entry of state.live.values()) if (entry.demand.workspace === workspace) count += 1;
  return count;
}

/** Barriers of the whole object that hold a demand back whatever is free. */
export function barrierFor(state: State, entry: Entry, now: number): WaitReason | null {
  const { circuit, relayOffline, secretsOffline } = state;
  if (relayOffline && (relayOffline.until > now || relayOffline.probe)) return "relay-offline";
  if (circuit.pausedUntil > now) return "circuit";
  if (circuit.openUntil !== null && (circuit.openUntil > now || circuit.probe !== null)) return "circuit";
  if (entry.demand.secrets && secretsOffline && secretsOffline.until > now) return "secrets-unavailable";
  return null;
}
