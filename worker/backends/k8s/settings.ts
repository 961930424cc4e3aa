import { DEFAULT_CPU_MILLICORES, DEFAULT_MEMORY_MB } from "../../../contracts/requirements.ts";
import type { RuntimeSpec } from "../../../contracts/runtime-spec.ts";

export type K8sSpec = Extract<RuntimeSpec, { kind: "k8s" }>;

/** Namespace of a runtime that names none. */
export const DEFAULT_NAMESPACE = "default";

/** Beyond timeoutSec and graceSec: grading and delivering. */
const DELIVERY_SEC = 300;
/** A pod's deadline runs from before its pull, so pull and clone count there. */
const PULL_SEC = 900;
/** The Scheduler stops an attempt this long after timeoutSec and graceSec. */
const STOP_SLACK_SEC = 360;
/** Waited after that for a node that does not report, before the attempt is given up. */
const LOST_NODE_SEC = 60;
/** The program needs a moment after its agent's grace, before KILL. */
const PROGRAM_GRACE_SEC = 5;
/** Finished Jobs are deleted after they were collected; this bounds what a dead control plane leaves behind. */
export const TTL_SEC = 86_400;

interface Limits {
  timeoutSec: number;
  graceSec: number;
}

/** Seconds a pod may be on its node. */
export const podDeadlineSec = ({ timeoutSec, graceSec }: Limits): number =>
  timeoutSec + graceSec + DELIVERY_SEC + PULL_SEC;

/** Seconds of a pod's life after which an unreachable node loses it, from the pod's own deadline. */
export const lostAfterSec = (podDeadline: number): number =>
  podDeadline - DELIVERY_SEC - PULL_SEC + STOP_SLACK_SEC + LOST_NODE_SEC;

/** Seconds between TERM and KILL of a pod. */
export const terminationSec = ({ graceSec }: Limits): number => graceSec + PROGRAM_GRACE_SEC;

interface Ask {
  cpu?: number | null | undefined;
  memoryMb?: number | null | undefined;
  gpu?: number | null | undefined;
}

/** requests = limits, in the cluster's units: what was asked is what is placed. */
export function resourcesOf(ask: Ask) {
  const amounts: Record<string, string> = {
    cpu: `${ask.cpu ?? DEFAULT_CPU_MILLICORES}m`,
    memory: `${ask.memoryMb ?? DEFAULT_MEMORY_MB}Mi`,
  };
  if (ask.gpu) amounts["nvidia.com/gpu"] = String(ask.gpu);
  return { requests: amounts, limits: amounts };
}
