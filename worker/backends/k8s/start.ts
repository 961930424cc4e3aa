import type { Failure } from "../../../contracts/run.ts";
import type { BackendAttempt, BackendOwner, StartResult } from "../backend.ts";
import { diagnose, failureOf } from "../diagnosis.ts";
import { K8S_DIAGNOSIS } from "../diagnosis-k8s.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { KubeJob } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import {
  jobDocument,
  networkPolicyDocument,
  pullSecretDocument,
  pullSecretName,
  SECRET_MAX_BYTES,
  secretBytes,
  secretDocument,
} from "./documents.ts";
import { refOfLabels } from "./labels.ts";
import { RIGHTS } from "./rights.ts";
import type { K8sSpec } from "./settings.ts";

/** Unknown fields are an error, not a warning: what is asked is what is placed. */
const STRICT = { fieldValidation: "Strict" };
/** Refusals that end the attempt; all else may heal and is repeated under the same name. */
const FINAL = new Set(["BAD_REQUEST", "NOT_FOUND", "CONFLICT", "PAYLOAD_TOO_LARGE"]);

/**
 * Secret first, then the Job, then the Secret's owner: a Job without its Secret would wait with an error. Each step is
 * safe to repeat, and a Job of this name that carries this attempt's labels is adopted.
 */
export async function startJob(
  client: K8sClient,
  spec: K8sSpec,
  owner: BackendOwner,
  attempt: BackendAttempt,
): Promise<StartResult> {
  const { job } = attempt;
  const secrets = [secretDocument(attempt, owner), pullSecretDocument(attempt, owner)].filter((it) => it !== null);
  const bytes = Math.max(...secrets.map(secretBytes));
  if (bytes > SECRET_MAX_BYTES) {
    const message = `program and secrets are ${bytes} bytes, at most ${SECRET_MAX_BYTES} fit a Secret`;
    return { kind: "failed", failure: refusal(attempt, "TooLarge", message) };
  }
  try {
    for (const document of secrets) await createOrKeep(client, spec, RIGHTS.createSecret, document);
    if (job.network === "none") await createOrKeep(client, spec, RIGHTS.createNetworkPolicy, networkPolicyDocument());
    const made = await createOrAdopt(client, spec, owner, attempt);
    if (made === null)
      return { kind: "failed", failure: refusal(attempt, "NameConflict", `job '${job.name}' exists and is not ours`) };
    await tieSecrets(client, attempt, made.uid);
    return { kind: "started", externalId: job.name, node: null, adopted: made.adopted };
  } catch (error) {
    return refused(client, attempt, error);
  }
}

/** What is there already was made by an earlier try of this attempt. */
async function createOrKeep(
  client: K8sClient,
  spec: K8sSpec,
  right: typeof RIGHTS.createSecret | typeof RIGHTS.createNetworkPolicy,
  document: unknown,
): Promise<void> {
  const create = () => client.call(right, { query: STRICT, body: document });
  try {
    await create();
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    if (error.reason === "AlreadyExists") return;
    if (error.reason !== "NamespaceNotFound" || !spec.createNamespace) throw error;
    await makeNamespace(client);
    await create();
  }
}

async function makeNamespace(client: K8sClient): Promise<void> {
  try {
    await client.call(RIGHTS.createNamespace, {
      body: { apiVersion: "v1", kind: "Namespace", metadata: { name: client.namespace } },
    });
  } catch (error) {
    if (!(error instanceof ClusterError) || error.reason !== "AlreadyExists") throw error;
  }
}

/** @returns null when the name belongs to somebody else */
async function createOrAdopt(
  client: K8sClient,
  spec: K8sSpec,
  owner: BackendOwner,
  attempt: BackendAttempt,
): Promise<{ uid: string; adopted: boolean } | null> {
  try {
    const { json } = await client.call(RIGHTS.createJob, { query: STRICT, body: jobDocument(attempt, spec, owner) });
    return { uid: KubeJob.parse(json).metadata.uid, adopted: false };
  } catch (error) {
    // The 409 has no uid, and is the same whatever the stored Job looks like.
    if (!(error instanceof ClusterError) || error.reason !== "AlreadyExists") throw error;
  }
  const { json } = await client.call(RIGHTS.getJob, { name: attempt.job.name });
  const { metadata } = KubeJob.parse(json);
  const ref = refOfLabels(metadata.labels, owner);
  if (ref?.runId !== attempt.runId || ref.epoch !== attempt.epoch) return null;
  if (metadata.deletionTimestamp != null) {
    throw new ClusterError("UPSTREAM_ERROR", `job '${attempt.job.name}' is being deleted`, {
      status: 409,
      reason: "Deleting",
    });
  }
  return { uid: metadata.uid, adopted: true };
}

/** With the Job as owner the Secret goes when the Job goes. Collect and sweep remove it too, so a failure here is none. */
async function tieSecrets(client: K8sClient, attempt: BackendAttempt, uid: string): Promise<void> {
  const { name } = attempt.job;
  const owner = { apiVersion: "batch/v1", kind: "Job", name, uid };
  for (const secret of [name, ...(attempt.registryAuth === null ? [] : [pullSecretName(name)])]) {
    try {
      await client.call(RIGHTS.patchSecret, {
        name: secret,
        contentType: "application/merge-patch+json",
        body: { metadata: { ownerReferences: [owner] } },
      });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
    }
  }
}

async function refused(client: K8sClient, attempt: BackendAttempt, error: unknown): Promise<StartResult> {
  if (!(error instanceof ClusterError) || error.uncertain || !FINAL.has(error.code))
    return { kind: "unknown", error: faultOf(error) };
  const failure = refusal(attempt, error.reason, error.message);
  if (failure.retryable) return { kind: "unknown", error: faultOf(error) };
  await removeSecrets(client, attempt.job.name).catch(() => undefined);
  return { kind: "failed", failure };
}

function refusal(attempt: BackendAttempt, reason: string, message: string): Failure {
  const diagnosis = diagnose(K8S_DIAGNOSIS, { source: "api", reason, message, forSec: 0 }, "schedule");
  return failureOf(diagnosis, { unit: attempt.job.name, node: null, events: [message] });
}

/** Secrets of an attempt that has no Job to own them. @throws ClusterError other than "not found" */
export async function removeSecrets(client: K8sClient, name: string): Promise<void> {
  for (const secret of [name, pullSecretName(name)]) {
    try {
      await client.call(RIGHTS.deleteSecret, { name: secret });
    } catch (error) {
      if (!(error instanceof ClusterError) || error.reason !== "NotFound") throw error;
    }
  }
}
