import * as z from "zod";
import { EverdictError } from "../../../contracts/errors.ts";
import type { BackendOwner, ProbeCheck, ProbeReport } from "../backend.ts";
import { sampleAttempt } from "../sample-attempt.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { KubeNode, page } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { jobDocument } from "./documents.ts";
import { RIGHTS, type Right, type RightsWanted, resourceName, rightsFor, rightWords, roleManifest } from "./rights.ts";
import type { K8sSpec } from "./settings.ts";
import { unreachableReason } from "./unreachable.ts";

/** The whole probe. */
const PROBE_MS = 10_000;
/** First version with containers that live beside the main one. */
const SIDECAR_MINOR = 29;
const Version = z.object({ gitVersion: z.string(), major: z.string(), minor: z.string() });
const Review = z.object({ status: z.object({ allowed: z.boolean() }) });

/** What neither a dry run nor a create shows: it comes as an event, once a pod is to be made. */
const UNSEEN =
  "a dry run does not see quotas, limit ranges, PodSecurity of the pod, policies on pods, missing images, and whether a node fits; the first job shows these in words";

class Checklist {
  readonly checks: ProbeCheck[] = [];
  #reason: string | null = null;
  #words: string | null = null;

  pass(name: string, detail: string): void {
    this.checks.push({ name, ok: true, detail, fix: null });
  }

  /** The first failure is the reason of the whole. */
  fail(name: string, reason: string | null, detail: string, fix: string): void {
    this.checks.push({ name, ok: false, detail: detail.slice(0, 1_000), fix });
    if (reason === null) return;
    this.#reason ??= reason;
    this.#words ??= detail.slice(0, 1_000);
  }

  report(detail: string, nodeOs: ProbeReport["nodeOs"], policy: string): ProbeReport {
    const reason = this.#reason;
    return { reachable: reason === null, detail: this.#words ?? detail, reason, checks: this.checks, nodeOs, policy };
  }
}

/** Checks address, credential, rights, namespace and document, without running anything. */
export async function probeCluster(client: K8sClient, spec: K8sSpec, owner: BackendOwner): Promise<ProbeReport> {
  const list = new Checklist();
  const policy = roleManifest(client.namespace, wantedBy(spec));
  const nodeOs: ProbeReport["nodeOs"] = [];
  let version = "kubernetes";
  const run = async (): Promise<void> => {
    const found = await checkVersion(client, list);
    if (found === null) return;
    version = `kubernetes ${found}`;
    await checkRights(client, list, spec);
    await checkNamespace(client, list, spec);
    await checkDocument(client, list, spec, owner);
    nodeOs.push(...(await systemsOf(client)));
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), PROBE_MS);
  });
  try {
    const outcome = await Promise.race([run(), late]);
    if (outcome === "late") hang(list);
  } catch (error) {
    const fault = faultOf(error);
    list.fail("api", "api", fault.message, "see the cluster's own logs");
  } finally {
    clearTimeout(timer);
  }
  return list.report(version, nodeOs, policy);
}

const wantedBy = (spec: K8sSpec): RightsWanted => ({
  nodes: true,
  externalControl: spec.externalControl === true,
  createNamespace: spec.createNamespace,
});

/** What is said of each way not to be answered; the error's own words where there is no detail. */
const UNREACHABLE: Record<ReturnType<typeof unreachableReason>, { check?: string; detail?: string; fix: string }> = {
  timeout: {
    detail: `the cluster did not answer within ${PROBE_MS / 1_000} s`,
    fix: "check the address and that the cluster's API is open to the control plane, or use a relay",
  },
  tls: {
    detail: "no TLS connection: the certificate is not trusted, or the port does not speak TLS",
    fix: "use a publicly trusted certificate and https, or a relay that trusts the cluster's own CA",
  },
  connect: { fix: "check name and port, or use a relay beside the cluster" },
  auth: { check: "auth", fix: "store a valid token under the name in authSecret" },
  api: { check: "api", fix: "check address, port and path" },
};

const hang = (list: Checklist): void => {
  const { detail = "", fix } = UNREACHABLE.timeout;
  list.fail("connect", "timeout", detail, fix);
};

async function checkVersion(client: K8sClient, list: Checklist): Promise<string | null> {
  try {
    const { json } = await client.raw("GET", "/version");
    const parsed = Version.safeParse(json);
    if (!parsed.success) {
      list.pass("connect", "the address answers");
      list.fail("api", "api", "the address answers, but not as the API of Kubernetes", "check address, port and path");
      return null;
    }
    const { gitVersion, minor } = parsed.data;
    list.pass("connect", `kubernetes ${gitVersion.slice(0, 60)}`);
    list.pass("auth", "the credential is known");
    if (Number.parseInt(minor, 10) < SIDECAR_MINOR)
      list.fail("sidecars", null, `${gitVersion.slice(0, 60)} has no native sidecars`, `upgrade to 1.${SIDECAR_MINOR}`);
    return gitVersion.slice(0, 60);
  } catch (error) {
    tellUnreachable(list, error);
    return null;
  }
}

function tellUnreachable(list: Checklist, error: unknown): void {
  if (!(error instanceof ClusterError)) throw error;
  const { httpStatus } = error;
  if (httpStatus !== null) list.pass("connect", `HTTP ${httpStatus}`);
  const reason = unreachableReason(error);
  const { check = "connect", detail = error.message, fix } = UNREACHABLE[reason];
  list.fail(check, reason, detail, fix);
}

/** A review answers 201 either way, and does not check that the namespace exists. */
async function checkRights(client: K8sClient, list: Checklist, spec: K8sSpec): Promise<void> {
  const names = rightsFor(wantedBy(spec));
  const allowed = await Promise.all(names.map((name) => isAllowed(client, RIGHTS[name])));
  names.forEach((name, index) => {
    const right: Right = RIGHTS[name];
    const label = `right.${name}`;
    if (allowed[index] === true) list.pass(label, rightWords(right));
    else if (right.optional !== undefined)
      list.fail(label, null, `may not ${rightWords(right)}: ${right.optional}`, "apply the Role below if you want it");
    else
      list.fail(
        label,
        "rights",
        `the credential may not ${rightWords(right)} in namespace '${client.namespace}' (to ${right.use}); the namespace may also be wrong, the cluster does not tell which`,
        "apply the Role below",
      );
  });
}

async function isAllowed(client: K8sClient, right: Right): Promise<boolean> {
  const resourceAttributes = {
    ...(right.scope === "namespace" ? { namespace: client.namespace } : {}),
    group: right.group,
    version: right.version,
    resource: right.resource,
    ...(right.subresource === undefined ? {} : { subresource: right.subresource }),
    verb: right.verb,
  };
  const body = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: { resourceAttributes },
  };
  const { json } = await client.raw("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body);
  const review = Review.safeParse(json);
  if (!review.success)
    throw new EverdictError("UPSTREAM_ERROR", `the cluster did not review the right to ${resourceName(right)}`);
  return review.data.status.allowed;
}

/** A limited token gets 403 for what is absent and for what it may not see. */
async function checkNamespace(client: K8sClient, list: Checklist, spec: K8sSpec): Promise<void> {
  const { namespace } = client;
  try {
    await client.call(RIGHTS.getNamespace, { name: namespace });
    list.pass("namespace", `'${namespace}' exists`);
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    if (error.reason === "NotFound" && spec.createNamespace)
      list.pass("namespace", `'${namespace}' does not exist yet and is created with the first job`);
    else if (error.reason === "NotFound")
      list.fail(
        "namespace",
        "namespace",
        `namespace '${namespace}' does not exist`,
        `kubectl create namespace ${namespace}, or correct 'namespace'`,
      );
    else
      list.fail(
        "namespace",
        null,
        `namespace '${namespace}' is absent or not permitted, the cluster does not tell which`,
        "apply the Role below",
      );
  }
}

async function checkDocument(client: K8sClient, list: Checklist, spec: K8sSpec, owner: BackendOwner): Promise<void> {
  try {
    const query = { fieldValidation: "Strict", dryRun: "All" };
    const { warnings } = await client.call(RIGHTS.createJob, {
      query,
      body: jobDocument(sampleAttempt(owner, { image: spec.image, gpu: spec.gpu ?? null }), spec, owner),
    });
    const warned = warnings.length > 0 ? `; the cluster warns: ${warnings.join(", ")}` : "";
    list.pass("job.dryRun", `the cluster takes the document of a job${warned}; ${UNSEEN}`.slice(0, 1_000));
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    const reason =
      error.reason === "Forbidden" ? "rights" : error.reason === "NamespaceNotFound" ? "namespace" : "document";
    if (reason === "namespace" && spec.createNamespace) return;
    list.fail(
      "job.dryRun",
      reason,
      error.message,
      "change what the message names in the runtime or in the cluster's policies",
    );
  }
}

async function systemsOf(client: K8sClient): Promise<ProbeReport["nodeOs"]> {
  try {
    const { json } = await client.call(RIGHTS.listNodes, { query: { limit: "500" } });
    const nodes = page(KubeNode).parse(json).items ?? [];
    const systems = new Set(nodes.map(({ status }) => status.nodeInfo?.operatingSystem ?? ""));
    return (["linux", "windows"] as const).filter((os) => systems.has(os));
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return [];
  }
}
