import type { Job } from "../../../contracts/job.ts";
import { DEFAULT_MEMORY_MB } from "../../../contracts/requirements.ts";
import type { Failure } from "../../../contracts/run.ts";
import { nomadCpuMhz, type RuntimeSpec } from "../../../contracts/runtime-spec.ts";
import { base64Text } from "../../program/shell-text.ts";
import type { BackendAttempt, BackendOwner } from "../backend.ts";
import { DEFAULT_GIT_IMAGE } from "../git-image.ts";
import { cloneScript } from "./clone-script.ts";
import { environmentTemplate, fileTemplate, type Template } from "./templates.ts";

export type NomadSpec = Extract<RuntimeSpec, { kind: "nomad" }>;

const SECOND_NS = 1_000_000_000;
/** A lost node's job is not placed a second time before this; without the block it is (N 9). */
const LOST_AFTER_NS = 86_400 * SECOND_NS;
/** Clients cut a longer one without a word (N 48). */
const MAX_KILL_SEC = 30;
/** MHz of a job that declares no cpu. */
export const DEFAULT_CPU_MHZ = 1_000;
/** Log files that Nomad keeps, and the disk that must exceed them (N 30). */
const LOG_FILES = { MaxFiles: 2, MaxFileSizeMB: 10 };
const DISK_MB = 500;
/** The docker driver rotates its own log at 2 MB and loses or doubles lines there, unless the task says otherwise (N 3). */
const DOCKER_LOGGING = [{ type: "json-file", config: [{ "max-size": "100m", "max-file": "1" }] }];
/** The docker driver loses what is written right before the exit; 0.3 s was enough, with a margin (N 1, 2). */
const PAUSE_SEC = "0.5";
/** Bytes of keys and values of one Nomad Variable (N 44). */
const VARIABLE_BYTES = 65_536;
const CLONE_RESOURCES = { CPU: 200, MemoryMB: 256 };

/** Folder that the tasks of an allocation share. */
export const DATA_DIR = "/alloc/data";
export const OUTCOME_PATH = `${DATA_DIR}/outcome`;
export const CLONE_WORDS_PATH = `${DATA_DIR}/clone-words`;
export const MAIN_TASK = "main";
export const CLONE_TASK = "clone";
const GIT_ITEM = "EVD_GIT_CREDENTIAL";

const KERNEL = { linux: "linux", windows: "windows", macos: "darwin" } as const;

interface Task {
  Name: string;
  Driver: "docker";
  Leader?: boolean;
  Lifecycle?: { Hook: "prestart"; Sidecar: boolean };
  Config: Record<string, unknown>;
  Env?: Record<string, string>;
  Resources: Record<string, unknown>;
  LogConfig: typeof LOG_FILES;
  KillTimeout: number;
  Templates: Template[];
}

export interface NomadJob {
  ID: string;
  Meta: Record<string, string>;
  [field: string]: unknown;
}

export type BuiltJob =
  /** `items` belong into the Nomad Variable before the job is registered; empty when there are none. */
  { ok: true; job: NomadJob; items: Record<string, string> } | { ok: false; failure: Failure };

/** Path of the Nomad Variable that only this job may read. */
export const variablePath = (name: string): string => `nomad/jobs/${name}`;

/** What marks a job as this attempt's; compared before a job is adopted. */
export const metaOf = (owner: BackendOwner, labels: Job["labels"]): Record<string, string> => ({
  everdict_deployment: owner.deployment,
  everdict_object: labels.object,
  everdict_run: labels.run,
  everdict_epoch: labels.epoch,
});

/** A refusal of a job that no cluster could run as it is. */
function refused(unit: string, code: string, message: string): { ok: false; failure: Failure } {
  const placement = { unit, node: null, events: [] };
  return {
    ok: false,
    failure: { stage: "dispatch", class: "config", code, message, retryable: false, placement },
  };
}

/**
 * The Nomad job of an attempt; pure, and the same bytes for the same input. Values of secrets are not in it, as everyone
 * who may read jobs reads it (N 43): they are in `items`.
 */
export function jobDocument(attempt: BackendAttempt, spec: NomadSpec, owner: BackendOwner): BuiltJob {
  const { job } = attempt;
  const unit = job.name;
  if (job.mode !== "batch") return refused(unit, "MODE_UNSUPPORTED", "a Nomad runtime runs batch jobs only");
  if (job.image === null)
    return refused(unit, "IMAGE_MISSING", "a job on Nomad needs an image; name one on the case, harness or runtime");
  if (attempt.registryAuth !== null) return refused(unit, "REGISTRY_AUTH_UNSUPPORTED", REGISTRY_TEXT);
  const cpu = job.resources.cpu === null ? DEFAULT_CPU_MHZ : nomadCpuMhz(job.resources.cpu, spec.cpuMhzPerCore);
  if (cpu === null) {
    const message = `the job declares ${job.resources.cpu} millicores, but runtime '${spec.id}' does not say how fast a core is; set its cpuMhzPerCore`;
    return refused(unit, "CPU_MHZ_UNKNOWN", message);
  }
  const items = { ...attempt.secrets, ...(attempt.gitCredential ? { [GIT_ITEM]: attempt.gitCredential } : {}) };
  const bytes = new TextEncoder().encode(Object.entries(items).flat().join("")).length;
  if (bytes > VARIABLE_BYTES)
    return refused(unit, "SECRETS_TOO_LARGE", `the job's secrets are ${bytes} bytes, a Nomad Variable holds 65536`);
  return { ok: true, items, job: documentOf(attempt, spec, owner, job.image, cpu) };
}

const REGISTRY_TEXT =
  'imagePullSecret is not supported on Nomad, where a job\'s registry credential can be read by everyone who may read the job; give the docker driver of the clients its credential (plugin "docker" { config { auth { config = "/etc/docker-auth.json" } } }) and remove imagePullSecret';

function documentOf(
  attempt: BackendAttempt,
  spec: NomadSpec,
  owner: BackendOwner,
  image: string,
  cpuMhz: number,
): NomadJob {
  const { job } = attempt;
  const tasks = [mainTask(attempt, spec, image, cpuMhz)];
  if (job.git !== null) tasks.push(cloneTask(attempt, spec));
  for (const sidecar of job.sidecars) tasks.push(sidecarTask(sidecar, spec, attempt.nonce));
  return {
    ID: job.name,
    Name: job.name,
    Type: "batch",
    Namespace: spec.namespace ?? "default",
    ...(spec.region === undefined ? {} : { Region: spec.region }),
    Datacenters: [...spec.datacenters],
    Meta: metaOf(owner, job.labels),
    Constraints: [
      { LTarget: "${attr.kernel.name}", RTarget: KERNEL[job.os], Operand: "=" },
      ...(spec.constraints ?? []).map(({ attribute, operator, value }) => ({
        LTarget: attribute,
        RTarget: value,
        Operand: operator,
      })),
    ],
    TaskGroups: [
      {
        Name: MAIN_TASK,
        Count: 1,
        RestartPolicy: { Attempts: 0, Mode: "fail", Interval: 60 * SECOND_NS, Delay: SECOND_NS },
        ReschedulePolicy: { Attempts: 0, Unlimited: false, Interval: 60 * SECOND_NS },
        Disconnect: { LostAfter: LOST_AFTER_NS, Replace: false },
        EphemeralDisk: { SizeMB: DISK_MB },
        ...(job.sidecars.length === 0 ? {} : { Networks: [{ Mode: "bridge" }] }),
        Tasks: tasks,
      },
    ],
  };
}

/** Text inside Config is parsed as HCL on the node (N 14), so nothing of a tenant stands there but the image's name. */
function dockerConfig(image: string, script: string, network: string | null, spec: NomadSpec): Record<string, unknown> {
  return {
    image,
    force_pull: false,
    entrypoint: ["/bin/sh"],
    args: [script],
    ...(network === null ? {} : { network_mode: network }),
    logging: DOCKER_LOGGING,
    cap_drop: ["all"],
    security_opt: ["no-new-privileges"],
    ...(spec.runtime === undefined ? {} : { runtime: spec.runtime }),
  };
}

function mainTask(attempt: BackendAttempt, spec: NomadSpec, image: string, cpuMhz: number): Task {
  const { job, nonce } = attempt;
  const gpu = job.resources.gpu ?? spec.gpu ?? 0;
  // Nomad replaces ${…} that it knows in Env, and nothing in a template.
  const facts = Object.entries(job.env);
  const plain = facts.filter(([, value]) => !/[$%]\{/.test(value));
  const environment = environmentTemplate({
    literals: Object.fromEntries(facts.filter(([, value]) => /[$%]\{/.test(value))),
    items: Object.fromEntries(Object.keys(attempt.secrets).map((name) => [name, name])),
    variable: variablePath(job.name),
    nonce,
  });
  // With sidecars the group's own network holds.
  const network = job.sidecars.length > 0 ? null : job.network;
  return {
    Name: MAIN_TASK,
    Driver: "docker",
    Leader: true,
    Config: { ...dockerConfig(image, "/secrets/program.sh", network, spec), pids_limit: job.pids },
    Env: {
      ...Object.fromEntries(plain),
      EVD_DIR: DATA_DIR,
      EVD_NONCE_FILE: "/secrets/nonce",
      EVD_OUTCOME_FILE: OUTCOME_PATH,
      EVD_PAUSE_SEC: PAUSE_SEC,
    },
    Resources: {
      CPU: cpuMhz,
      MemoryMB: job.resources.memoryMb ?? DEFAULT_MEMORY_MB,
      ...(gpu === 0 ? {} : { Devices: [{ Name: "nvidia/gpu", Count: gpu }] }),
    },
    LogConfig: LOG_FILES,
    KillTimeout: Math.min(MAX_KILL_SEC, job.graceSec + 5) * SECOND_NS,
    Templates: [
      fileTemplate(job.program, "secrets/program.sh", "0444", nonce),
      fileTemplate(nonce, "secrets/nonce", "0444", nonce),
      ...(environment === null ? [] : [environment]),
    ],
  };
}

function cloneTask(attempt: BackendAttempt, spec: NomadSpec): Task {
  const { job, nonce } = attempt;
  const source = job.git ?? { url: "", ref: "" };
  const environment = environmentTemplate({
    literals: {},
    items: attempt.gitCredential ? { [GIT_ITEM]: GIT_ITEM } : {},
    variable: variablePath(job.name),
    nonce,
  });
  const script = cloneScript({
    url: base64Text(source.url),
    ref: base64Text(source.ref),
    target: `${DATA_DIR}/source`,
    words: CLONE_WORDS_PATH,
  });
  return {
    Name: CLONE_TASK,
    Driver: "docker",
    Lifecycle: { Hook: "prestart", Sidecar: false },
    Config: dockerConfig(spec.gitImage ?? DEFAULT_GIT_IMAGE, "/secrets/clone.sh", "bridge", spec),
    Resources: CLONE_RESOURCES,
    LogConfig: LOG_FILES,
    KillTimeout: 5 * SECOND_NS,
    Templates: [
      fileTemplate(script, "secrets/clone.sh", "0444", nonce),
      ...(environment === null ? [] : [environment]),
    ],
  };
}

function sidecarTask(sidecar: Job["sidecars"][number], spec: NomadSpec, nonce: string): Task {
  const environment = environmentTemplate({ literals: sidecar.env, items: {}, variable: "", nonce });
  const cpu = sidecar.resources.cpu === undefined ? null : nomadCpuMhz(sidecar.resources.cpu, spec.cpuMhzPerCore);
  return {
    Name: sidecar.name,
    Driver: "docker",
    Lifecycle: { Hook: "prestart", Sidecar: true },
    Config: {
      image: sidecar.image,
      force_pull: false,
      logging: DOCKER_LOGGING,
      ...(spec.runtime === undefined ? {} : { runtime: spec.runtime }),
    },
    Resources: { CPU: cpu ?? DEFAULT_CPU_MHZ, MemoryMB: sidecar.resources.memoryMb ?? DEFAULT_MEMORY_MB },
    LogConfig: LOG_FILES,
    KillTimeout: 5 * SECOND_NS,
    Templates: environment === null ? [] : [environment],
  };
}
