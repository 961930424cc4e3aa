import { ACCEPT_MS, type AttemptRef } from "../../contracts/runner-protocol.ts";
import { nameOf } from "./endings.ts";
import type { Effect } from "./events.ts";
import { CALL_MS } from "./limits.ts";
import { type Entry, type Instance, type State, touch } from "./state.ts";

/** Turns an entry into a granted attempt with the next epoch. */
export function beginAttempt(
  state: State,
  entry: Entry,
  instance: Instance | null,
  quotaHeld: boolean,
  now: number,
  out: Effect[],
): AttemptRef {
  entry.epoch += 1;
  entry.hold = null;
  entry.attempt = {
    epoch: entry.epoch,
    holder: instance ? `runner:${instance.runnerId}` : `${state.object.split(":", 1)[0]}:${runtimeOf(state, entry)}`,
    runnerId: instance?.runnerId ?? null,
    instanceId: instance?.instanceId ?? null,
    state: "granted",
    grantedAt: now,
    acceptedAt: null,
    startedAt: null,
    until: instance ? now + ACCEPT_MS : 0,
    lateExtensions: 0,
    phase: "granted",
    commandedAt: 0,
    stopCause: null,
    stopReason: null,
    quotaHeld,
    nonce: "",
    unit: null,
  };
  if (!instance)
    entry.attempt.unit = {
      name: nameOf(state, entry),
      startAt: null,
      startTries: 1,
      busyUntil: now + CALL_MS,
      createdAt: null,
      seenAt: null,
      absentAt: null,
      node: null,
      ranOn: null,
      // Bound now: every later word about this unit goes where it was started, whatever is registered meanwhile.
      version: state.object.startsWith("cluster:")
        ? (entry.demand.pinnedVersion ?? state.envelope?.version ?? null)
        : null,
      detail: null,
      stopAt: null,
      stopTries: 0,
    };
  state.live.set(entry.runId, entry);
  touch(state, entry);
  out.push({ kind: "grant", runId: entry.runId, epoch: entry.epoch });
  return { runId: entry.runId, epoch: entry.epoch };
}

/** Runtime id of an entry's target. A local object serves every local runtime of its workspace, a cluster object one. */
export function runtimeOf(state: State, entry: Entry): string {
  return state.object.startsWith("local:") ? baseOf(entry.demand.target) : lastPart(state.object);
}

/** Last part of `cluster:<owner>:<id>` or `local:<workspace>`. */
export const lastPart = (object: string): string => object.slice(object.lastIndexOf(":") + 1);

/** A target without its pinned version. */
const baseOf = (target: string): string => target.split("@", 1)[0] ?? target;
