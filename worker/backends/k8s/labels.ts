import { attemptName } from "../../../contracts/names.ts";
import type { AttemptRef } from "../../../contracts/runner-protocol.ts";
import type { BackendOwner } from "../backend.ts";

/** Keys of the labels that every object of ours carries. */
export const LABEL = {
  deployment: "everdict.dev/deployment",
  object: "everdict.dev/object",
  run: "everdict.dev/run",
  epoch: "everdict.dev/epoch",
  network: "everdict.dev/network",
} as const;

/** Set by the Job controller on pods; the only sure way from a Job to its pods. */
export const CONTROLLER_UID = "batch.kubernetes.io/controller-uid";

/** Set by the Job controller on pods: the Job they belong to. Only for showing; two lives of a name share it. */
export const JOB_NAME = "batch.kubernetes.io/job-name";

/** Name of the container that runs the program. */
export const MAIN = "main";
/** Name of the container that clones a git source. */
export const CLONE = "everdict-clone";

/** Labels of an attempt's objects. */
export function labelsOf(owner: BackendOwner, ref: AttemptRef): Record<string, string> {
  return {
    [LABEL.deployment]: owner.deployment,
    [LABEL.object]: owner.object,
    [LABEL.run]: ref.runId,
    [LABEL.epoch]: String(ref.epoch),
  };
}

/** Selects everything of one object of one deployment. */
export const selectorOf = (owner: BackendOwner): string =>
  `${LABEL.deployment}=${owner.deployment},${LABEL.object}=${owner.object}`;

/** The attempt behind labels, or null when they are not this owner's. */
export function refOfLabels(labels: Readonly<Record<string, string>>, owner: BackendOwner): AttemptRef | null {
  if (labels[LABEL.deployment] !== owner.deployment || labels[LABEL.object] !== owner.object) return null;
  const runId = labels[LABEL.run] ?? "";
  const epoch = Number(labels[LABEL.epoch]);
  return runId !== "" && Number.isInteger(epoch) && epoch > 0 ? { runId, epoch } : null;
}

/** The unit's name behind an attempt. */
export const nameOf = (owner: BackendOwner, ref: AttemptRef): string => attemptName(owner.object, ref.runId, ref.epoch);
