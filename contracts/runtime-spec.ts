import * as z from "zod";
import { type Capability, CapabilityList } from "./capabilities.ts";
import type { Issue } from "./errors.ts";
import { ImageRef, RegistryId, SecretName, Tags, Version } from "./names.ts";
import { whole } from "./numbers.ts";
import { secretIssues } from "./secret-shape.ts";

const Label = z
  .string()
  .max(63)
  .regex(/^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/, "must be a Kubernetes label value");
const LabelKey = z
  .string()
  .min(1)
  .max(317)
  .regex(/^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/, "must be a Kubernetes label key");
const DnsLabel = z
  .string()
  .max(63)
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "must be a DNS label: lower-case letters, digits and '-'");
const HttpUrl = z
  .string()
  .max(500)
  .regex(/^https?:\/\/[^\s/?#]+(\/[^\s?#]*)?$/, "must be an http(s) URL without query or fragment")
  .refine((url) => URL.canParse(url), "must be a valid URL");

const base = {
  id: RegistryId,
  version: Version,
  description: z.string().max(1_000).optional().describe("For people"),
  tags: Tags.default([]),
  capabilities: CapabilityList.optional().describe("What the operator declares beyond what is derived"),
};

export const TraceSource = z
  .strictObject({
    kind: z.enum(["otel", "mlflow", "langfuse", "langsmith", "phoenix"]).describe("Trace backend"),
    url: HttpUrl.describe("Address of its API"),
    authSecret: SecretName.optional(),
  })
  .describe("Where traces of topology runs are pulled from; its presence makes a runtime topology-capable");

const cluster = {
  image: ImageRef.describe("Default image of a job that names none"),
  maxConcurrent: whole(1, 10_000).optional().describe("Slots; default 20, topology lane 8"),
  memoryBudgetMb: whole(4, 1_000_000_000, "MiB")
    .optional()
    .describe("Cap on the sum of declared memory in flight, MiB"),
  cpuBudget: whole(1, 1_000_000_000, "millicores")
    .optional()
    .describe("Cap on the sum of declared cpu in flight, millicores"),
  imagePullSecret: SecretName.optional().describe("Name of a registry secret {host, username, password}"),
  placementTimeoutSec: whole(0, 86_400, "seconds").optional().describe("Seconds a job may stay unplaced; 0 waits"),
  trustZone: z.enum(["runtime", "workspace"]).optional().describe("What may sit beside what"),
  externalControl: z.boolean().default(false).describe("Control may touch units that are not ours"),
  warmPool: z
    .strictObject({ min: whole(0, 100), max: whole(1, 100) })
    .refine((pool) => pool.min <= pool.max, "min must not exceed max")
    .optional()
    .describe("Whole topologies kept warm"),
  relay: DnsLabel.optional().describe("Name of the relay that carries the API traffic"),
  traceSource: TraceSource.optional(),
  browserImage: ImageRef.optional().describe("Image of the per-case browser"),
  gitImage: ImageRef.optional().describe("Image that clones git sources"),
  hostGatewayAddr: z.string().max(253).optional().describe("Address under which jobs reach the host"),
  gpu: whole(0, 64).optional().describe("GPUs reserved per job by default"),
  authSecret: SecretName.optional().describe("Name of the cluster API credential"),
};

export const LocalRuntime = z
  .strictObject({ kind: z.literal("local"), ...base })
  .describe("The control-plane host itself; development only");

export const NomadRuntime = z
  .strictObject({
    kind: z.literal("nomad"),
    ...base,
    ...cluster,
    addr: HttpUrl.describe("Nomad API address, for example https://nomad.acme.dev"),
    runtime: z
      .string()
      .max(60)
      .regex(/^[A-Za-z0-9._-]+$/)
      .optional()
      .describe("Container runtime of the docker driver, for example runsc"),
    datacenters: z
      .array(z.string().min(1).max(128))
      .min(1)
      .max(50)
      .default(["*"])
      .describe("Datacenters to place in; default every one"),
    namespace: z
      .string()
      .min(1)
      .max(128)
      .regex(/^[A-Za-z0-9-]+$/)
      .optional(),
    region: z.string().min(1).max(128).optional(),
    constraints: z
      .array(
        z.strictObject({
          attribute: z.string().min(1).max(300),
          operator: z.string().min(1).max(40).default("="),
          value: z.string().max(1_000),
        }),
      )
      .max(50)
      .optional()
      .describe("Placement constraints, for example ${node.class} = gpu"),
    cpuMhzPerCore: whole(100, 10_000)
      .optional()
      .describe("Clock of one core in MHz; without it a case that declares cpu is refused"),
  })
  .describe("A Nomad cluster");

export const K8sRuntime = z
  .strictObject({
    kind: z.literal("k8s"),
    ...base,
    ...cluster,
    context: z.string().min(1).max(253).optional().describe("Context of the relay machine's kubeconfig"),
    namespace: DnsLabel.optional(),
    createNamespace: z.boolean().default(false),
    runtimeClass: z
      .string()
      .max(253)
      .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/)
      .optional(),
    server: HttpUrl.optional().describe("API server address; used with authSecret"),
    kubeconfigSecret: SecretName.optional().describe("Name of a secret that holds a whole kubeconfig"),
    nodeSelector: z
      .record(LabelKey, Label)
      .refine((labels) => Object.keys(labels).length <= 50, "at most 50 labels")
      .optional(),
    tolerations: z
      .array(
        z.strictObject({
          key: LabelKey.optional(),
          operator: z.enum(["Exists", "Equal"]).optional(),
          value: Label.optional(),
          effect: z.enum(["NoSchedule", "PreferNoSchedule", "NoExecute"]).optional(),
          tolerationSeconds: whole(0, 86_400).optional(),
        }),
      )
      .max(50)
      .optional(),
  })
  .describe("A Kubernetes cluster");

export const RuntimeSpec = z
  .discriminatedUnion("kind", [LocalRuntime, NomadRuntime, K8sRuntime])
  .describe("A workspace's execution infrastructure");
export type RuntimeSpec = z.infer<typeof RuntimeSpec>;

const HARDENED_RUNTIMES = /^(runsc|gvisor|kata.*|sysbox.*|firecracker.*)$/i;

/** declared ∪ derived. `nodeOs` comes from the last probe of the nodes, never from a claim of the spec alone. */
export function advertisedCapabilities(spec: RuntimeSpec, nodeOs: readonly ("windows" | "macos")[] = []): Capability[] {
  const out = new Set<Capability>(spec.capabilities ?? []);
  if (spec.kind !== "local") {
    out.add("docker").add("git");
    if (spec.browserImage !== undefined) out.add("browser");
    if (spec.traceSource !== undefined) out.add("topology");
    if ((spec.gpu ?? 0) > 0) out.add("gpu");
    const hardened = spec.kind === "nomad" ? spec.runtime : spec.runtimeClass;
    if (hardened !== undefined && HARDENED_RUNTIMES.test(hardened)) out.add("sandbox");
  }
  for (const os of nodeOs) out.add(`os-${os}`);
  return [...out].sort();
}

/** Slots of a runtime without maxConcurrent: 20, on a topology-capable one 8. */
export function slotsOf(spec: RuntimeSpec): number {
  if (spec.kind === "local") return 4;
  return spec.maxConcurrent ?? (spec.traceSource === undefined ? 20 : 8);
}

/** How a credential is given to each kind of runtime, which has no environment to put it into. */
const CREDENTIALS: Record<RuntimeSpec["kind"], string> = {
  local: "remove it: a local runtime needs no credential",
  nomad: "remove it; a credential of the cluster is stored with PUT /secrets/{name}, and its name goes into authSecret",
  k8s: "remove it; a credential of the cluster is stored with PUT /secrets/{name}, and its name goes into authSecret, or into kubeconfigSecret for a whole kubeconfig",
};

/** Rules that the shape alone cannot say: credentials where names belong, and contradictory Kubernetes credentials. */
export function runtimeIssues(spec: RuntimeSpec): Issue[] {
  const issues = secretIssues(spec, "", CREDENTIALS[spec.kind]);
  if (spec.kind === "k8s") {
    if (spec.kubeconfigSecret === undefined && spec.server === undefined && spec.context === undefined) {
      issues.push({
        path: "server",
        message: "give one of kubeconfigSecret, server with authSecret, or context with relay",
      });
    }
    if (spec.server !== undefined && spec.authSecret === undefined && spec.kubeconfigSecret === undefined) {
      issues.push({
        path: "authSecret",
        message: "server needs authSecret: the name of a secret that holds a bearer token",
      });
    }
    if (
      spec.context !== undefined &&
      spec.server === undefined &&
      spec.kubeconfigSecret === undefined &&
      spec.relay === undefined
    ) {
      issues.push({
        path: "relay",
        message: "context means a context of a relay machine's kubeconfig; name the relay",
      });
    }
  }
  return issues;
}

/** Names of the secrets a runtime refers to. */
export function runtimeSecretNames(spec: RuntimeSpec): { field: string; name: string; use: "cluster" | "registry" }[] {
  if (spec.kind === "local") return [];
  const out: { field: string; name: string; use: "cluster" | "registry" }[] = [];
  if (spec.authSecret !== undefined) out.push({ field: "authSecret", name: spec.authSecret, use: "cluster" });
  if (spec.kind === "k8s" && spec.kubeconfigSecret !== undefined)
    out.push({ field: "kubeconfigSecret", name: spec.kubeconfigSecret, use: "cluster" });
  if (spec.imagePullSecret !== undefined)
    out.push({ field: "imagePullSecret", name: spec.imagePullSecret, use: "registry" });
  if (spec.traceSource?.authSecret !== undefined)
    out.push({ field: "traceSource.authSecret", name: spec.traceSource.authSecret, use: "cluster" });
  return out;
}

/**
 * MHz for a Nomad job from declared millicores.
 * @returns null when the runtime does not say how fast a core is
 */
export function nomadCpuMhz(millicores: number, cpuMhzPerCore: number | undefined): number | null {
  return cpuMhzPerCore === undefined ? null : Math.max(1, Math.round((millicores / 1_000) * cpuMhzPerCore));
}
