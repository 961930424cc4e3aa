import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as z from "zod";
import { diagnose, isOver } from "../../worker/backends/diagnosis.ts";
import { K8S_DIAGNOSIS } from "../../worker/backends/diagnosis-k8s.ts";
import { KubeEvent, KubeJob, Pod, timeOf } from "../../worker/backends/k8s/api-types.ts";
import { type Folded, foldUnit } from "../../worker/backends/k8s/fold.ts";
import { attemptOf, randomOwner, watched } from "./attempts.ts";

const Recorded = z.array(
  z.object({ recording: z.string(), job: KubeJob, pods: z.array(Pod), events: z.array(KubeEvent) }),
);
const RECORDED = Recorded.parse(
  JSON.parse(readFileSync(new URL("recordings/k8s-units.json", import.meta.url).pathname, "utf8")),
);
const unit = watched(attemptOf(randomOwner()));

function recorded(name: string) {
  const found = RECORDED.find(({ recording, job }) => recording === name || job.metadata.name === name);
  if (!found) throw new Error(`no recording ${name}`);
  return found;
}

/** A recorded unit, looked at `afterSec` after its creation. */
function fold(name: string, afterSec: number, placementTimeoutSec = 0): Folded {
  const { job, pods, events } = recorded(name);
  const nowMs = (timeOf(job.metadata.creationTimestamp) ?? 0) + afterSec * 1_000;
  return foldUnit(unit, { job, pods, events }, { nowMs, placementTimeoutSec });
}

const codeOf = (folded: Folded): string =>
  folded.kind === "failed" ? folded.failure.code : folded.kind === "ended" ? folded.end.otherwise.code : folded.kind;

test.each([
  ["04-02-exit-3", "NO_OUTCOME", "infra", /exit code 3/, "K 23"],
  ["04-05-oom", "OOM_KILLED", "config", /resources\.memoryMb/, "K 30"],
  ["04-06-oom-child", "OOM_KILLED", "config", /exit code 9/, "K 30"],
  ["04-09-pod-deadline", "DEADLINE_EXCEEDED", "infra", /Pod was active on the node longer/, "K 29"],
  ["04-07-deadline-running", "EVICTED", "infra", /deleted by somebody else/, "K 31"],
  ["04-11-bad-image-name", "IMAGE_NAME_INVALID", "config", /invalid reference format/, "K 33"],
  ["04-12-image-absent-registry-unreachable", "IMAGE_REGISTRY_UNREACHABLE", "infra", /no such host/, "K 33, 34"],
  ["04-13-image-absent-loopback-refused", "IMAGE_REGISTRY_UNREACHABLE", "infra", /connection refused/, "K 33"],
  ["04-14-image-never", "IMAGE_NEVER_PULL", "config", /pull policy of Never/, "K 33"],
  ["04-20-command-not-found", "START_FAILED", "infra", /no such file or directory/, "K 32"],
  ["04-21-run-as-non-root-refused", "RUN_AS_NON_ROOT", "config", /image will run as root/, "K 33"],
  ["04-22-missing-volume-configmap", "VOLUME_MISSING", "config", /configmap "absent" not found/, "K 37, 38"],
  ["04-26-termination-message", "NO_OUTCOME", "infra", /last words/, "K 41"],
  ["q2", "QUOTA_UNDECLARED", "config", /must specify limits\.cpu/, "K 63"],
  ["l2", "LIMIT_RANGE", "config", /maximum cpu usage per Container/, "K 65"],
  ["l3", "LIMIT_RANGE", "config", /must be less than or equal to cpu limit/, "K 65"],
  ["bad", "POD_SECURITY", "config", /violates PodSecurity "restricted:latest"/, "K 66"],
  ["v5", "ADMISSION_DENIED", "config", /no pods here/, "K 68"],
  ["nosa", "SERVICE_ACCOUNT_MISSING", "config", /serviceaccount "absent" not found/, "K 38"],
  ["noprio", "ADMISSION_DENIED", "config", /no PriorityClass/, "K 38"],
  ["nort", "RUNTIME_CLASS_MISSING", "config", /RuntimeClass "absent" not found/, "K 38"],
  ["11a-evicted", "EVICTED", "infra", /deleted by somebody else/, "K 82"],
])("recorded unit %s ends as %s, class %s, in the cluster's words %s (%s)", (name, code, cause, words) => {
  const folded = fold(name, 600);
  expect(codeOf(folded)).toBe(code);
  const failure = folded.kind === "failed" ? folded.failure : folded.kind === "ended" ? folded.end.otherwise : null;
  expect(failure).toMatchObject({ class: cause, retryable: cause === "infra" && code !== "DEADLINE_EXCEEDED" });
  expect(failure?.message).toMatch(words);
});

test.each([
  ["04-15-unschedulable-cpu", "UNSCHEDULABLE_CPU", /Insufficient cpu/, "K 35"],
  ["04-16-unschedulable-node-selector", "UNSCHEDULABLE_SELECTOR", /nodeSelector of the runtime/, "K 35"],
  ["04-17-unschedulable-taint", "UNSCHEDULABLE_SELECTOR", /tolerations/, "K 35"],
  ["04-19-gpu-too-many", "UNSCHEDULABLE_GPU", /Insufficient nvidia\.com\/gpu/, "K 35"],
  ["nopvc", "UNSCHEDULABLE_VOLUME", /persistentvolumeclaim "absent" not found/, "K 35"],
])("recorded unit %s waits, and is %s once placementTimeoutSec is over, in words %s (%s)", (name, code, words) => {
  const waiting = fold(name, 100_000);
  expect(waiting).toMatchObject({ kind: "alive", state: "pending", detail: expect.stringMatching(words) });
  expect(codeOf(fold(name, 600, 300))).toBe(code);
  expect(codeOf(fold(name, 200, 300))).toBe("alive");
});

test("a pull error is shown at once and fails after a minute, whichever of its two reasons stands (K 34)", () => {
  const { events } = recorded("04-12-image-absent-registry-unreachable");
  expect(events.some(({ reason }) => reason === "Failed")).toBe(true);
  const early = fold("04-12-image-absent-registry-unreachable", 30);
  expect(early).toMatchObject({ kind: "alive", detail: expect.stringContaining("cannot reach the image's registry") });
});

test("a pod placed on a node without a kubelet is only 'placed' (K 36), a suspended Job says so", () => {
  expect(fold("04-18-gpu-fits-but-no-kubelet", 60)).toMatchObject({
    kind: "alive",
    state: "pending",
    detail: expect.stringContaining("fake-gpu"),
  });
  expect(fold("04-24-suspended", 60)).toMatchObject({ kind: "alive", detail: expect.stringContaining("suspended") });
});

test("a sidecar that ends is shown, and ends the attempt when it has done so for a minute", () => {
  const { job, pods, events } = recorded("04-22-missing-volume-configmap");
  const [pod] = pods;
  if (!pod) throw new Error("no pod");
  const startMs = timeOf(pod.metadata.creationTimestamp) ?? 0;
  const terminated = { exitCode: 0, reason: "Completed" };
  const broken = {
    ...pod,
    status: { ...pod.status, initContainerStatuses: [{ name: "db", state: { terminated } }] },
  };
  const backOff = events.map((event) => ({
    ...event,
    reason: "BackOff",
    message: "Back-off restarting failed container db",
  }));
  const at = (sec: number) =>
    foldUnit(unit, { job, pods: [broken], events: backOff }, { nowMs: startMs + sec * 1_000, placementTimeoutSec: 0 });
  expect(backOff.length).toBeGreaterThan(0);
  expect(at(10)).toMatchObject({ kind: "alive", detail: expect.stringContaining("sidecar db: exit code 0") });
  expect(at(300)).toMatchObject({
    kind: "failed",
    failure: { code: "SIDECAR_CRASHED", class: "harness", retryable: false },
  });
});

test("FailureTarget is not the end (K 25, 28): only Failed and Complete are", () => {
  const { job } = recorded("04-07-deadline-running");
  const status = {
    ...job.status,
    conditions: (job.status.conditions ?? []).filter(({ type }) => type === "FailureTarget"),
  };
  expect(status.conditions).toHaveLength(1);
  const folded = foldUnit(
    unit,
    { job: { ...job, status }, pods: [], events: [] },
    { nowMs: Date.now(), placementTimeoutSec: 0 },
  );
  expect(folded.kind).toBe("alive");
});

test("a node that does not report is shown, and loses the unit only past the attempt's deadline (K 84, 85)", () => {
  const { job, pods } = recorded("q3");
  const startMs = timeOf(pods[0]?.status.startTime) ?? 0;
  const away = pods.map((pod) => ({
    ...pod,
    spec: { ...pod.spec, activeDeadlineSeconds: 1_261 },
    status: {
      ...pod.status,
      conditions: [
        { type: "ContainersReady", status: "True" },
        { type: "Ready", status: "False" },
      ],
    },
  }));
  // timeoutSec 60, graceSec 1: the Scheduler stops it after 421 s, a minute later it is given up.
  const at = (sec: number, stopping: boolean) =>
    foldUnit(
      { ...unit, stopping },
      { job, pods: away, events: null },
      { nowMs: startMs + sec * 1_000, placementTimeoutSec: 0 },
    );
  expect(at(480, false)).toMatchObject({
    kind: "alive",
    state: "running",
    detail: expect.stringContaining("does not report"),
  });
  expect(codeOf(at(482, false))).toBe("NODE_LOST");
  expect(codeOf(at(480, true))).toBe("alive");
  expect(codeOf(at(482, true))).toBe("NODE_LOST");
});

test("a Job that is gone while its pod runs on is not stopped (K 43, 88)", () => {
  const { pods } = recorded("q3");
  const look = (left: Pod[]) =>
    foldUnit(
      { ...unit, stopping: true },
      { job: null, pods: left, events: null },
      { nowMs: Date.now(), placementTimeoutSec: 0 },
    );
  expect(look(pods)).toMatchObject({ kind: "alive", state: "running" });
  expect(look([])).toEqual({ kind: "stopped" });
});

const sign = (source: string, reason: string, message = "") => ({ source, reason, message, forSec: 1_000 });
const PULL = 'failed to pull and unpack image "docker.io/acme/agent:1": ';

/** Words of clusters and registries that no recording holds. */
test.each([
  [
    "IMAGE_ACCESS_DENIED",
    sign(
      "container.waiting",
      "ErrImagePull",
      `${PULL}failed to resolve reference "docker.io/acme/agent:1": pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`,
    ),
  ],
  [
    "IMAGE_ACCESS_DENIED",
    sign(
      "container.waiting",
      "ImagePullBackOff",
      "failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://ghcr.io/token: 403 Forbidden",
    ),
  ],
  [
    "IMAGE_NOT_FOUND",
    sign(
      "container.waiting",
      "ErrImagePull",
      `rpc error: code = NotFound desc = ${PULL}failed to resolve reference "docker.io/acme/agent:1": docker.io/acme/agent:1: not found`,
    ),
  ],
  ["IMAGE_NOT_FOUND", sign("clone.waiting", "ErrImagePull", "manifest unknown: manifest unknown")],
  [
    "IMAGE_RATE_LIMITED",
    sign(
      "container.waiting",
      "ErrImagePull",
      "429 Too Many Requests - Server message: toomanyrequests: You have reached your unauthenticated pull rate limit.",
    ),
  ],
  [
    "IMAGE_NODE_DISK_FULL",
    sign("container.waiting", "ErrImagePull", "write /var/lib/containerd/x: no space left on device"),
  ],
  [
    "IMAGE_WRONG_PLATFORM",
    sign("container.waiting", "ErrImagePull", `${PULL}no match for platform in manifest: not found`),
  ],
  ["IMAGE_UNAVAILABLE", sign("sidecar.waiting", "ImagePullBackOff", "Back-off pulling image")],
  ["JOB_SECRET_MISSING", sign("container.waiting", "CreateContainerConfigError", 'secret "evd-x-1" not found')],
  [
    "JOB_SECRET_MISSING",
    sign("event", "FailedMount", 'MountVolume.SetUp failed for volume "program" : secret "evd-x-1" not found'),
  ],
  ["CONTAINER_CONFIG", sign("container.waiting", "CreateContainerConfigError", "couldn't find key x in Secret")],
  ["CONTAINER_CREATE_FAILED", sign("container.waiting", "CreateContainerError", "context deadline exceeded")],
  ["SIDECAR_CRASHED", sign("sidecar.waiting", "CrashLoopBackOff", "back-off 40s restarting failed container=db")],
  [
    "IMAGE_LACKS_SHELL",
    sign(
      "container.terminated",
      "StartError",
      'exit code 128: unable to start container process: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown',
    ),
  ],
  ["IMAGE_WRONG_PLATFORM", sign("container.terminated", "Error", "exit code 255: exec /bin/sh: exec format error")],
  [
    "GIT_UNREACHABLE",
    sign(
      "clone.terminated",
      "Error",
      "exit code 1: fatal: unable to access 'https://git.example.com/': Could not resolve host: git.example.com",
    ),
  ],
  ["GIT_CLONE_FAILED", sign("clone.terminated", "Error", "exit code 1: fatal: couldn't find remote ref nope")],
  [
    "QUOTA_EXCEEDED",
    sign(
      "event",
      "FailedCreate",
      'Error creating: pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
    ),
  ],
  [
    "ADMISSION_WEBHOOK_FAILED",
    sign(
      "event",
      "FailedCreate",
      'Internal error occurred: failed calling webhook "v.kyverno.svc": context deadline exceeded',
    ),
  ],
  [
    "ADMISSION_DENIED",
    sign(
      "api",
      "Invalid",
      'admission webhook "validate.kyverno.svc-fail" denied the request: resource Job was blocked',
    ),
  ],
  ["POD_REFUSED", sign("event", "FailedCreate", "Error creating: something new")],
  [
    "MOUNT_FAILED",
    sign("event", "FailedMount", "Unable to attach or mount volumes: timed out waiting for the condition"),
  ],
  [
    "SANDBOX_FAILED",
    sign("event", "FailedCreatePodSandBox", 'failed to setup network for sandbox: plugin type="calico" failed'),
  ],
  [
    "NAMESPACE_TERMINATING",
    sign(
      "api",
      "NamespaceTerminating",
      "unable to create new content in namespace term because it is being terminated",
    ),
  ],
  ["NAMESPACE_MISSING", sign("api", "NamespaceNotFound", 'namespaces "absent" not found')],
  ["JOB_TOO_LARGE", sign("api", "TooLarge", "")],
  ["NAME_CONFLICT", sign("api", "NameConflict", "")],
  ["JOB_REFUSED", sign("api", "Invalid", 'Job.batch "x" is invalid: spec.template.spec.restartPolicy: Required value')],
  ["UNSCHEDULABLE_MEMORY", sign("pod.unschedulable", "", "0/3 nodes are available: 3 Insufficient memory.")],
  ["UNSCHEDULABLE_DISK", sign("pod.unschedulable", "", "0/3 nodes are available: 3 Insufficient ephemeral-storage.")],
  ["UNSCHEDULABLE_PODS", sign("pod.unschedulable", "", "0/1 nodes are available: 1 Too many pods.")],
  [
    "UNSCHEDULABLE_CORDONED",
    sign(
      "pod.unschedulable",
      "",
      "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s).",
    ),
  ],
  [
    "UNSCHEDULABLE_TAINT",
    sign("pod.unschedulable", "", "0/3 nodes are available: 3 node(s) had untolerated taint(s)."),
  ],
  ["UNSCHEDULABLE", sign("pod.unschedulable", "", "no nodes available to schedule pods")],
  [
    "EVICTED",
    sign(
      "pod.reason",
      "Evicted",
      "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 800Mi.",
    ),
  ],
  [
    "EVICTED",
    sign(
      "pod.reason",
      "Evicted",
      "The node was low on resource: memory. Container main was using 900Mi, request is 0.",
    ),
  ],
  ["EVICTED", sign("pod.disruption", "EvictionByEvictionAPI", "Eviction API: evicting")],
  ["EVICTED", sign("pod.deleted", "", "exit code 143")],
  [
    "PREEMPTED",
    sign(
      "pod.disruption",
      "PreemptionByScheduler",
      "default-scheduler: preempting to accommodate a higher priority pod",
    ),
  ],
  ["NODE_LOST", sign("pod.disruption", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")],
  [
    "NODE_LOST",
    sign(
      "container.terminated",
      "ContainerStatusUnknown",
      "exit code 137: The container could not be located when the pod was terminated",
    ),
  ],
  [
    "NODE_REFUSED",
    sign(
      "pod.reason",
      "UnexpectedAdmissionError",
      "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu",
    ),
  ],
  ["NODE_REFUSED", sign("pod.reason", "OutOfcpu", "Node didn't have enough resource: cpu")],
  [
    "PROGRAM_FAILED",
    sign(
      "container.terminated",
      "Error",
      "exit code 97: everdict: the image lacks base64: use an image with these tools",
    ),
  ],
])("%s is told by %j", (code, seen) => {
  const diagnosis = diagnose(K8S_DIAGNOSIS, seen, "run");
  expect(diagnosis.row.code).toBe(code);
  expect(diagnosis.row.hint.length).toBeGreaterThan(20);
  expect(isOver(diagnosis)).toBe(diagnosis.row.action === "fail");
});

test("every row of the table is reached by a test of its own", () => {
  const source = readFileSync(new URL(import.meta.url).pathname, "utf8");
  const missing = [...new Set(K8S_DIAGNOSIS.map(({ code }) => code))].filter((code) => !source.includes(`"${code}"`));
  expect(missing).toEqual([]);
});

test("a reason that no row knows is shown verbatim, class infra, and ends the attempt only after minutes", () => {
  const seen = { ...sign("container.waiting", "QuantumFluctuation", "try again"), forSec: 10 };
  const diagnosis = diagnose(K8S_DIAGNOSIS, seen, "start");
  expect(diagnosis).toMatchObject({ unknown: true, row: { class: "infra" } });
  expect(isOver(diagnosis)).toBe(false);
  expect(isOver({ ...diagnosis, sign: { ...seen, forSec: 400 } })).toBe(true);
});
