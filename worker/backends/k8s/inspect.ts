import * as z from "zod";
import type { Amount, BackendOwner, Inspection, NodeView, WorkloadView } from "../backend.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { conditionOf, KubeNode, NodeMetrics, Pod, page } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { LABEL } from "./labels.ts";
import { listAll } from "./listing.ts";
import { quantityOf } from "./quantity.ts";
import { RIGHTS } from "./rights.ts";

/** Nodes shown one by one; all are counted. */
const MAX_NODES = 30;
const MAX_WORKLOADS = 100;
/** The whole look. */
const INSPECT_MS = 15_000;
const MIB = 2 ** 20;
const Version = z.object({ gitVersion: z.string() });

/** A look at the cluster by a bounded number of calls; each section stands for itself. */
export async function inspectCluster(client: K8sClient, owner: BackendOwner): Promise<Inspection> {
  const seen: Inspection = {
    kind: "k8s",
    reachable: false,
    detail: "the cluster did not answer in time",
    reason: "timeout",
    cluster: null,
    nodes: null,
    nodesTotal: null,
    capacity: null,
    workload: null,
    workloadTotal: null,
    warnings: [],
  };
  const looks = async (): Promise<void> => {
    if (!(await lookAtCluster(client, seen))) return;
    await Promise.all([
      section(seen, "nodes", () => lookAtNodes(client, seen)),
      section(seen, "workload", () => lookAtWorkload(client, owner, seen)),
    ]);
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), INSPECT_MS);
  });
  const outcome = await Promise.race([looks(), late]);
  clearTimeout(timer);
  // What comes later must not change what was answered.
  if (outcome === "late")
    return { ...seen, warnings: [...seen.warnings, `not all was read within ${INSPECT_MS / 1_000} s`] };
  return seen;
}

async function lookAtCluster(client: K8sClient, seen: Inspection): Promise<boolean> {
  try {
    const { json } = await client.raw("GET", "/version");
    const version = Version.parse(json).gitVersion.slice(0, 60);
    seen.cluster = { version, namespace: client.namespace };
    Object.assign(seen, { reachable: true, detail: `kubernetes ${version}`, reason: null });
    return true;
  } catch (error) {
    const fault = faultOf(error);
    const unknown = error instanceof ClusterError && error.httpStatus === 401;
    Object.assign(seen, { detail: fault.message, reason: unknown ? "auth" : "api" });
    return false;
  }
}

/** A section that fails is told as a warning. */
async function section(seen: Inspection, name: string, look: () => Promise<void>): Promise<void> {
  try {
    await look();
  } catch (error) {
    seen.warnings.push(`${name}: ${faultOf(error).message}`.slice(0, 500));
  }
}

const isReady = (node: KubeNode): boolean => conditionOf(node.status.conditions, "Ready")?.status === "True";

async function lookAtNodes(client: K8sClient, seen: Inspection): Promise<void> {
  const { items } = await listAll(client, RIGHTS.listNodes, KubeNode, { query: {} });
  const usage = await nodeUsage(client);
  const views = items.map((node) => nodeView(node, usage?.get(node.metadata.name)));
  const working = views.filter(({ ready, schedulable }) => ready && schedulable);
  const sum = (pick: (node: NodeView) => number): number => working.reduce((total, node) => total + pick(node), 0);
  seen.nodesTotal = items.length;
  seen.capacity = {
    cpuUnit: "millicores",
    cpu: sum(({ cpu }) => cpu.total),
    memoryMb: sum(({ memoryMb }) => memoryMb.total),
    gpu: sum(({ gpu }) => gpu.total),
  };
  const trouble = (node: NodeView): number => (node.ready ? (node.schedulable ? 2 : 1) : 0);
  views.sort((a, b) => trouble(a) - trouble(b) || (a.name < b.name ? -1 : 1));
  seen.nodes = views.slice(0, MAX_NODES);
  if (views.length > MAX_NODES) seen.warnings.push(`nodes: ${MAX_NODES} of ${views.length} are shown one by one`);
}

/** null where no metrics API answers. */
async function nodeUsage(client: K8sClient): Promise<Map<string, Record<string, string>> | null> {
  try {
    const { items } = await listAll(client, RIGHTS.listNodeMetrics, NodeMetrics, { query: {} });
    return new Map(items.map(({ metadata, usage }) => [metadata.name, usage]));
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return null;
  }
}

function nodeView(node: KubeNode, usage: Record<string, string> | undefined): NodeView {
  const { nodeInfo, allocatable, addresses } = node.status;
  const amount = (key: string, unit: number): Amount => ({
    total: Math.round(quantityOf(allocatable?.[key]) / unit),
    used: usage?.[key] === undefined ? null : Math.round(quantityOf(usage[key]) / unit),
  });
  const text = (value: string | null | undefined): string => (value ?? "").slice(0, 100);
  return {
    name: node.metadata.name,
    ready: isReady(node),
    schedulable: node.spec.unschedulable !== true,
    os: text(nodeInfo?.operatingSystem),
    arch: text(nodeInfo?.architecture),
    kernel: text(nodeInfo?.kernelVersion),
    containerRuntime: text(nodeInfo?.containerRuntimeVersion),
    agentVersion: text(nodeInfo?.kubeletVersion),
    address: addresses?.find(({ type }) => type === "InternalIP")?.address ?? null,
    cpu: amount("cpu", 1e-3),
    memoryMb: amount("memory", MIB),
    diskMb: amount("ephemeral-storage", MIB),
    gpu: amount("nvidia.com/gpu", 1),
  };
}

/** Ours by one listing; of the others one page, and how many more there are. */
async function lookAtWorkload(client: K8sClient, owner: BackendOwner, seen: Inspection): Promise<void> {
  const selector = `${LABEL.deployment}=${owner.deployment}`;
  const ours = (await listAll(client, RIGHTS.listPods, Pod, { query: { labelSelector: selector } })).items;
  const query = { labelSelector: `${LABEL.deployment}!=${owner.deployment}`, limit: "500" };
  const others = page(Pod).parse((await client.call(RIGHTS.listPods, { query })).json);
  const rest = others.items ?? [];
  const views = [...ours.map((pod) => workloadView(pod, true)), ...rest.map((pod) => workloadView(pod, false))];
  seen.workload = views.slice(0, MAX_WORKLOADS);
  seen.workloadTotal = views.length;
  const more = others.metadata.continue ? " at least" : "";
  if (views.length > MAX_WORKLOADS || more !== "")
    seen.warnings.push(`workload: ${seen.workload.length} of${more} ${views.length} pods are shown, ours first`);
}

function workloadView(pod: Pod, ours: boolean): WorkloadView {
  return {
    name: pod.metadata.name,
    ours,
    role: ours ? "job" : "other",
    state: pod.metadata.deletionTimestamp == null ? (pod.status.phase ?? "Unknown") : "Terminating",
    node: pod.spec.nodeName ?? null,
    since: pod.status.startTime ?? pod.metadata.creationTimestamp ?? null,
  };
}
