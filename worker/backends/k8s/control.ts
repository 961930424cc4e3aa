import * as z from "zod";
import type { ControlRequest, ControlResult } from "../../../contracts/inspection.ts";
import type { BackendOwner, ControlContext } from "../backend.ts";
import { controlled, foreign, STOPPED_WORDS, unknownUnit, unsupported } from "../control.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { KubeJob, trueCondition } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { refOfLabels } from "./labels.ts";
import { listUnits } from "./listing.ts";
import { deleteJob, removeJobs, removeOrphanSecrets } from "./remove.ts";
import { RIGHTS } from "./rights.ts";

/** Of one call; a repeat takes the rest. */
const MAX_AT_ONCE = 500;
const MERGE_PATCH = "application/merge-patch+json";

/** @throws ClusterError as Controllable says */
export async function controlCluster(
  client: K8sClient,
  owner: BackendOwner,
  request: ControlRequest,
  context: ControlContext,
): Promise<ControlResult> {
  switch (request.action) {
    case "stopWorkload":
      return stopWorkload(client, owner, request.workload, context);
    case "reclaimIdle":
      return reclaimIdle(client, owner, context);
    case "purgeTerminal":
      return purgeTerminal(client, owner, context);
    case "cordonNode": {
      if (!context.external) throw foreign(`node '${request.node}'`);
      const body = { spec: { unschedulable: request.cordoned } };
      await client.call(RIGHTS.patchNode, { name: request.node, contentType: MERGE_PATCH, body });
      const words = request.cordoned ? "takes no new pods; those on it go on" : "takes pods again";
      return controlled("cordonNode", [request.node], `node '${request.node}' ${words}`);
    }
    case "resizeWorkload":
      return resizeWorkload(client, request.workload, request.replicas, context);
  }
}

/** null for what is not there. @throws ClusterError */
async function orNull<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof ClusterError && error.reason === "NotFound") return null;
    throw error;
  }
}

/** A Job with its pods; a pod only where it belongs to no Job, and only with externalControl. */
async function stopWorkload(
  client: K8sClient,
  owner: BackendOwner,
  name: string,
  context: ControlContext,
): Promise<ControlResult> {
  const found = await orNull(client.call(RIGHTS.getJob, { name }));
  if (found !== null) {
    const { metadata } = KubeJob.parse(found.json);
    if (refOfLabels(metadata.labels, owner) === null && !context.external) throw foreign(`job '${name}'`);
    await orNull(deleteJob(client, name, metadata.uid));
    return controlled("stopWorkload", [name], `job '${name}' and its pods are being deleted; ${STOPPED_WORDS}`);
  }
  // Without the right to touch others' pods, nothing but a Job is known here.
  if (!context.external) throw unknownUnit(name);
  if ((await orNull(client.call(RIGHTS.deletePod, { name }))) === null) throw unknownUnit(name);
  return controlled("stopWorkload", [name], `pod '${name}' is being deleted; what made it may make another`);
}

const hasEnded = ({ status: { conditions } }: KubeJob): boolean =>
  (trueCondition(conditions, "Complete") ?? trueCondition(conditions, "Failed")) !== null;

const nameOf = ({ metadata }: KubeJob): string => metadata.name;

/** Deletes ended Jobs whose result nobody waits for any more: a live attempt's is still to be read. */
async function purgeTerminal(client: K8sClient, owner: BackendOwner, context: ControlContext): Promise<ControlResult> {
  const { jobs } = await listUnits(client, owner);
  const live = await context.liveUnits();
  const names = jobs.filter((job) => hasEnded(job) && !live.has(nameOf(job))).map(nameOf);
  const taken = names.slice(0, MAX_AT_ONCE);
  await removeJobs(client, owner, taken);
  return controlled("purgeTerminal", taken, words("ended job", taken.length, names.length));
}

async function reclaimIdle(client: K8sClient, owner: BackendOwner, context: ControlContext): Promise<ControlResult> {
  // Listed first: an attempt is live before its unit is made, so what is listed and not live is nobody's.
  const listing = await listUnits(client, owner);
  const live = await context.liveUnits();
  const names = listing.jobs.map(nameOf).filter((name) => !live.has(name));
  const taken = names.slice(0, MAX_AT_ONCE);
  await removeJobs(client, owner, taken);
  const secrets = await removeOrphanSecrets(client, owner, listing, live);
  const also = secrets.length > 0 ? `; ${secrets.length} Secrets without a job` : "";
  return controlled("reclaimIdle", [...taken, ...secrets], words("idle job", taken.length, names.length) + also);
}

const words = (what: string, done: number, all: number): string =>
  `${done} ${what}${done === 1 ? "" : "s"} deleted${all > done ? `; ${all - done} more: repeat it` : ""}`;

const Scale = z.object({ spec: z.object({ replicas: z.number().int().default(0) }).default({ replicas: 0 }) });

async function resizeWorkload(
  client: K8sClient,
  name: string,
  replicas: number,
  context: ControlContext,
): Promise<ControlResult> {
  if ((await orNull(client.call(RIGHTS.getJob, { name }))) !== null)
    throw unsupported(`'${name}' is a job: it runs once and has no copies to resize; resize a service`);
  if (!context.external) throw foreign(`'${name}'`);
  const body = { spec: { replicas } };
  const scaled = await orNull(client.call(RIGHTS.scaleDeployment, { name, contentType: MERGE_PATCH, body }));
  if (scaled === null) throw unknownUnit(name);
  const { spec } = Scale.parse(scaled.json);
  return controlled("resizeWorkload", [name], `deployment '${name}' wants ${spec.replicas} copies`);
}
