import type { Amount, Inspection, NodeView, WorkloadView } from "../../../contracts/inspection.ts";
import type { BackendOwner } from "../backend.ts";
import { eachOf } from "../each-of.ts";
import { inspectWithin, section, setNodes, setWorkload, shownFirst, shownText as text, warn } from "../inspection.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { isDenied, type NomadClient, parsed } from "./client.ts";
import { unreachableReason } from "./probe.ts";
import { isOurs } from "./remove.ts";
import {
  HostStats,
  type LiveJob,
  LiveJobs,
  Members,
  NodeDetail,
  type NodeRow,
  NodeRows,
  type PlacedAllocation,
  PlacedAllocations,
} from "./shapes.ts";

const LIST_BYTES = 32 * 1024 * 1024;
/** Rows of one answer; beyond it "at least" is said. */
const PAGE = 500;
const MIB = 2 ** 20;
/** What the name of every unit of ours begins with. */
const UNIT_PREFIX = "evd-";
const LIVE = ["running", "pending", "unknown"] as const;

/** A look at the cluster by a bounded number of calls: four lists, and two small ones for each node that is shown. */
export function inspectNomad(client: NomadClient, owner: BackendOwner): Promise<Inspection> {
  return inspectWithin("nomad", async (seen) => {
    if (!(await lookAtServers(client, seen))) return;
    const placed = allocationsOf(client, owner);
    await Promise.all([
      section(seen, "nodes", async () => lookAtNodes(client, seen, await placed.catch(() => null))),
      section(seen, "workload", async () => lookAtWorkload(client, owner, seen, await placed)),
    ]);
  });
}

async function lookAtServers(client: NomadClient, seen: Inspection): Promise<boolean> {
  try {
    const answer = await client.ask({ method: "GET", path: "/v1/agent/members", right: "none" });
    if (isDenied(answer)) {
      // Any known token may ask this; one that may not is none.
      Object.assign(seen, { detail: "the Nomad server does not know the token", reason: "auth" });
      return false;
    }
    const builds = parsed(answer, Members).Members.flatMap(({ Tags }) => Tags?.build ?? []);
    const version = text(builds[0] ?? "unknown").slice(0, 60);
    seen.cluster = { version, namespace: client.namespace };
    Object.assign(seen, { reachable: true, detail: `nomad ${version}`, reason: null });
    return true;
  } catch (error) {
    Object.assign(seen, { detail: faultOf(error).message, reason: unreachableReason(error) });
    return false;
  }
}

async function lookAtNodes(client: NomadClient, seen: Inspection, placed: Placed | null): Promise<void> {
  const { value: rows } = await client.read(
    {
      method: "GET",
      path: "/v1/nodes",
      query: { resources: "true" },
      right: "node:read",
      maxBytes: LIST_BYTES,
    },
    NodeRows,
  );
  const gpus = placed === null ? null : gpusInUse([...placed.ours, ...placed.others]);
  const nodes = rows.map((row) => ({ id: row.ID, view: nodeView(row, gpus) }));
  const shown = shownFirst(nodes);
  await eachOf(shown, ({ id, view }) => detail(client, id, view));
  setNodes(
    seen,
    nodes.map(({ view }) => view),
    shown.map(({ view }) => view),
  );
  if (nodes.some(({ view }) => view.gpu.total > 0))
    warn(seen, `nodes: GPUs in use are those of allocations in namespace '${client.namespace}'`);
}

function nodeView(row: NodeRow, gpus: ReadonlyMap<string, number> | null): NodeView {
  const { NodeResources: all, ReservedResources: kept } = row;
  const left = (have: number | undefined, reserved: number | undefined): Amount => ({
    total: Math.max(0, (have ?? 0) - (reserved ?? 0)),
    used: null,
  });
  const docker = row.Drivers.docker?.Attributes ?? {};
  const runtime = docker["driver.docker.version"];
  const instances = (all?.Devices ?? []).filter(({ Type }) => Type === "gpu").flatMap(({ Instances }) => Instances);
  return {
    name: text(row.Name),
    ready: row.Status === "ready",
    schedulable: row.SchedulingEligibility === "eligible" && row.Drain !== true,
    os: text(docker["driver.docker.os_type"]),
    arch: "",
    kernel: "",
    containerRuntime: runtime === undefined ? null : text(`docker://${runtime}`),
    agentVersion: text(row.Version),
    address: row.Address === "" ? null : text(row.Address),
    cpu: left(all?.Cpu.CpuShares, kept?.Cpu.CpuShares),
    memoryMb: left(all?.Memory.MemoryMB, kept?.Memory.MemoryMB),
    diskMb: left(all?.Disk.DiskMB, kept?.Disk.DiskMB),
    gpu: {
      total: instances.filter(({ Healthy }) => Healthy !== false).length,
      used: gpus?.get(row.Name) ?? (gpus ? 0 : null),
    },
  };
}

/** What only the node itself knows; one that does not answer stays without. */
async function detail(client: NomadClient, id: string, view: NodeView): Promise<void> {
  const quietly = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
    }
  };
  await quietly(async () => {
    const { value } = await client.read({ method: "GET", path: `/v1/node/${id}`, right: "node:read" }, NodeDetail);
    const { "cpu.arch": arch, "kernel.version": kernel, "kernel.name": os } = value.Attributes;
    Object.assign(view, { arch: text(arch), kernel: text(kernel), os: text(os ?? view.os) });
  });
  if (!view.ready) return;
  await quietly(async () => {
    const request = { method: "GET", path: "/v1/client/stats", query: { node_id: id }, right: "node:read" } as const;
    const { CPUTicksConsumed: ticks, Memory: memory } = (await client.read(request, HostStats)).value;
    view.cpu.used = ticks == null ? null : Math.round(ticks);
    view.memoryMb.used = memory == null ? null : Math.round(memory.Used / MIB);
  });
}

/** GPUs that allocations on a node hold, by its name. */
function gpusInUse(allocations: readonly PlacedAllocation[]): Map<string, number> {
  const used = new Map<string, number>();
  for (const { NodeName, AllocatedResources } of allocations) {
    const devices = Object.values(AllocatedResources?.Tasks ?? {}).flatMap(({ Devices }) => Devices);
    const held = devices.filter(({ Type }) => Type === "gpu").reduce((sum, { DeviceIDs }) => sum + DeviceIDs.length, 0);
    if (held > 0) used.set(NodeName, (used.get(NodeName) ?? 0) + held);
  }
  return used;
}

interface Placed {
  /** Of jobs whose names begin as this object's do. */
  ours: PlacedAllocation[];
  others: PlacedAllocation[];
  /** There are more than a page of others. */
  more: boolean;
}

/** Allocations that hold something; the filter's `prefix` would mean allocation ids (N 35). */
async function allocationsOf(client: NomadClient, owner: BackendOwner): Promise<Placed> {
  const mine = `${UNIT_PREFIX}${owner.object}-`;
  const list = (clauses: string[]) =>
    client.read(
      {
        method: "GET",
        path: "/v1/allocations",
        query: {
          filter: LIVE.map((status) => [`ClientStatus == "${status}"`, ...clauses].join(" and ")).join(" or "),
          per_page: String(PAGE),
          resources: "true",
          task_states: "false",
        },
        right: "read-job",
        maxBytes: LIST_BYTES,
      },
      PlacedAllocations,
    );
  const [own, all] = await Promise.all([list([`JobID matches "^${mine}"`]), list([])]);
  const others = all.value.filter(({ JobID }) => !JobID.startsWith(mine));
  return { ours: own.value, others, more: all.value.length >= PAGE };
}

/** Our jobs that are not dead, placed or not, then everything else that is placed. */
async function lookAtWorkload(
  client: NomadClient,
  owner: BackendOwner,
  seen: Inspection,
  placed: Placed,
): Promise<void> {
  const { value: jobs } = await client.read(
    {
      method: "GET",
      path: "/v1/jobs",
      query: {
        prefix: `${UNIT_PREFIX}${owner.object}-`,
        meta: "true",
        filter: 'Status != "dead"',
        per_page: String(PAGE),
      },
      right: "list-jobs",
      maxBytes: LIST_BYTES,
    },
    LiveJobs,
  );
  const nodes = new Map(placed.ours.map((allocation) => [allocation.JobID, allocation]));
  const views = [
    ...jobs.map((job) => jobView(job, nodes.get(job.ID), owner)),
    ...placed.others.map((allocation) => allocationView(allocation)),
  ];
  setWorkload(seen, views, views.length, placed.more || jobs.length >= PAGE);
}

const isoOfNanoseconds = (ns: number): string | null => (ns > 0 ? new Date(ns / 1e6).toISOString() : null);

function jobView(job: LiveJob, allocation: PlacedAllocation | undefined, owner: BackendOwner): WorkloadView {
  const ours = isOurs(owner, job.Meta);
  return {
    name: text(job.ID),
    unit: text(job.ID),
    ours,
    role: ours ? "job" : "other",
    state: text(allocation?.ClientStatus ?? job.Status),
    node: allocation === undefined ? null : text(allocation.NodeName),
    since: isoOfNanoseconds(allocation?.CreateTime ?? job.SubmitTime),
  };
}

const allocationView = (allocation: PlacedAllocation): WorkloadView => ({
  name: text(`${allocation.JobID}/${allocation.ID.slice(0, 8)}`),
  unit: text(allocation.JobID),
  ours: false,
  role: allocation.JobType === "service" || allocation.JobType === "system" ? "service" : "other",
  state: text(allocation.ClientStatus),
  node: text(allocation.NodeName),
  since: isoOfNanoseconds(allocation.CreateTime),
});
