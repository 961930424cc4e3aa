import * as z from "zod";
import type { Amount, Inspection, NodeView, WorkloadView } from "../../../contracts/inspection.ts";
import type { BackendOwner } from "../backend.ts";
import { inspectWithin, section, setNodes, setWorkload, shownFirst, shownText as text, warn } from "../inspection.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { conditionOf, KubeNode, NodeMetrics, Pod, page } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { JOB_NAME, refOfLabels, selectorOf } from "./labels.ts";
import { listAll } from "./listing.ts";
import { quantityOf } from "./quantity.ts";
import { RIGHTS } from "./rights.ts";
import { unreachableReason } from "./unreachable.ts";

const MIB = 2 ** 20;
const GPU = "nvidia.com/gpu";
/** Pages of 500 of our own pods; of all the others one. */
const MAX_OWN_PAGES = 4;
const Version = z.object({ gitVersion: z.string() });

/** A look at the cluster by a bounded number of calls; each section stands for itself. */
export function inspectCluster(client: K8sClient, owner: BackendOwner): Promise<Inspection> {
  return inspectWithin("k8s", async (seen) => {
    if (!(await lookAtCluster(client, seen))) return;
    const pods = lookAtPods(client, owner);
    await Promise.all([
      section(seen, "nodes", async () => lookAtNodes(client, seen, await pods.catch(() => null))),
      section(seen, "workload", async () => tellPods(seen, await pods, owner)),
    ]);
  });
}

async function lookAtCluster(client: K8sClient, seen: Inspection): Promise<boolean> {
  try {
    const { json } = await client.raw("GET", "/version");
    const version = Version.parse(json).gitVersion.slice(0, 60);
    seen.cluster = { version, namespace: client.namespace };
    Object.assign(seen, { reachable: true, detail: `kubernetes ${version}`, reason: null });
    return true;
  } catch (error) {
    Object.assign(seen, { detail: faultOf(error).message, reason: unreachableReason(error) });
    return false;
  }
}

const isReady = (node: KubeNode): boolean => conditionOf(node.status.conditions, "Ready")?.status === "True";

async function lookAtNodes(client: K8sClient, seen: Inspection, pods: SeenPods | null): Promise<void> {
  const [{ items }, usage] = await Promise.all([
    listAll(client, RIGHTS.listNodes, KubeNode, { query: {} }),
    nodeUsage(client),
  ]);
  const gpuUse = pods === null ? null : gpusInUse([...pods.ours, ...pods.others]);
  const nodes = items.map((node) => ({
    view: nodeView(node, usage?.get(node.metadata.name), gpuUse?.get(node.metadata.name) ?? (gpuUse ? 0 : null)),
  }));
  const views = nodes.map(({ view }) => view);
  setNodes(
    seen,
    views,
    shownFirst(nodes).map(({ view }) => view),
  );
  if (usage === null) warn(seen, "nodes: no metrics API answers, so the use of cpu and memory is not known");
  if (views.some(({ gpu }) => gpu.total > 0))
    warn(seen, `nodes: GPUs in use are those of pods in namespace '${client.namespace}'`);
}

/** null where no metrics API answers: 404 in plain text without a metrics-server. */
async function nodeUsage(client: K8sClient): Promise<Map<string, Record<string, string>> | null> {
  try {
    const { items } = await listAll(client, RIGHTS.listNodeMetrics, NodeMetrics, { query: {} });
    return new Map(items.map(({ metadata, usage }) => [metadata.name, usage]));
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return null;
  }
}

/** GPUs that pods on a node hold, by its name. */
function gpusInUse(pods: readonly Pod[]): Map<string, number> {
  const used = new Map<string, number>();
  for (const { spec, status } of pods) {
    if (spec.nodeName == null || status.phase === "Succeeded" || status.phase === "Failed") continue;
    const held = (spec.containers ?? []).reduce((sum, { resources }) => sum + quantityOf(resources?.limits?.[GPU]), 0);
    if (held > 0) used.set(spec.nodeName, (used.get(spec.nodeName) ?? 0) + held);
  }
  return used;
}

function nodeView(node: KubeNode, usage: Record<string, string> | undefined, gpuUsed: number | null): NodeView {
  const { nodeInfo, allocatable, addresses } = node.status;
  const amount = (key: string, unit: number): Amount => ({
    total: Math.round(quantityOf(allocatable?.[key]) / unit),
    used: usage?.[key] === undefined ? null : Math.round(quantityOf(usage[key]) / unit),
  });
  return {
    name: text(node.metadata.name),
    ready: isReady(node),
    schedulable: node.spec.unschedulable !== true,
    os: text(nodeInfo?.operatingSystem),
    arch: text(nodeInfo?.architecture),
    kernel: text(nodeInfo?.kernelVersion),
    containerRuntime: text(nodeInfo?.containerRuntimeVersion) || null,
    agentVersion: text(nodeInfo?.kubeletVersion),
    address: addresses?.find(({ type }) => type === "InternalIP")?.address.slice(0, 300) ?? null,
    cpu: amount("cpu", 1e-3),
    memoryMb: amount("memory", MIB),
    diskMb: amount("ephemeral-storage", MIB),
    gpu: { total: amount(GPU, 1).total, used: gpuUsed },
  };
}

interface SeenPods {
  ours: Pod[];
  others: Pod[];
  /** Pods of the namespace that were not read. */
  unread: number;
}

/** Ours by one listing; of all pods one page, and how many more there are, which the API says without a selector only. */
async function lookAtPods(client: K8sClient, owner: BackendOwner): Promise<SeenPods> {
  const [mine, first] = await Promise.all([
    listAll(client, RIGHTS.listPods, Pod, {
      query: { labelSelector: selectorOf(owner) },
      maxPages: MAX_OWN_PAGES,
      cut: true,
    }),
    client.call(RIGHTS.listPods, { query: { limit: "500" } }),
  ]);
  const { items, metadata } = page(Pod).parse(first.json);
  const all = items ?? [];
  const others = all.filter((pod) => refOfLabels(pod.metadata.labels, owner) === null);
  const listedOwn = all.length - others.length;
  const beyond = metadata.remainingItemCount ?? 0;
  return { ours: mine.items, others, unread: Math.max(0, beyond - (mine.items.length - listedOwn)) };
}

function tellPods(seen: Inspection, { ours, others, unread }: SeenPods, owner: BackendOwner): void {
  const views = [...ours, ...others].map((pod) => workloadView(pod, owner));
  setWorkload(seen, views, views.length + unread, false);
}

function workloadView(pod: Pod, owner: BackendOwner): WorkloadView {
  const { name, labels, deletionTimestamp, creationTimestamp } = pod.metadata;
  const ours = refOfLabels(labels, owner) !== null;
  return {
    name: text(name),
    unit: text(labels[JOB_NAME] ?? name),
    ours,
    role: ours ? "job" : "other",
    state: deletionTimestamp == null ? text(pod.status.phase ?? "Unknown") : "Terminating",
    node: pod.spec.nodeName ?? null,
    since: pod.status.startTime ?? creationTimestamp ?? null,
  };
}
