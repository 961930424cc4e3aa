import {
  type Amount,
  INSPECTION_LIMITS,
  type Inspection,
  type NodeView,
  type WorkloadView,
} from "../../contracts/inspection.ts";
import { faultOf } from "./transport/cluster-error.ts";

/** The whole look. */
const INSPECT_MS = 15_000;

type Kind = Inspection["kind"];

/** Nothing is known yet. */
export const blankInspection = (kind: Kind, detail: string, reason: string | null): Inspection => ({
  kind,
  reachable: false,
  detail,
  reason,
  cluster: null,
  units: { cpu: kind === "nomad" ? "MHz" : "millicores", memory: "MiB", disk: "MiB" },
  nodes: null,
  nodesTotal: null,
  capacity: null,
  workload: null,
  workloadTotal: null,
  stores: null,
  warnings: [],
  readAt: new Date().toISOString(),
});

/** Runs the looks within 15 s; what comes later changes nothing of what was answered. */
export async function inspectWithin(kind: Kind, looks: (seen: Inspection) => Promise<void>): Promise<Inspection> {
  const seen = blankInspection(kind, "the cluster did not answer in time", "timeout");
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), INSPECT_MS);
  });
  const outcome = await Promise.race([looks(seen), late]);
  clearTimeout(timer);
  if (outcome === "late") warn(seen, `not all was read within ${INSPECT_MS / 1_000} s`);
  return { ...seen, warnings: [...seen.warnings], readAt: new Date().toISOString() };
}

export function warn(seen: Inspection, text: string): void {
  if (seen.warnings.length < INSPECTION_LIMITS.warnings) seen.warnings.push(text.slice(0, 500));
}

/** A section that fails is told as a warning; the others stand. */
export async function section(seen: Inspection, name: string, look: () => Promise<void>): Promise<void> {
  try {
    await look();
  } catch (error) {
    warn(seen, `${name}: ${faultOf(error).message}`);
  }
}

const troubleFirst = (node: NodeView): number => (node.ready ? (node.schedulable ? 2 : 1) : 0);

/** Which nodes are shown one by one: those in trouble first, then by name. */
export function shownFirst<T extends { view: NodeView }>(nodes: readonly T[]): T[] {
  return [...nodes]
    .sort((a, b) => troubleFirst(a.view) - troubleFirst(b.view) || (a.view.name < b.view.name ? -1 : 1))
    .slice(0, INSPECTION_LIMITS.nodes);
}

/** Use of a whole is known only where it is known of every part. */
function total(amounts: readonly Amount[]): Amount {
  const sum = amounts.reduce((all, amount) => all + amount.total, 0);
  const known = amounts.every(({ used }) => used !== null);
  return {
    total: sum,
    used: known && amounts.length > 0 ? amounts.reduce((all, { used }) => all + (used ?? 0), 0) : null,
  };
}

/** Sets nodes, their number and the capacity of those that take work. @param all every node @param shown those shown */
export function setNodes(seen: Inspection, all: readonly NodeView[], shown: readonly NodeView[]): void {
  const working = all.filter(({ ready, schedulable }) => ready && schedulable);
  seen.nodesTotal = all.length;
  seen.nodes = [...shown];
  seen.capacity = {
    cpu: total(working.map(({ cpu }) => cpu)),
    memoryMb: total(working.map(({ memoryMb }) => memoryMb)),
    gpu: total(working.map(({ gpu }) => gpu)),
  };
  if (all.length > shown.length) warn(seen, `nodes: ${shown.length} of ${all.length} are shown one by one`);
}

/** Sets the workload, ours first. @param count how many there are; `atLeast`: perhaps more */
export function setWorkload(seen: Inspection, views: readonly WorkloadView[], count: number, atLeast: boolean): void {
  const order = (view: WorkloadView): number => (view.ours ? 0 : 1);
  const sorted = [...views].sort((a, b) => order(a) - order(b));
  seen.workload = sorted.slice(0, INSPECTION_LIMITS.workload);
  seen.workloadTotal = count;
  if (count > seen.workload.length || atLeast)
    warn(seen, `workload: ${seen.workload.length} of ${atLeast ? "at least " : ""}${count} are shown, ours first`);
}

/** A word of a cluster, for a view. */
export const shownText = (value: string | null | undefined): string => (value ?? "").slice(0, 300);
