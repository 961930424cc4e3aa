import type { DiagnosisRow } from "./diagnosis.ts";

/*
 * Kubernetes' words. Sources: api (a refused create), event, pod.unschedulable (condition PodScheduled), pod.reason
 * (status of a failed pod), pod.disruption (condition DisruptionTarget), pod.deleted, container.waiting,
 * container.terminated; "sidecar." and "clone." in front of the last two for those containers.
 */

type Verdict = Pick<DiagnosisRow, "class" | "retryable" | "action" | "graceSec">;

const config = (graceSec: number): Verdict => ({ class: "config", retryable: false, action: "fail", graceSec });
const infra = (graceSec: number): Verdict => ({ class: "infra", retryable: true, action: "fail", graceSec });
/** Heals when other work ends or a node comes; bounded by placementTimeoutSec. */
const waits: Verdict = { class: "infra", retryable: true, action: "wait", graceSec: 0 };

/** Pull errors flip between two reasons every 11 to 15 s, and a registry may come back. */
const PULL_SEC = 60;
/** The Job controller tries again after 1, 3, 7, 15, 31 s: by then a refusal is no accident. */
const CREATE_SEC = 60;
const MOUNT_SEC = 120;

const PULL_SOURCES = ["container.waiting", "sidecar.waiting", "clone.waiting"];
const PULL = /^(ErrImagePull|ImagePullBackOff|ImageInspectError)$/;

const IMAGE_ROWS: DiagnosisRow[] = [
  {
    code: "IMAGE_NAME_INVALID",
    sources: PULL_SOURCES,
    reason: /^InvalidImageName$/,
    phase: "image",
    ...config(0),
    hint: "the image's name is no image reference; correct 'image' of the case, harness or runtime",
  },
  {
    code: "IMAGE_NEVER_PULL",
    sources: PULL_SOURCES,
    reason: /^ErrImageNeverPull$/,
    phase: "image",
    ...config(0),
    hint: "the image is not on the node and the cluster's policy forbids pulling it; load it there or allow pulls",
  },
  {
    code: "IMAGE_RATE_LIMITED",
    sources: PULL_SOURCES,
    reason: PULL,
    message: /toomanyrequests|rate limit|429 Too Many/i,
    phase: "image",
    ...infra(PULL_SEC),
    hint: "the registry limits pulls; name an imagePullSecret of an account with a higher limit, or use a mirror",
  },
  {
    code: "IMAGE_ACCESS_DENIED",
    sources: PULL_SOURCES,
    reason: PULL,
    message:
      /pull access denied|insufficient_scope|authorization failed|unauthorized|authentication required|403 Forbidden|access forbidden/i,
    phase: "image",
    ...config(PULL_SEC),
    hint: "the registry refuses the pull: the repository does not exist or is private; check the name and imagePullSecret",
  },
  {
    code: "IMAGE_REGISTRY_UNREACHABLE",
    sources: PULL_SOURCES,
    reason: PULL,
    message:
      /no such host|connection refused|connection reset|i\/o timeout|network is unreachable|TLS handshake|context deadline exceeded|\b50[0234]\b|unexpected EOF/i,
    phase: "image",
    ...infra(PULL_SEC),
    hint: "the node cannot reach the image's registry; check the registry's name and the nodes' network",
  },
  {
    code: "IMAGE_NODE_DISK_FULL",
    sources: PULL_SOURCES,
    reason: PULL,
    message: /no space left on device/i,
    phase: "image",
    ...infra(PULL_SEC),
    hint: "the node's disk is full and holds no further image; free space or lower its image garbage collection threshold",
  },
  {
    code: "IMAGE_WRONG_PLATFORM",
    sources: PULL_SOURCES,
    message: /no match for platform|no matching manifest/i,
    phase: "image",
    ...config(PULL_SEC),
    hint: "the image has no variant for the node's platform; build one, or select other nodes by nodeSelector",
  },
  {
    code: "IMAGE_NOT_FOUND",
    sources: PULL_SOURCES,
    reason: PULL,
    message: /manifest unknown|name unknown|not found|does not exist|404 Not Found/i,
    phase: "image",
    ...config(PULL_SEC),
    hint: "the registry has no such image; correct 'image' or its tag",
  },
  {
    code: "IMAGE_UNAVAILABLE",
    sources: PULL_SOURCES,
    reason: PULL,
    phase: "image",
    ...infra(PULL_SEC),
    hint: "the image cannot be pulled; check its name, its registry and imagePullSecret",
  },
];

const START_ROWS: DiagnosisRow[] = [
  {
    code: "RUN_AS_NON_ROOT",
    sources: ["container.waiting"],
    reason: /^CreateContainerConfigError$/,
    message: /runAsNonRoot/,
    phase: "start",
    ...config(0),
    hint: "the cluster demands a user other than root and the image runs as root; use an image with a USER",
  },
  {
    code: "JOB_SECRET_MISSING",
    sources: ["container.waiting", "clone.waiting", "event"],
    reason: /^(CreateContainerConfigError|FailedMount)$/,
    message: /secret "[^"]*" not found/,
    phase: "start",
    ...infra(60),
    hint: "the Secret with the job's program is gone; somebody or something deletes Secrets of the namespace",
  },
  {
    code: "CONTAINER_CONFIG",
    sources: ["container.waiting", "sidecar.waiting", "clone.waiting"],
    reason: /^CreateContainerConfigError$/,
    phase: "start",
    ...config(60),
    hint: "the container cannot be configured as asked",
  },
  {
    code: "CONTAINER_CREATE_FAILED",
    sources: ["container.waiting", "sidecar.waiting", "clone.waiting"],
    reason: /^(CreateContainerError|RunContainerError|PostStartHookError)$/,
    phase: "start",
    ...infra(60),
    hint: "the node's container runtime does not create the container",
  },
  {
    code: "SIDECAR_CRASHED",
    sources: ["sidecar.waiting", "sidecar.terminated"],
    reason: /^(CrashLoopBackOff|Completed|Error|OOMKilled|StartError|ContainerCannotRun)$/,
    phase: "start",
    class: "harness",
    retryable: false,
    action: "fail",
    graceSec: 60,
    hint: "a sidecar ends again and again, so the job beside it cannot start; look at its image and env",
  },
  {
    code: "IMAGE_LACKS_SHELL",
    sources: ["container.terminated"],
    message: /exec: "\/bin\/sh".*(no such file|not found)/s,
    phase: "start",
    ...config(0),
    hint: "the image has no /bin/sh, which every job needs; use one with a shell",
  },
  {
    code: "IMAGE_WRONG_PLATFORM",
    sources: ["container.terminated", "clone.terminated"],
    message: /exec format error/,
    phase: "start",
    ...config(0),
    hint: "the image is for another processor than the node's; build one for it, or select nodes by nodeSelector",
  },
  {
    code: "START_FAILED",
    sources: ["container.terminated"],
    reason: /^(StartError|ContainerCannotRun)$/,
    phase: "start",
    ...infra(0),
    hint: "the node's container runtime could not start the container",
  },
  {
    code: "GIT_UNREACHABLE",
    sources: ["clone.terminated"],
    message: /could not resolve host|connection (refused|timed out|reset)|unable to access.*(timed out|5\d\d)/i,
    phase: "start",
    ...infra(0),
    hint: "the pod cannot reach the git server; check the source's url and the cluster's network",
  },
  {
    code: "GIT_CLONE_FAILED",
    sources: ["clone.terminated"],
    phase: "start",
    ...config(0),
    hint: "git could not fetch the source; check url, ref and authSecret of the case",
  },
];

const CREATE_ROWS: DiagnosisRow[] = [
  {
    code: "QUOTA_EXCEEDED",
    sources: ["event"],
    reason: /^FailedCreate$/,
    message: /exceeded quota/,
    phase: "schedule",
    ...waits,
    hint: "the namespace's quota is used up; it starts when other pods end, or raise the ResourceQuota or lower maxConcurrent",
  },
  {
    code: "QUOTA_UNDECLARED",
    sources: ["event"],
    reason: /^FailedCreate$/,
    message: /failed quota: .* must specify/,
    phase: "schedule",
    ...config(CREATE_SEC),
    hint: "the namespace's quota demands an amount that jobs do not declare; add it to the quota's LimitRange defaults",
  },
  {
    code: "LIMIT_RANGE",
    sources: ["event"],
    reason: /^FailedCreate$/,
    message: /(maximum|minimum) [a-z-]+ usage per (Container|Pod)|must be less than or equal to [a-z-]+ limit/,
    phase: "schedule",
    ...config(CREATE_SEC),
    hint: "the namespace's LimitRange does not allow these resources; change resources of the case, or the LimitRange",
  },
  {
    code: "POD_SECURITY",
    sources: ["event"],
    reason: /^FailedCreate$/,
    message: /violates PodSecurity/,
    phase: "schedule",
    ...config(CREATE_SEC),
    hint: "the namespace's PodSecurity level forbids the pod; run evals in a namespace of level 'baseline'",
  },
  {
    code: "SERVICE_ACCOUNT_MISSING",
    sources: ["event"],
    reason: /^FailedCreate$/,
    message: /serviceaccount "[^"]*" not found/,
    phase: "schedule",
    ...config(CREATE_SEC),
    hint: "the namespace has no such ServiceAccount; create it",
  },
  {
    code: "RUNTIME_CLASS_MISSING",
    sources: ["event"],
    reason: /^FailedCreate$/,
    message: /RuntimeClass "[^"]*" not found/,
    phase: "schedule",
    ...config(CREATE_SEC),
    hint: "the cluster has no such RuntimeClass; correct runtimeClass of the runtime",
  },
  {
    code: "ADMISSION_WEBHOOK_FAILED",
    sources: ["event", "api"],
    message: /failed calling webhook/,
    phase: "schedule",
    ...infra(CREATE_SEC),
    hint: "an admission webhook of the cluster does not answer; its operator must mend it",
  },
  {
    code: "ADMISSION_DENIED",
    sources: ["event", "api"],
    message: /denied request: |denied the request|no PriorityClass with name/,
    phase: "schedule",
    ...config(CREATE_SEC),
    hint: "a policy of the cluster forbids the job; change what it names, or the policy",
  },
  {
    code: "POD_REFUSED",
    sources: ["event"],
    reason: /^FailedCreate$/,
    phase: "schedule",
    ...config(CREATE_SEC),
    hint: "the cluster refuses to create the pod",
  },
  {
    code: "VOLUME_MISSING",
    sources: ["event"],
    reason: /^FailedMount$/,
    message: /(configmap|persistentvolumeclaim) "[^"]*" not found/,
    phase: "start",
    ...config(MOUNT_SEC),
    hint: "a volume that a policy of the cluster adds to pods does not exist",
  },
  {
    code: "MOUNT_FAILED",
    sources: ["event"],
    reason: /^(FailedMount|FailedAttachVolume)$/,
    phase: "start",
    ...infra(MOUNT_SEC),
    hint: "the node cannot mount the pod's volumes",
  },
  {
    code: "SANDBOX_FAILED",
    sources: ["event"],
    reason: /^FailedCreatePodSandBox$/,
    phase: "start",
    ...infra(MOUNT_SEC),
    hint: "the node cannot set the pod up, as a rule because of its network plugin or a full disk",
  },
];

const API_ROWS: DiagnosisRow[] = [
  {
    code: "NAMESPACE_TERMINATING",
    sources: ["api"],
    reason: /^NamespaceTerminating$/,
    phase: "schedule",
    ...config(0),
    hint: "the runtime's namespace is being deleted; create it again or name another",
  },
  {
    code: "NAMESPACE_MISSING",
    sources: ["api"],
    reason: /^NamespaceNotFound$/,
    phase: "schedule",
    ...config(0),
    hint: "the runtime's namespace does not exist; create it, or correct 'namespace'",
  },
  {
    code: "JOB_TOO_LARGE",
    sources: ["api"],
    reason: /^TooLarge$/,
    phase: "schedule",
    ...config(0),
    hint: "the job is larger than the cluster takes; put files into a git source",
  },
  {
    code: "NAME_CONFLICT",
    sources: ["api"],
    reason: /^NameConflict$/,
    phase: "schedule",
    ...config(0),
    hint: "a job of this name that is not ours is on the cluster; another deployment or a copied manifest uses our names",
  },
  {
    code: "JOB_REFUSED",
    sources: ["api"],
    phase: "schedule",
    ...config(0),
    hint: "the cluster refuses the job's document",
  },
];

const unschedulable = (code: string, message: RegExp | undefined, hint: string): DiagnosisRow => ({
  code,
  sources: ["pod.unschedulable"],
  ...(message === undefined ? {} : { message }),
  phase: "schedule",
  ...waits,
  hint,
});

const SCHEDULE_ROWS: DiagnosisRow[] = [
  unschedulable(
    "UNSCHEDULABLE_GPU",
    /Insufficient nvidia\.com\/gpu/,
    "no node has that many free GPUs; lower resources.gpu, or add a GPU node with the NVIDIA device plugin",
  ),
  unschedulable(
    "UNSCHEDULABLE_MEMORY",
    /Insufficient memory/,
    "no node has that much free memory; lower resources.memoryMb or memoryBudgetMb, or add nodes",
  ),
  unschedulable(
    "UNSCHEDULABLE_CPU",
    /Insufficient cpu/,
    "no node has that much free cpu; lower resources.cpu or cpuBudget, or add nodes",
  ),
  unschedulable(
    "UNSCHEDULABLE_DISK",
    /Insufficient ephemeral-storage/,
    "no node has enough free disk; free some, or add nodes",
  ),
  unschedulable("UNSCHEDULABLE_PODS", /Too many pods/, "every node holds as many pods as it may; add nodes"),
  unschedulable(
    "UNSCHEDULABLE_SELECTOR",
    /didn't match Pod's node affinity\/selector.*untolerated taint|untolerated taint.*didn't match Pod's node affinity\/selector/,
    "some nodes lack the labels asked for, the others have a taint; correct nodeSelector of the runtime, or add the taint to its 'tolerations'",
  ),
  unschedulable(
    "UNSCHEDULABLE_SELECTOR",
    /didn't match Pod's node affinity\/selector|didn't satisfy .*(affinity|topology)/,
    "no node carries the labels asked for; correct nodeSelector of the runtime, or label a node",
  ),
  unschedulable(
    "UNSCHEDULABLE_VOLUME",
    /persistentvolumeclaim|volume node affinity/,
    "a volume of the pod is not to be had",
  ),
  unschedulable("UNSCHEDULABLE_CORDONED", /were unschedulable/, "the nodes that fit are cordoned; uncordon one"),
  unschedulable(
    "UNSCHEDULABLE_TAINT",
    /untolerated taint/,
    "every node that fits has a taint; add it to 'tolerations' of the runtime, or remove it",
  ),
  unschedulable("UNSCHEDULABLE", undefined, "the scheduler finds no node for the pod"),
];

const evicted = (match: Pick<DiagnosisRow, "sources" | "reason" | "message">, hint: string): DiagnosisRow => ({
  code: "EVICTED",
  ...match,
  phase: "run",
  ...infra(0),
  hint,
});

const RUN_ROWS: DiagnosisRow[] = [
  evicted(
    { sources: ["pod.reason", "pod.disruption"], message: /ephemeral[- ]storage|DiskPressure|inodes/i },
    "the node ran out of disk and evicted the pod; let the job write less, or give the nodes more disk",
  ),
  evicted(
    { sources: ["pod.reason", "pod.disruption"], reason: /^Evicted$/, message: /memory|MemoryPressure/i },
    "the node ran out of memory and evicted the pod; declare resources.memoryMb on all jobs of the node",
  ),
  {
    code: "PREEMPTED",
    sources: ["pod.reason", "pod.disruption"],
    reason: /^(PreemptionByScheduler|Preempting)$/,
    phase: "run",
    ...infra(0),
    hint: "a pod of higher priority took its place; give evals a node pool of their own",
  },
  {
    code: "NODE_LOST",
    sources: ["pod.reason", "pod.disruption", "container.terminated"],
    reason:
      /^(NodeLost|NodeShutdown|Shutdown|Terminated|TerminationByKubelet|DeletionByTaintManager|DeletionByPodGC|ContainerStatusUnknown)$/,
    phase: "run",
    ...infra(0),
    hint: "its node went away or shut down; a container there may still have run on, but its result can never count",
  },
  evicted(
    { sources: ["pod.disruption", "pod.reason"], reason: /^(EvictionByEvictionAPI|Evicted)$/ },
    "somebody evicted the pod, as a drain of its node does",
  ),
  {
    code: "DEADLINE_EXCEEDED",
    sources: ["pod.reason"],
    reason: /^DeadlineExceeded$/,
    phase: "run",
    class: "infra",
    retryable: false,
    action: "fail",
    graceSec: 0,
    hint: "the pod was ended past its own time limit, pull and clone included; look for a slow pull, or raise timeoutSec",
  },
  {
    code: "NODE_REFUSED",
    sources: ["pod.reason"],
    reason: /^(UnexpectedAdmissionError|OutOf[a-z-]+|NodeAffinity|NodePorts|PodOSNotSupported|TaintToleration)$/,
    phase: "start",
    ...infra(0),
    hint: "the node refused the pod after it was placed there",
  },
  {
    code: "OOM_KILLED",
    sources: ["container.terminated"],
    reason: /^OOMKilled$/,
    phase: "run",
    ...config(0),
    hint: "memory ran out; raise resources.memoryMb of the case or the harness",
  },
  {
    code: "PROGRAM_FAILED",
    sources: ["container.terminated"],
    message: /^exit code 97\b.*everdict: /s,
    phase: "start",
    ...config(0),
    hint: "the program could not work in this image",
  },
  evicted(
    { sources: ["pod.deleted"] },
    "its pod or Job was deleted by somebody else; keep cleaners away from the namespace",
  ),
  {
    code: "NO_OUTCOME",
    sources: ["container.terminated", "pod.reason"],
    phase: "collect",
    ...infra(0),
    hint: "it ended without reporting an outcome: something outside ended it, or its output was lost",
  },
];

/** All rows; the first that matches counts, so the particular stand before the general. */
export const K8S_DIAGNOSIS: readonly DiagnosisRow[] = [
  ...IMAGE_ROWS,
  ...START_ROWS,
  ...CREATE_ROWS,
  ...API_ROWS,
  ...SCHEDULE_ROWS,
  ...RUN_ROWS,
];
