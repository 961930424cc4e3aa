import type { Job } from "../../../contracts/job.ts";
import { base64Of } from "../../../contracts/outcome.ts";
import type { BackendAttempt, BackendOwner } from "../backend.ts";
import { DEFAULT_GIT_IMAGE } from "../git-image.ts";
import { CLONE_DIR, CLONE_SCRIPT } from "./clone-script.ts";
import { CLONE, LABEL, labelsOf, MAIN } from "./labels.ts";
import { type K8sSpec, podDeadlineSec, resourcesOf, TTL_SEC, terminationSec } from "./settings.ts";

/*
 * A Job as Kubernetes' documents. Pure and byte-stable. Arguments are fixed strings, since $(VAR) in them is expanded;
 * program, nonce and every secret value travel in a Secret.
 */

/** Writable directory of the program. */
export const EVD_DIR = "/everdict/dir";
const PROGRAM_DIR = "/everdict/program";
/** Kubernetes reads at most 4 096 bytes of it into the pod's status. */
const TERMINATION_FILE = "/dev/termination-log";
/** Name of the one NetworkPolicy for jobs with network 'none'. */
export const NETWORK_POLICY = "everdict-network-none";

type Json = { readonly [key: string]: unknown };

const encoder = new TextEncoder();
const base64 = (text: string): string => base64Of(encoder.encode(text));
/** Kubernetes would expand $(VAR) in a value; $$ is a literal dollar. */
const literal = (text: string): string => text.replaceAll("$(", "$$$$(");
/** Key of a variable's value in the Secret. */
const secretKey = (variable: string): string => `env.${variable}`;
const refOf = (attempt: BackendAttempt) => ({ runId: attempt.runId, epoch: attempt.epoch });
export const pullSecretName = (name: string): string => `${name}-pull`;

/** Program, nonce, secret values and clone facts of one attempt. */
export function secretDocument(attempt: BackendAttempt, owner: BackendOwner): Json {
  const { job } = attempt;
  const data: Record<string, string> = { nonce: base64(attempt.nonce), program: base64(job.program) };
  for (const variable of Object.keys(job.secretEnv).sort())
    data[secretKey(variable)] = base64(attempt.secrets[variable] ?? "");
  if (job.git !== null) {
    data["clone.sh"] = base64(CLONE_SCRIPT);
    data["clone.url"] = base64(job.git.url);
    data["clone.ref"] = base64(job.git.ref);
    data["clone.credential"] = base64(attempt.gitCredential ?? "");
  }
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: job.name, labels: labelsOf(owner, refOf(attempt)) },
    type: "Opaque",
    data,
  };
}

/** Registry credential of one attempt, or null. */
export function pullSecretDocument(attempt: BackendAttempt, owner: BackendOwner): Json | null {
  const { registryAuth: auth } = attempt;
  if (auth === null) return null;
  const login = { username: auth.username, password: auth.password, auth: base64(`${auth.username}:${auth.password}`) };
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: pullSecretName(attempt.job.name), labels: labelsOf(owner, refOf(attempt)) },
    type: "kubernetes.io/dockerconfigjson",
    data: { ".dockerconfigjson": base64(JSON.stringify({ auths: { [auth.host]: login } })) },
  };
}

/** Denies all traffic of pods with network 'none'; one for the namespace, whoever made it. */
export function networkPolicyDocument(): Json {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: NETWORK_POLICY },
    spec: { podSelector: { matchLabels: { [LABEL.network]: "none" } }, policyTypes: ["Ingress", "Egress"] },
  };
}

/** The Job of one attempt. */
export function jobDocument(attempt: BackendAttempt, spec: K8sSpec, owner: BackendOwner): Json {
  const { job } = attempt;
  const labels = labelsOf(owner, refOf(attempt));
  const network = job.network === "none" ? { [LABEL.network]: "none" } : {};
  return {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name: job.name, labels },
    spec: {
      completions: 1,
      parallelism: 1,
      backoffLimit: 0,
      ttlSecondsAfterFinished: TTL_SEC,
      podReplacementPolicy: "Failed",
      template: { metadata: { labels: { ...labels, ...network } }, spec: podSpec(attempt, spec) },
    },
  };
}

function podSpec(attempt: BackendAttempt, spec: K8sSpec): Json {
  const { job } = attempt;
  const windows = job.os === "windows";
  const init = [...(job.git === null ? [] : [cloneContainer(spec, windows)]), ...job.sidecars.map(sidecar(windows))];
  return {
    restartPolicy: "Never",
    // On the pod, not on the Job: a Job's own deadline deletes the pod with its exit code and log.
    activeDeadlineSeconds: podDeadlineSec(job),
    terminationGracePeriodSeconds: terminationSec(job),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    nodeSelector: { "kubernetes.io/os": job.os === "macos" ? "darwin" : job.os, ...spec.nodeSelector },
    ...optional("tolerations", [...(spec.tolerations ?? []), ...(windows ? [WINDOWS_TOLERATION] : [])]),
    ...(spec.runtimeClass === undefined ? {} : { runtimeClassName: spec.runtimeClass }),
    ...(attempt.registryAuth === null ? {} : { imagePullSecrets: [{ name: pullSecretName(job.name) }] }),
    ...(windows ? {} : { securityContext: { seccompProfile: { type: "RuntimeDefault" } } }),
    ...optional("initContainers", init),
    containers: [mainContainer(job, spec, windows)],
    volumes: volumesOf(job),
  };
}

const WINDOWS_TOLERATION = { key: "os", operator: "Equal", value: "windows", effect: "NoSchedule" };

function optional<T>(key: string, list: readonly T[]): Json {
  return list.length === 0 ? {} : { [key]: list };
}

/** No privileges beyond those of the image's user. */
const hardened = (windows: boolean): Json =>
  windows ? {} : { securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } } };

function mainContainer(job: Job, spec: K8sSpec, windows: boolean): Json {
  const facts: Record<string, string> = {
    ...job.env,
    EVD_DIR,
    EVD_NONCE_FILE: `${PROGRAM_DIR}/nonce`,
    EVD_TERMINATION_FILE: TERMINATION_FILE,
  };
  const env = [
    ...Object.keys(facts)
      .sort()
      .map((name) => ({ name, value: literal(facts[name] ?? "") })),
    ...Object.keys(job.secretEnv)
      .sort()
      .map((name) => ({ name, valueFrom: { secretKeyRef: { name: job.name, key: secretKey(name) } } })),
  ];
  return {
    name: MAIN,
    image: job.image ?? spec.image,
    command: ["/bin/sh", `${PROGRAM_DIR}/program`],
    env,
    ...optional(
      "ports",
      job.ports.map(({ name, port }) => ({ name, containerPort: port })),
    ),
    resources: resourcesOf(job.resources),
    terminationMessagePath: TERMINATION_FILE,
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...hardened(windows),
    volumeMounts: [
      { name: "dir", mountPath: EVD_DIR },
      { name: "program", mountPath: PROGRAM_DIR, readOnly: true },
    ],
  };
}

function cloneContainer(spec: K8sSpec, windows: boolean): Json {
  return {
    name: CLONE,
    image: spec.gitImage ?? DEFAULT_GIT_IMAGE,
    command: ["/bin/sh", `${CLONE_DIR}/clone.sh`],
    env: [{ name: "EVD_DIR", value: EVD_DIR }],
    resources: resourcesOf({ cpu: 500, memoryMb: 512 }),
    terminationMessagePolicy: "FallbackToLogsOnError",
    ...hardened(windows),
    volumeMounts: [
      { name: "dir", mountPath: EVD_DIR },
      { name: "clone", mountPath: CLONE_DIR, readOnly: true },
    ],
  };
}

/** An init container that goes on beside the main one (Kubernetes 1.29): it never keeps the Job alive. */
const sidecar =
  (windows: boolean) =>
  ({ name, image, env, ports, resources }: Job["sidecars"][number]): Json => ({
    name,
    image,
    restartPolicy: "Always",
    ...optional(
      "env",
      Object.keys(env)
        .sort()
        .map((key) => ({ name: key, value: literal(env[key] ?? "") })),
    ),
    ...optional(
      "ports",
      ports.map((port) => ({ name: port.name, containerPort: port.port })),
    ),
    resources: resourcesOf(resources),
    ...hardened(windows),
  });

/** The clone's credential is mounted where only the clone sees it. */
function volumesOf(job: Job): Json[] {
  const file = (key: string, path: string) => ({ key, path });
  const program = { secretName: job.name, items: [file("nonce", "nonce"), file("program", "program")] };
  const clone = {
    secretName: job.name,
    items: ["clone.sh", "clone.url", "clone.ref", "clone.credential"].map((key) =>
      file(key, key === "clone.sh" ? key : key.slice("clone.".length)),
    ),
  };
  return [
    { name: "dir", emptyDir: {} },
    { name: "program", secret: program },
    ...(job.git === null ? [] : [{ name: "clone", secret: clone }]),
  ];
}

/** Bytes a Secret may hold (Kubernetes refuses more), counted on the decoded data. */
export const SECRET_MAX_BYTES = 1_048_576;

/** Bytes of a Secret's decoded data. */
export function secretBytes(document: Json): number {
  const { data } = document;
  if (typeof data !== "object" || data === null) return 0;
  let bytes = 0;
  for (const [key, value] of Object.entries(data))
    bytes += key.length + (typeof value === "string" ? Math.ceil((value.length * 3) / 4) : 0);
  return bytes;
}
