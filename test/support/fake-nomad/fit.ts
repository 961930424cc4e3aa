import type { FakeCluster } from "./cluster.ts";
import type { FakeNode, JobBody } from "./model.ts";

interface Fit {
  node: FakeNode | null;
  report: Record<string, unknown>;
}

/** Bin packing is not modelled: the first node that fits. */
export function fitOf(cluster: FakeCluster, body: JobBody): Fit {
  const filtered: Record<string, number> = {};
  const exhausted: Record<string, number> = {};
  const count = (counts: Record<string, number>, key: string): void => {
    counts[key] = (counts[key] ?? 0) + 1;
  };
  const nodes = [...cluster.nodes.values()].filter((node) => node.alive && node.eligible);
  const inReach = nodes.filter(() => (body.Datacenters ?? ["*"]).some((name) => name === "*" || name === "dc1"));
  for (const node of inReach) {
    const reason = filterReason(node, body);
    if (reason !== null) {
      count(filtered, reason);
      continue;
    }
    const dimension = exhaustedDimension(cluster, node, body);
    if (dimension === null) return { node, report: {} };
    count(exhausted, dimension);
  }
  const orNull = (counts: Record<string, number>) => (Object.keys(counts).length === 0 ? null : counts);
  const sum = (counts: Record<string, number>) => Object.values(counts).reduce((total, value) => total + value, 0);
  const report = {
    NodesEvaluated: inReach.length,
    NodesFiltered: sum(filtered),
    NodesExhausted: sum(exhausted),
    NodesAvailable: inReach.length === 0 ? {} : { dc1: inReach.length },
    ConstraintFiltered: orNull(filtered),
    DimensionExhausted: orNull(exhausted),
    QuotaExhausted: null,
    Scores: null,
  };
  return { node: null, report };
}

function filterReason(node: FakeNode, body: JobBody): string | null {
  const tasks = body.TaskGroups?.[0]?.Tasks ?? [];
  if (tasks.some((task) => !node.drivers.includes(task.Driver ?? ""))) return "missing drivers";
  for (const { LTarget, RTarget, Operand } of body.Constraints ?? []) {
    const value = node.attributes[LTarget.replace(/^\$\{(attr\.)?(.*)\}$/, "$2")];
    if (value !== RTarget) return `${LTarget} ${Operand} ${RTarget}`;
  }
  const wanted = tasks.flatMap((task) => task.Resources?.Devices ?? []);
  return wanted.some(({ Count }) => Count > node.gpus) ? "missing devices" : null;
}

function exhaustedDimension(cluster: FakeCluster, node: FakeNode, body: JobBody): string | null {
  const asks = (one: JobBody) => {
    const group = one.TaskGroups?.[0];
    const tasks = group?.Tasks ?? [];
    return {
      cpu: tasks.reduce((sum, task) => sum + (task.Resources?.CPU ?? 100), 0),
      memory: tasks.reduce((sum, task) => sum + (task.Resources?.MemoryMB ?? 300), 0),
      disk: group?.EphemeralDisk?.SizeMB ?? 300,
    };
  };
  const used = { cpu: 0, memory: 0, disk: 0 };
  for (const alloc of cluster.allocations) {
    const held = cluster.jobs.get(alloc.jobId)?.body;
    if (alloc.node !== node.name || !held || ["complete", "failed", "lost"].includes(alloc.clientStatus)) continue;
    const ask = asks(held);
    used.cpu += ask.cpu;
    used.memory += ask.memory;
    used.disk += ask.disk;
  }
  const ask = asks(body);
  if (used.cpu + ask.cpu > node.cpuMhz) return "cpu";
  if (used.memory + ask.memory > node.memoryMb) return "memory";
  return used.disk + ask.disk > node.diskMb ? "disk" : null;
}
