import type * as z from "zod";
import type { BackendOwner } from "../backend.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { KubeEvent, KubeJob, PartialObject, Pod, page } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { selectorOf } from "./labels.ts";
import { RIGHTS, type Right } from "./rights.ts";

const PAGE = 500;
/** 50 000 units of one object; beyond it the listing is refused rather than cut. */
const MAX_PAGES = 100;
/** Warnings that are looked at; the newest matter and the API gives no order, so more is not better. */
const MAX_EVENT_PAGES = 10;

export interface Listing {
  jobs: KubeJob[];
  pods: Pod[];
  /** Of the pod listing; a watch goes on from here. */
  resourceVersion: string;
  /** The cluster's clock, epoch ms. */
  nowMs: number;
}

interface Listed<T> {
  items: T[];
  resourceVersion: string;
  nowMs: number;
}

/** All pages, or an error: a partial listing never passes for a whole one. @throws ClusterError */
export async function listAll<T extends z.ZodType>(
  client: K8sClient,
  right: Right,
  item: T,
  options: { query: Record<string, string>; accept?: string; maxPages?: number; cut?: boolean },
): Promise<Listed<z.infer<T>>> {
  const items: z.infer<T>[] = [];
  const maxPages = options.maxPages ?? MAX_PAGES;
  let from: string | null = null;
  for (let n = 0; ; n++) {
    const query: Record<string, string> = { ...options.query, limit: String(PAGE) };
    if (from !== null) query.continue = from;
    const accept = options.accept === undefined ? {} : { accept: options.accept };
    const answer = await client.call(right, { query, ...accept });
    const parsed = page(item).safeParse(answer.json);
    if (!parsed.success)
      throw new ClusterError("UPSTREAM_MISCONFIGURED", `the answer to 'list ${right.resource}' is not Kubernetes'`, {
        status: 200,
        reason: "NotKubernetes",
      });
    items.push(...(parsed.data.items ?? []));
    const { continue: next, resourceVersion } = parsed.data.metadata;
    if (!next || (options.cut === true && n + 1 >= maxPages)) return { items, resourceVersion, nowMs: answer.nowMs };
    if (n + 1 >= maxPages)
      throw new ClusterError("UPSTREAM_ERROR", `more than ${maxPages * PAGE} ${right.resource} carry our labels`, {
        status: 200,
        reason: "TooMany",
      });
    from = next;
  }
}

/**
 * Jobs, then pods of one object, each by one consistent listing: a pod is never older than its Job's absence.
 * @throws ClusterError
 */
export async function listUnits(client: K8sClient, owner: BackendOwner): Promise<Listing> {
  const query = { labelSelector: selectorOf(owner) };
  const jobs = await listAll(client, RIGHTS.listJobs, KubeJob, { query });
  const pods = await listAll(client, RIGHTS.listPods, Pod, { query });
  return { jobs: jobs.items, pods: pods.items, resourceVersion: pods.resourceVersion, nowMs: pods.nowMs };
}

/** Warnings of the namespace, for all units that need one. @throws ClusterError */
export async function listWarnings(client: K8sClient): Promise<KubeEvent[]> {
  const query = { fieldSelector: "type=Warning" };
  return (await listAll(client, RIGHTS.listEvents, KubeEvent, { query, maxPages: MAX_EVENT_PAGES, cut: true })).items;
}

/** Our Secrets, by metadata only: no value leaves the cluster. @throws ClusterError */
export async function listSecrets(client: K8sClient, owner: BackendOwner): Promise<PartialObject[]> {
  const accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  return (
    await listAll(client, RIGHTS.listSecrets, PartialObject, { query: { labelSelector: selectorOf(owner) }, accept })
  ).items;
}
