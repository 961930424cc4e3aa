import type { Failure } from "../../../contracts/run.ts";
import { type Diagnosis, diagnose, failureOf, type Sign } from "../diagnosis.ts";
import { NOMAD_DIAGNOSIS } from "../diagnosis-nomad.ts";
import { CLONE_TASK, MAIN_TASK } from "./document.ts";
import type { Allocation, TaskEvent } from "./shapes.ts";

/*
 * What an allocation says of its job. Job.Status is 'dead' for success, failure and stop alike (N 13), and a stopped,
 * drained or once lost allocation says 'complete' (N 10–12), so both statuses and the events are read together.
 */

const ENDED = new Set(["complete", "failed", "lost"]);

/** Whether nothing more will happen to it by Nomad's own word. */
export const isEnded = (clientStatus: string): boolean => ENDED.has(clientStatus);

/** Whether its container is surely gone: a lost one may still be running. */
export const isGone = (clientStatus: string): boolean => clientStatus === "complete" || clientStatus === "failed";

const eventsOf = (alloc: Allocation, task: string): TaskEvent[] => alloc.TaskStates[task]?.Events ?? [];

/** The infrastructure's own words about an allocation: what tells most, then its state, then all in order. */
export function wordsOfAllocation(alloc: Allocation): string[] {
  const words = Object.keys(alloc.TaskStates)
    .sort()
    .flatMap((task) =>
      eventsOf(alloc, task).map((event) => `${task === MAIN_TASK ? "" : `${task}: `}${wordsOfEvent(event)}`),
    );
  const status = `allocation ${alloc.ID.slice(0, 8)}: ${alloc.ClientStatus}, desired ${alloc.DesiredStatus}`;
  const state = `${status}${alloc.DesiredDescription === "" ? "" : ` (${alloc.DesiredDescription})`}`;
  const telling = tellingEvent(alloc);
  return [...(telling === null ? [] : [wordsOfEvent(telling)]), state, ...words].slice(0, 50);
}

const wordsOfEvent = (event: TaskEvent): string => `${event.Type}: ${event.DisplayMessage.trim()}`.slice(0, 1_900);

/** Memory ran out in the task or in one of its children, which looks the same (N 31). */
export const ranOutOfMemory = (alloc: Allocation): boolean =>
  eventsOf(alloc, MAIN_TASK).some((event) => event.Type === "Terminated" && event.Details.oom_killed === "true");

export const hasStarted = (alloc: Allocation): boolean =>
  eventsOf(alloc, MAIN_TASK).some((event) => event.Type === "Started");

/** When its task started, or it was made; epoch ms. */
export function startedMs(alloc: Allocation): number {
  const started = eventsOf(alloc, MAIN_TASK).find((event) => event.Type === "Started");
  return (started?.Time ?? alloc.CreateTime) / 1e6;
}

/** Whether the prestart task that fetches the git source ended badly. */
export const cloneFailed = (alloc: Allocation): boolean => alloc.TaskStates[CLONE_TASK]?.Failed === true;

const secondsSince = (ns: number, nowMs: number): number => Math.max(0, Math.round(nowMs / 1_000 - ns / 1e9));

const signOf = (event: TaskEvent, nowMs: number): Sign => ({
  source: "task.event",
  reason: event.Type,
  message: event.DisplayMessage,
  forSec: secondsSince(event.Time, nowMs),
});

const TELLING = /^(Driver Failure|Failed Validation|Setup Failure|Template|Terminated)$/;
const isTelling = (event: TaskEvent): boolean =>
  TELLING.test(event.Type) || (event.Type === "Killing" && /Template failed/i.test(event.DisplayMessage));

/** The last event of any task that says why it is not running; null when none does. */
export function tellingEvent(alloc: Allocation): TaskEvent | null {
  const events = Object.keys(alloc.TaskStates).flatMap((task) => eventsOf(alloc, task));
  return (
    events
      .filter(isTelling)
      .sort((a, b) => a.Time - b.Time)
      .at(-1) ?? null
  );
}

/**
 * Why a task that has not started does not start; null when it is only on its way.
 * @param nowMs the cluster's clock
 */
export function pendingDiagnosis(alloc: Allocation, nowMs: number): Diagnosis | null {
  const event = tellingEvent(alloc);
  return event === null ? null : diagnose(NOMAD_DIAGNOSIS, signOf(event, nowMs), "start");
}

/** One line for people about an allocation that runs or is on its way. */
export function detailOf(alloc: Allocation): string | null {
  if (alloc.ClientStatus === "unknown")
    return `node ${alloc.NodeName} does not answer; the job may be running there and is waited for`;
  const last = Object.keys(alloc.TaskStates)
    .flatMap((task) => eventsOf(alloc, task))
    .sort((a, b) => a.Time - b.Time)
    .at(-1);
  if (last === undefined || alloc.ClientStatus !== "pending") return null;
  return `${last.Type}: ${last.DisplayMessage.trim().replace(/\s+/g, " ")}`.slice(0, 1_000);
}

/** Why an ended allocation has no Outcome. Precedence: who ended it, then what the task's last words were. */
export function failureOfAllocation(alloc: Allocation, unit: string, nowMs: number): Failure {
  const placement = { unit, node: alloc.NodeName === "" ? null : alloc.NodeName, events: wordsOfAllocation(alloc) };
  if (!isGone(alloc.ClientStatus) || alloc.DesiredStatus !== "run") {
    const sign = {
      source: "alloc",
      reason: `${alloc.ClientStatus}/${alloc.DesiredStatus}`,
      message: alloc.DesiredDescription,
      forSec: 0,
    };
    return failureOf(diagnose(NOMAD_DIAGNOSIS, sign, "run"), placement);
  }
  const event = tellingEvent(alloc);
  const sign =
    event === null
      ? { source: "alloc", reason: alloc.ClientStatus, message: alloc.ClientDescription, forSec: 0 }
      : signOf(event, nowMs);
  return failureOf(diagnose(NOMAD_DIAGNOSIS, sign, "run"), placement);
}

/** A failure from words that are not an event's. */
export function failureOfWords(
  source: "client" | "register" | "evaluation",
  message: string,
  placement: { unit: string; node: string | null; events: readonly string[] },
): Failure {
  const sign = { source, reason: "", message, forSec: 0 };
  return failureOf(diagnose(NOMAD_DIAGNOSIS, sign, source === "client" ? "collect" : "schedule"), placement);
}
