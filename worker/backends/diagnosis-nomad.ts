import type { DiagnosisRow } from "./diagnosis.ts";

/*
 * Nomad's words. Sources: task.event (reason is the event's type), alloc (reason is ClientStatus/DesiredStatus, message
 * DesiredDescription), evaluation (message made of FailedTGAllocs), client (404 texts of a node's files and logs),
 * register (texts of a refused job), api (reason is the HTTP status).
 */

/** Why an image that was there is gone: the docker driver deletes images that no task uses for 3 minutes. */
export const IMAGE_GC_TEXT =
  'if the image was only loaded on the node, the docker driver\'s garbage collection has removed it: push it to a registry, or keep it with plugin "docker" { config { gc { image = false } } }, or raise gc { image_delay = "…" } there';

const image = {
  phase: "image",
  sources: ["task.event"],
  reason: /^Driver Failure$/,
  action: "fail",
  graceSec: 0,
} as const;
const start = { phase: "start", sources: ["task.event"], action: "fail", graceSec: 0, retryable: false } as const;
const wait = { phase: "schedule", sources: ["evaluation"], action: "wait", graceSec: 0 } as const;
const gone = {
  phase: "run",
  sources: ["alloc"],
  class: "infra",
  retryable: true,
  action: "fail",
  graceSec: 0,
} as const;

const IMAGE: DiagnosisRow[] = [
  {
    ...image,
    code: "PAUSE_IMAGE_MISSING",
    reason: /^(Driver|Setup) Failure$/,
    message: /pause-(amd64|arm64)/i,
    class: "infra",
    retryable: true,
    hint: 'the node cannot pull the pause image that a group network needs: push it to a registry the node reaches and name it with plugin "docker" { config { infra_image = "…" } }',
  },
  {
    ...image,
    code: "IMAGE_RATE_LIMITED",
    message: /toomanyrequests|pull rate limit/i,
    class: "infra",
    retryable: true,
    hint: "the registry refuses further pulls for now; give the docker driver of the clients a credential, or pull through a mirror",
  },
  {
    ...image,
    code: "IMAGE_ACCESS_DENIED",
    message: /pull access denied|requested access to the resource is denied|unauthorized|no basic auth credentials/i,
    class: "config",
    retryable: false,
    hint: `the registry denies the image, or does not have it: correct 'image', or give the docker driver of the clients a credential; ${IMAGE_GC_TEXT}`,
  },
  {
    ...image,
    code: "IMAGE_NOT_FOUND",
    message: /manifest (for .* )?(unknown|not found)|repository .* not found|name unknown/i,
    class: "config",
    retryable: false,
    hint: `the registry has no such image: correct 'image'; ${IMAGE_GC_TEXT}`,
  },
  {
    ...image,
    code: "IMAGE_NAME_INVALID",
    message: /invalid reference format|Failed to parse image/i,
    class: "config",
    retryable: false,
    hint: "the image's name is not a valid reference; correct 'image'",
  },
  {
    ...image,
    code: "IMAGE_PULL_FAILED",
    message: /Failed to pull/i,
    class: "infra",
    retryable: true,
    hint: `the node could not pull the image; ':latest' and no tag are always pulled, another tag only when the node lacks it; ${IMAGE_GC_TEXT}`,
  },
];

const START: DiagnosisRow[] = [
  {
    ...start,
    code: "SHELL_MISSING",
    reason: /^Driver Failure$/,
    message: /exec: "\/bin\/sh".*(no such file|not found)/i,
    class: "config",
    hint: "the image has no /bin/sh, which the program needs; use an image with a shell, busybox is enough",
  },
  {
    ...start,
    code: "DRIVER_CONFIG_REFUSED",
    reason: /^Driver Failure$/,
    message: /Failed to create container configuration|not enabled|is disabled on this Nomad agent/i,
    class: "config",
    hint: 'the docker driver of the node does not allow what the job needs; see the plugin "docker" block of the client',
  },
  {
    ...start,
    code: "CONTAINER_START_FAILED",
    reason: /^Driver Failure$/,
    message: /Failed to (start|create) container|OCI runtime/i,
    class: "infra",
    retryable: true,
    hint: "the container runtime of the node could not start the container",
  },
  {
    ...start,
    code: "DRIVER_FAILURE",
    reason: /^Driver Failure$/,
    class: "infra",
    retryable: true,
    hint: "the docker driver of the node failed",
  },
  {
    ...start,
    code: "TASK_CONFIG_INVALID",
    reason: /^Failed Validation$/,
    class: "config",
    hint: "the node refused the task's configuration: text between '${' and '}' in image or runtime is read as an expression there",
  },
  {
    ...start,
    code: "TEMPLATE_FAILED",
    reason: /^Killing$/,
    message: /Template failed/i,
    class: "infra",
    retryable: true,
    hint: "the node could not write the job's files",
  },
  {
    ...start,
    code: "VARIABLE_MISSING",
    reason: /^Template$/,
    message: /Missing: nomad\.var/i,
    class: "infra",
    retryable: true,
    graceSec: 60,
    hint: "the job waits for its Nomad Variable, which holds its secrets and is gone; someone deleted it",
  },
  {
    ...start,
    code: "NETWORK_SETUP_FAILED",
    reason: /^Setup Failure$/,
    message: /cni|network/i,
    class: "config",
    hint: "the node cannot make a bridge network for the sidecars: install the CNI plugins (by default in /opt/cni/bin)",
  },
  {
    ...start,
    code: "TASK_SETUP_FAILED",
    reason: /^Setup Failure$/,
    class: "infra",
    retryable: true,
    hint: "the node could not prepare the task",
  },
];

const SCHEDULE: DiagnosisRow[] = [
  {
    ...wait,
    code: "DRIVER_MISSING",
    message: /missing drivers/,
    class: "config",
    retryable: false,
    hint: "no node in reach has a healthy docker driver; install docker on a client and see 'nomad node status -verbose'",
  },
  {
    ...wait,
    code: "GPU_UNAVAILABLE",
    message: /missing devices|devices/,
    class: "infra",
    retryable: true,
    hint: "no node has the GPUs free that the job asks for; lower resources.gpu or install the nvidia device plugin",
  },
  {
    ...wait,
    code: "QUOTA_EXHAUSTED",
    message: /quota/,
    class: "infra",
    retryable: true,
    hint: "the namespace's quota is used up",
  },
  {
    ...wait,
    code: "CONSTRAINT_FILTERED",
    message: /filtered/,
    class: "config",
    retryable: false,
    hint: "no node meets the constraints: see 'constraints' and 'datacenters' of the runtime and placement.os of the case",
  },
  {
    ...wait,
    code: "RESOURCES_EXHAUSTED",
    message: /exhausted/,
    class: "infra",
    retryable: true,
    hint: "no node has room now; whether one ever has, the scheduler does not tell: lower resources.memoryMb or cpu, or add a client",
  },
  {
    ...wait,
    code: "NO_NODES",
    message: /no node was considered/,
    class: "infra",
    retryable: true,
    hint: "no eligible node in these datacenters: see 'datacenters' of the runtime and 'nomad node status'",
  },
];

const GONE: DiagnosisRow[] = [
  {
    ...gone,
    code: "NODE_LOST",
    reason: /^(lost|unknown)\//,
    hint: "the node stopped answering and did not come back within the time limit of the job",
  },
  {
    ...gone,
    code: "NODE_LOST",
    message: /alloc is lost/,
    hint: "the node was lost and came back; Nomad had given the job up meanwhile",
  },
  {
    ...gone,
    code: "EVICTED",
    message: /migrated/,
    hint: "the node was drained, which ends jobs with the word 'complete'",
  },
  {
    ...gone,
    code: "PREEMPTED",
    reason: /\/evict$/,
    hint: "a job of higher priority took the place",
  },
  {
    ...gone,
    code: "STOPPED_BY_OTHERS",
    reason: /\/stop$/,
    hint: "the job was stopped on the cluster, not by this control plane",
  },
];

const RUN: DiagnosisRow[] = [
  {
    code: "OOM_KILLED",
    sources: ["task.event"],
    reason: /^Terminated$/,
    message: /OOM Killed/,
    phase: "run",
    class: "config",
    retryable: false,
    action: "fail",
    graceSec: 0,
    hint: "memory ran out and nothing was left to report a result; raise resources.memoryMb of the case or the harness",
  },
  {
    code: "PROGRAM_FAILED",
    sources: ["task.event"],
    reason: /^Terminated$/,
    message: /Exit Code: 97\b/,
    phase: "start",
    class: "config",
    retryable: false,
    action: "fail",
    graceSec: 0,
    hint: "the program could not work in this image; its own words are in the log",
  },
  {
    code: "OUTCOME_MISSING",
    sources: ["task.event"],
    reason: /^Terminated$/,
    phase: "collect",
    class: "infra",
    retryable: true,
    action: "fail",
    graceSec: 0,
    hint: "the task ended without a result",
  },
];

const CLIENT: DiagnosisRow[] = [
  {
    code: "OUTCOME_COLLECTED",
    sources: ["client"],
    message: /not found on client|Unknown allocation/,
    phase: "collect",
    class: "infra",
    retryable: true,
    action: "fail",
    graceSec: 0,
    hint: "the node has deleted the ended job's files before they could be read: at client.gc_max_allocs (default 50) all ended ones go at once; set it well above the largest burst of jobs per node",
  },
  {
    code: "NODE_AWAY",
    sources: ["client"],
    message: /No path to node/,
    phase: "collect",
    class: "infra",
    retryable: true,
    action: "wait",
    graceSec: 0,
    hint: "the node does not answer; the result is read when it is back",
  },
  {
    code: "NOT_STARTED",
    sources: ["client"],
    message: /not started yet/,
    phase: "start",
    class: "infra",
    retryable: true,
    action: "wait",
    graceSec: 0,
    hint: "the task has not started, so there is no output",
  },
];

const REGISTER: DiagnosisRow[] = [
  {
    code: "NAME_CONFLICT",
    sources: ["register"],
    message: /job already exists|conflicting job modify index/,
    phase: "schedule",
    class: "config",
    retryable: false,
    action: "fail",
    graceSec: 0,
    hint: "a job of this name exists on the cluster and is not this attempt; another deployment may use the same namespace and name",
  },
  {
    code: "NODE_POOL_MISSING",
    sources: ["register"],
    message: /nonexistent node pool/,
    phase: "schedule",
    class: "config",
    retryable: false,
    action: "fail",
    graceSec: 0,
    hint: "the node pool does not exist",
  },
  {
    code: "JOB_REFUSED",
    sources: ["register"],
    message: /errors? occurred|validation failed|cannot unmarshal/,
    phase: "schedule",
    class: "config",
    retryable: false,
    action: "fail",
    graceSec: 0,
    hint: "Nomad refused the job; see 'constraints', 'datacenters' and the resources it asks for",
  },
];

const API: DiagnosisRow[] = [
  {
    code: "CLUSTER_DENIED",
    sources: ["api"],
    reason: /^(401|403)$/,
    phase: "schedule",
    class: "infra",
    retryable: true,
    action: "wait",
    graceSec: 0,
    hint: "the token in authSecret is unknown, expired or lacks a right; the probe of the runtime names it",
  },
];

/** Rows for Nomad; the first that matches counts. */
export const NOMAD_DIAGNOSIS: readonly DiagnosisRow[] = [
  ...IMAGE,
  ...START,
  ...SCHEDULE,
  ...GONE,
  ...RUN,
  ...CLIENT,
  ...REGISTER,
  ...API,
];
