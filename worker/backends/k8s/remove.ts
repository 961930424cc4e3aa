import type { BackendOwner } from "../backend.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { KubeJob, timeOf, trueCondition } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { refOfLabels } from "./labels.ts";
import { type Listing, listSecrets } from "./listing.ts";
import { RIGHTS } from "./rights.ts";
import { removeSecrets } from "./start.ts";

const REMOVALS_AT_ONCE = 4;
/** A start is repeated for 10 min under the same name; an older Secret without a Job belongs to none. */
const ORPHAN_SECRET_MS = 15 * 60_000;
/** Ended, and not asked for by anybody since. */
const ENDED_JOB_MS = 10 * 60_000;
const MAX_SWEPT = 100;

/** Runs `task` for all, a few at once. @throws the first error after all were tried */
export async function forAll(names: readonly string[], task: (name: string) => Promise<void>): Promise<void> {
  let failed: { error: unknown } | null = null;
  for (let at = 0; at < names.length; at += REMOVALS_AT_ONCE) {
    const done = await Promise.allSettled(names.slice(at, at + REMOVALS_AT_ONCE).map(task));
    for (const it of done) if (it.status === "rejected") failed ??= { error: it.reason };
  }
  if (failed !== null) throw failed.error;
}

/**
 * Deletes Jobs by name, if they carry our labels; pods and Secrets follow. A plain DELETE would orphan the pods, so the
 * propagation is always said, and the uid keeps a later life of the name from being hit.
 * @throws ClusterError when one or more could not be deleted
 */
export async function removeJobs(client: K8sClient, owner: BackendOwner, names: readonly string[]): Promise<void> {
  await forAll(names, async (name) => {
    try {
      const { json } = await client.call(RIGHTS.getJob, { name });
      const { metadata } = KubeJob.parse(json);
      if (refOfLabels(metadata.labels, owner) === null || metadata.deletionTimestamp != null) return;
      await deleteJob(client, name, metadata.uid);
    } catch (error) {
      if (!(error instanceof ClusterError) || error.reason !== "NotFound") throw error;
      // Its Job never came to be or is gone; a Secret may have stayed.
      if (name.startsWith(`evd-${owner.object}-`)) await removeSecrets(client, name);
    }
  });
}

/** @throws ClusterError; CONFLICT when the name has another life by now */
export async function deleteJob(client: K8sClient, name: string, uid: string): Promise<void> {
  await client.call(RIGHTS.deleteJob, {
    name,
    query: { propagationPolicy: "Background" },
    body: { kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background", preconditions: { uid } },
  });
}

/**
 * Removes what crashes leave behind: Secrets whose Job never came, and Jobs that ended long ago and that nobody asks for.
 * @param asked names of live attempts
 * @throws ClusterError
 */
export async function sweepLeftovers(
  client: K8sClient,
  owner: BackendOwner,
  listing: Listing,
  asked: ReadonlySet<string>,
): Promise<void> {
  const old = (text: string | null | undefined, ms: number): boolean => {
    const at = timeOf(text);
    return at !== null && listing.nowMs - at >= ms;
  };
  const ended = listing.jobs.filter(({ metadata, status }) => {
    const end = trueCondition(status.conditions, "Complete") ?? trueCondition(status.conditions, "Failed");
    return end !== null && !asked.has(metadata.name) && old(end.lastTransitionTime, ENDED_JOB_MS);
  });
  await removeJobs(
    client,
    owner,
    ended.slice(0, MAX_SWEPT).map(({ metadata }) => metadata.name),
  );
  await removeOrphanSecrets(client, owner, listing, asked);
}

/** Secrets whose Job never came to be, older than a start may take. @returns names. @throws ClusterError */
export async function removeOrphanSecrets(
  client: K8sClient,
  owner: BackendOwner,
  listing: Pick<Listing, "jobs" | "nowMs">,
  asked: ReadonlySet<string>,
): Promise<string[]> {
  const jobs = new Set(listing.jobs.map(({ metadata }) => metadata.name));
  const orphans = (await listSecrets(client, owner)).filter(({ metadata }) => {
    const job = metadata.name.replace(/-pull$/, "");
    const made = timeOf(metadata.creationTimestamp);
    return !jobs.has(job) && !asked.has(job) && made !== null && listing.nowMs - made >= ORPHAN_SECRET_MS;
  });
  const names = orphans.slice(0, MAX_SWEPT).map(({ metadata }) => metadata.name);
  await forAll(names, async (name) => {
    await client.call(RIGHTS.deleteSecret, { name }).catch((error: unknown) => {
      if (!(error instanceof ClusterError) || error.reason !== "NotFound") throw error;
    });
  });
  return names;
}
