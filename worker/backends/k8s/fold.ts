import type { Outcome } from "../../../contracts/job.ts";
import { outcomeOfText } from "../../../contracts/outcome.ts";
import type { Failure } from "../../../contracts/run.ts";
import type { WatchedUnit } from "../backend.ts";
import { type Diagnosis, diagnose, failureOf, isOver, type Phase, type Sign, wordsOf } from "../diagnosis.ts";
import { K8S_DIAGNOSIS } from "../diagnosis-k8s.ts";
import {
  type ContainerStatus,
  conditionOf,
  type KubeEvent,
  type KubeJob,
  type Pod,
  type Terminated,
  timeOf,
  trueCondition,
} from "./api-types.ts";
import { CLONE, CONTROLLER_UID, MAIN } from "./labels.ts";
import { lostAfterSec } from "./settings.ts";

/* From the objects of one unit to what became of it. Pure: the cluster's clock comes in, signs and words go out. */

/** The objects of one unit in one pair of listings. */
export interface UnitObjects {
  job: KubeJob | null;
  /** By label of (object, run, epoch). */
  pods: readonly Pod[];
  /** Warnings about its Job and pods; null when none were read yet. */
  events: readonly KubeEvent[] | null;
}

export type Folded =
  | { kind: "alive"; state: "pending" | "running"; node: string | null; detail: string | null; wantsEvents: boolean }
  | { kind: "stopped" }
  /** Neither Job nor pod in the listing: only a read by name says whether it is absent. */
  | { kind: "missing" }
  | { kind: "failed"; failure: Failure; node: string | null }
  /** Its main container has ended. */
  | { kind: "ended"; end: EndedPod };

export interface EndedPod {
  pod: string;
  node: string | null;
  /** From the termination message. */
  compact: Outcome | null;
  oomKilled: boolean;
  /** Epoch ms. */
  finishedAt: number | null;
  /** What it is when there is no Outcome anywhere. */
  otherwise: Failure;
}

export interface FoldOptions {
  /** The cluster's clock, epoch ms. */
  nowMs: number;
  /** Seconds an unplaced pod may wait; 0 waits for ever. */
  placementTimeoutSec: number;
}

/** No pod by then deserves a look at events: the controller makes one within 0.3 s. */
const NO_POD_SEC = 5;
/** A container that is not created by then deserves a look at events. */
const CREATING_SEC = 20;

/** What became of a unit, by one look at its objects. */
export function foldUnit(unit: WatchedUnit, objects: UnitObjects, options: FoldOptions): Folded {
  const { job, pods } = objects;
  const pod = podOf(job, pods);
  if (unit.stopping) return foldStopping(unit, job, pods, options);
  if (pod === null) return job === null ? { kind: "missing" } : foldWithoutPod(unit, job, objects, options);
  const main = pod.status.containerStatuses?.find(({ name }) => name === MAIN);
  if (main?.state.terminated) return foldTerminated(unit, job, pod, main.state.terminated);
  if (pod.status.phase === "Failed") return foldFailedPod(unit, pod);
  if (main?.state.running) return foldRunning(unit, job, pod, options);
  return foldPending(unit, pod, main, objects, options);
}

/** Two lives of one name share every label but the controller's uid; the newest counts once the Job is gone. */
function podOf(job: KubeJob | null, pods: readonly Pod[]): Pod | null {
  const own = job === null ? pods : pods.filter((pod) => pod.metadata.labels[CONTROLLER_UID] === job.metadata.uid);
  return (
    [...own].sort(
      (a, b) => (timeOf(b.metadata.creationTimestamp) ?? 0) - (timeOf(a.metadata.creationTimestamp) ?? 0),
    )[0] ?? null
  );
}

const nodeOf = (pod: Pod | null): string | null => pod?.spec.nodeName ?? null;

const alive = (
  state: "pending" | "running",
  node: string | null,
  detail: string | null,
  wantsEvents = false,
): Folded => ({ kind: "alive", state, node, detail: detail === null ? null : detail.slice(0, 1_000), wantsEvents });

const ageSec = (from: string | null | undefined, nowMs: number): number =>
  Math.max(0, (nowMs - (timeOf(from) ?? nowMs)) / 1_000);

/** The failure of a diagnosis, with the unit's place and the cluster's words. */
function failed(unit: WatchedUnit, pod: Pod | null, diagnosis: Diagnosis): Failure {
  return failureOf(diagnosis, {
    unit: unit.name,
    node: nodeOf(pod),
    events: [wordsOf(diagnosis.sign)].filter(Boolean),
  });
}

/** Ends the attempt when the sign has stood long enough, shows it until then. */
function judgeSign(unit: WatchedUnit, pod: Pod | null, sign: Sign, phase: Phase, options: FoldOptions): Folded {
  const diagnosis = diagnose(K8S_DIAGNOSIS, sign, phase);
  const limit = options.placementTimeoutSec;
  const unplaced = diagnosis.row.action === "wait" && limit > 0 && sign.forSec >= limit;
  if (isOver(diagnosis) || unplaced)
    return { kind: "failed", failure: failed(unit, pod, diagnosis), node: nodeOf(pod) };
  return alive("pending", nodeOf(pod), `${diagnosis.row.hint} (${wordsOf(sign)})`);
}

/**
 * Stopped is more than a Job that is gone: its pod may run on. On a node that does not report nothing ends until it is
 * back, so past the attempt's deadline such a unit is given up.
 */
function foldStopping(unit: WatchedUnit, job: KubeJob | null, pods: readonly Pod[], options: FoldOptions): Folded {
  if (job === null && pods.length === 0) return { kind: "stopped" };
  const lost = pods.find((pod) => isUnreachable(pod) && isPastDeadline(pod, options.nowMs));
  if (lost) return { kind: "failed", failure: nodeLost(unit, lost), node: nodeOf(lost) };
  const pod = podOf(job, pods);
  return alive("running", nodeOf(pod), pod !== null && isUnreachable(pod) ? unreachableWords(pod) : "is being stopped");
}

/** The node controller sets Ready to False and leaves ContainersReady: the kubelet no longer reports. */
function isUnreachable(pod: Pod): boolean {
  const { conditions } = pod.status;
  const reported = trueCondition(conditions, "ContainersReady") !== null;
  return pod.status.phase === "Running" && reported && conditionOf(conditions, "Ready")?.status === "False";
}

const unreachableWords = (pod: Pod): string =>
  `node ${nodeOf(pod) ?? "of the pod"} does not report; nothing on it ends until it is back`;

function isPastDeadline(pod: Pod, nowMs: number): boolean {
  const limit = pod.spec.activeDeadlineSeconds;
  const started = timeOf(pod.status.startTime);
  return limit != null && started !== null && nowMs - started >= lostAfterSec(limit) * 1_000;
}

function nodeLost(unit: WatchedUnit, pod: Pod): Failure {
  const sign = { source: "pod.disruption", reason: "NodeLost", message: unreachableWords(pod), forSec: 0 };
  return failed(unit, pod, diagnose(K8S_DIAGNOSIS, sign, "run"));
}

function foldRunning(unit: WatchedUnit, job: KubeJob | null, pod: Pod, options: FoldOptions): Folded {
  if (isUnreachable(pod)) {
    if (isPastDeadline(pod, options.nowMs)) return { kind: "failed", failure: nodeLost(unit, pod), node: nodeOf(pod) };
    return alive("running", nodeOf(pod), unreachableWords(pod));
  }
  const deleted = job === null || pod.metadata.deletionTimestamp != null;
  return alive("running", nodeOf(pod), deleted ? "its pod or Job was deleted by somebody else and is ending" : null);
}

/** A Job that has ended without a pod lost it to somebody else; FailureTarget alone is not the end. */
function foldWithoutPod(unit: WatchedUnit, job: KubeJob, objects: UnitObjects, options: FoldOptions): Folded {
  const over = trueCondition(job.status.conditions, "Failed") ?? trueCondition(job.status.conditions, "Complete");
  if (over !== null) {
    const sign = { source: "pod.deleted", reason: over.reason ?? "", message: over.message ?? "", forSec: 0 };
    const failure = failed(unit, null, diagnose(K8S_DIAGNOSIS, sign, "run"));
    return { kind: "failed", failure, node: null };
  }
  if (job.spec.suspend === true) return alive("pending", null, "the Job is suspended by the cluster, as a queue does");
  const sign = eventSign(objects.events, [job.metadata.uid], /^FailedCreate$/, options.nowMs);
  if (sign !== null) return judgeSign(unit, null, sign, "schedule", options);
  const quiet = ageSec(job.metadata.creationTimestamp, options.nowMs) < NO_POD_SEC;
  return alive("pending", null, quiet ? null : "no pod was created yet", !quiet && objects.events === null);
}

/** The newest warning of this kind, as old as the first one. */
function eventSign(
  events: readonly KubeEvent[] | null,
  uids: readonly string[],
  reason: RegExp,
  nowMs: number,
): Sign | null {
  const of = (event: KubeEvent): number =>
    timeOf(event.lastTimestamp) ?? timeOf(event.eventTime) ?? timeOf(event.metadata.creationTimestamp) ?? 0;
  const first = (event: KubeEvent): number => timeOf(event.firstTimestamp) ?? of(event);
  const own = (events ?? []).filter(
    (event) => uids.includes(event.involvedObject.uid ?? "") && reason.test(event.reason ?? ""),
  );
  const newest = own.reduce<KubeEvent | null>(
    (best, event) => (best === null || of(event) >= of(best) ? event : best),
    null,
  );
  if (newest === null) return null;
  const since = Math.min(...own.map(first));
  const forSec = Math.max(0, (nowMs - since) / 1_000);
  return { source: "event", reason: newest.reason ?? "", message: newest.message ?? "", forSec };
}

function foldPending(
  unit: WatchedUnit,
  pod: Pod,
  main: ContainerStatus | undefined,
  objects: UnitObjects,
  options: FoldOptions,
): Folded {
  const { conditions } = pod.status;
  const scheduled = conditionOf(conditions, "PodScheduled");
  if (scheduled?.status === "False") {
    const forSec = ageSec(pod.metadata.creationTimestamp, options.nowMs);
    const sign = {
      source: "pod.unschedulable",
      reason: "",
      message: scheduled.message ?? scheduled.reason ?? "",
      forSec,
    };
    return judgeSign(unit, pod, sign, "schedule", options);
  }
  const since = scheduled?.lastTransitionTime ?? pod.metadata.creationTimestamp;
  const init = foldInit(unit, pod, objects, options);
  if (init !== null) return init;
  const waiting = main?.state.waiting;
  const reason = waiting?.reason ?? "";
  if (waiting && reason !== "" && !/^(ContainerCreating|PodInitializing)$/.test(reason))
    return judgeWaiting(unit, pod, "container.waiting", reason, waiting.message ?? "", objects, options);
  const slow = scheduled?.status === "True" && ageSec(since, options.nowMs) >= CREATING_SEC;
  const sign = eventSign(
    objects.events,
    [pod.metadata.uid],
    /^(FailedMount|FailedAttachVolume|FailedCreatePodSandBox)$/,
    options.nowMs,
  );
  if (slow && sign !== null && conditionOf(conditions, "PodReadyToStartContainers")?.status !== "True")
    return judgeSign(unit, pod, sign, "start", options);
  const node = nodeOf(pod);
  const words = node === null ? "waits for the scheduler" : `is placed on ${node}; its image may still be pulled`;
  return alive("pending", node, words, slow && objects.events === null);
}

/** Clone and sidecars hold the main container back. */
function foldInit(unit: WatchedUnit, pod: Pod, objects: UnitObjects, options: FoldOptions): Folded | null {
  for (const { name, state } of pod.status.initContainerStatuses ?? []) {
    const kind = name === CLONE ? "clone" : "sidecar";
    const { terminated, waiting } = state;
    if (kind === "clone" && terminated && terminated.exitCode !== 0) {
      const sign = terminatedSign("clone.terminated", terminated);
      return { kind: "failed", failure: failed(unit, pod, diagnose(K8S_DIAGNOSIS, sign, "start")), node: nodeOf(pod) };
    }
    // A sidecar that ends is started again and again; between two tries its state stays "terminated".
    if (kind === "sidecar" && terminated) {
      const words = `sidecar ${name}: ${terminatedSign("", terminated).message}`;
      return judgeWaiting(unit, pod, "sidecar.terminated", terminated.reason ?? "", words, objects, options);
    }
    const reason = waiting?.reason ?? "";
    if (waiting && reason !== "" && !/^(ContainerCreating|PodInitializing)$/.test(reason)) {
      const words = `${kind === "clone" ? "gitImage" : `sidecar ${name}`}: ${waiting.message ?? ""}`;
      return judgeWaiting(unit, pod, `${kind}.waiting`, reason, words, objects, options);
    }
  }
  return null;
}

/**
 * A container that cannot start. How long it has been so is told by the first event about it: a long pull before the
 * first error does not count.
 */
function judgeWaiting(
  unit: WatchedUnit,
  pod: Pod,
  source: string,
  reason: string,
  message: string,
  objects: UnitObjects,
  options: FoldOptions,
): Folded {
  const seen = eventSign(
    objects.events,
    [pod.metadata.uid],
    /^(Failed|InspectFailed|ErrImageNeverPull|BackOff)$/,
    options.nowMs,
  );
  const scheduledAt = conditionOf(pod.status.conditions, "PodScheduled")?.lastTransitionTime;
  const age = ageSec(scheduledAt ?? pod.metadata.creationTimestamp, options.nowMs);
  // Without a look at events the sign is taken as fresh: the next fold knows better.
  const forSec = objects.events === null ? 0 : Math.min(age, seen?.forSec ?? age);
  const folded = judgeSign(unit, pod, { source, reason, message, forSec }, "start", options);
  return folded.kind === "alive" ? { ...folded, wantsEvents: objects.events === null } : folded;
}

/** Failed as a whole before its main container could end: evicted, refused by its node, or past its deadline. */
function foldFailedPod(unit: WatchedUnit, pod: Pod): Folded {
  const disruption = trueCondition(pod.status.conditions, "DisruptionTarget");
  const broken = brokenClone(pod);
  const sign =
    broken ??
    (pod.status.reason
      ? { source: "pod.reason", reason: pod.status.reason, message: pod.status.message ?? "", forSec: 0 }
      : disruption
        ? { source: "pod.disruption", reason: disruption.reason ?? "", message: disruption.message ?? "", forSec: 0 }
        : { source: "pod.reason", reason: "", message: pod.status.message ?? "the pod failed", forSec: 0 });
  return { kind: "failed", failure: failed(unit, pod, diagnose(K8S_DIAGNOSIS, sign, "run")), node: nodeOf(pod) };
}

function brokenClone(pod: Pod): Sign | null {
  const clone = pod.status.initContainerStatuses?.find(({ name }) => name === CLONE)?.state.terminated;
  return clone && clone.exitCode !== 0 && !pod.status.reason ? terminatedSign("clone.terminated", clone) : null;
}

const terminatedSign = (source: string, { exitCode, reason, message }: Terminated): Sign => ({
  source,
  reason: reason ?? "",
  message: `exit code ${exitCode}${message ? `: ${message}` : ""}`,
  forSec: 0,
});

/** The main container's end is the result; phase and Job say so 1 to 2 s later. */
function foldTerminated(unit: WatchedUnit, job: KubeJob | null, pod: Pod, terminated: Terminated): Folded {
  const compact = outcomeOfText(terminated.message ?? "", unit.nonce);
  const sign = endSign(job, pod, terminated);
  return {
    kind: "ended",
    end: {
      pod: pod.metadata.name,
      node: nodeOf(pod),
      compact,
      oomKilled: terminated.reason === "OOMKilled",
      finishedAt: timeOf(terminated.finishedAt),
      otherwise: failed(unit, pod, diagnose(K8S_DIAGNOSIS, sign, "collect")),
    },
  };
}

/** Why there may be no Outcome: memory first, then whoever ended the pod, then the container's own words. */
function endSign(job: KubeJob | null, pod: Pod, terminated: Terminated): Sign {
  const own = terminatedSign("container.terminated", terminated);
  if (terminated.reason === "OOMKilled") return own;
  const disruption = trueCondition(pod.status.conditions, "DisruptionTarget");
  const { reason, message } = pod.status;
  if (reason) return { source: "pod.reason", reason, message: message ?? "", forSec: 0 };
  if (disruption)
    return { source: "pod.disruption", reason: disruption.reason ?? "", message: disruption.message ?? "", forSec: 0 };
  if (job === null || pod.metadata.deletionTimestamp != null)
    return { source: "pod.deleted", reason: "", message: own.message, forSec: 0 };
  return own;
}
