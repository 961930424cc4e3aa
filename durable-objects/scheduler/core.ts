import { pump } from "./admission.ts";
import { beginAttempt } from "./begin-attempt.ts";
import { declared, envelopeRoom } from "./capacity.ts";
import { noteRelayBack } from "./circuit.ts";
import { compensateLateness, nextWakeAt, passTime, watchFleet } from "./clock.ts";
import { dropHold, requeue, uncharge } from "./endings.ts";
import type { Effect, Event } from "./events.ts";
import { noteEvicting } from "./eviction.ts";
import { observed, startAnswers } from "./evidence.ts";
import { cancel, enqueue, heldEntries, pairRunner, promote, revokeRunner, setEnvelope, setLimits } from "./intake.ts";
import { heartbeat, loseAttempts, pendingCommands, poll, reject, results, withhold } from "./leases.ts";
import { DENIED_MS } from "./limits.ts";
import { tenantOf } from "./queue.ts";
import type { Entry, State } from "./state.ts";

/**
 * The Scheduler's decisions: takes one event, changes the state, and says what is to be done in the world.
 * No clock, no randomness, no I/O: the same history gives the same decisions. Events of one turn are applied one by
 * one and followed by one `pump`, which admits.
 * @param now epoch milliseconds; never goes back for one state
 * @returns effects in the order in which they are to be carried out
 */
export function apply(state: State, event: Event, now: number): Effect[] {
  const out: Effect[] = [];
  const due = state.armedWakeAt !== null && now >= state.armedWakeAt;
  compensateLateness(state, now);
  if (due || event.type === "tick") passTime(state, now, out);
  if (event.type !== "pump" && event.type !== "tick" && event.type !== "heartbeat") state.futileLooks = 0;
  take(state, event, now, out);
  return out;
}

function take(state: State, event: Event, now: number, out: Effect[]): void {
  switch (event.type) {
    case "enqueue":
      enqueue(state, event, now, out);
      return;
    case "cancel":
      cancel(state, event.runIds, event.reason, now, out);
      return;
    case "promote":
      out.push({ kind: "promoted", done: promote(state, event.runId) });
      return;
    case "poll":
      poll(state, event, now, out);
      return;
    case "unpark":
      unpark(state, event.pollId);
      return;
    case "heartbeat":
      heartbeat(state, event, now, out);
      return;
    case "results":
      results(state, event, now, out);
      return;
    case "withhold":
      withhold(state, event.items, now, out);
      return;
    case "reject":
      reject(state, event.items, now, out);
      return;
    case "startAnswers":
      startAnswers(state, event.answers, now, out);
      return;
    case "observed":
      observed(state, event.observation, now, out);
      return;
    case "quota":
      takeQuota(state, event, now, out);
      return;
    case "nudge":
      for (const tenant of state.tenants.values()) tenant.deniedUntil = 0;
      return;
    case "relayBack":
      noteRelayBack(state, now);
      return;
    case "evicting":
      noteEvicting(state, event.units, event.by, now);
      return;
    case "envelope":
      setEnvelope(state, event.envelope, now, out);
      return;
    case "limits":
      setLimits(state, event.workspace, event.limits);
      return;
    case "pair":
      pairRunner(state, event.runner);
      return;
    case "revoke":
      out.push({
        kind: "revoked",
        held: loseAttempts(state, event.runnerId, now, out),
        done: revokeRunner(state, event.runnerId, now, out),
      });
      return;
    case "tick":
      return;
    case "pump":
      pumpAndAnswer(state, now, out);
      return;
  }
}

function unpark(state: State, pollId: number): void {
  for (const instance of state.instances.values()) {
    if (instance.poll !== pollId) continue;
    instance.poll = null;
    return;
  }
}

function pumpAndAnswer(state: State, now: number, out: Effect[]): void {
  watchFleet(state, now, out);
  const granted = pump(state, now, out);
  const commands = state.kind === "runner" ? pendingCommands(state, now) : new Map<string, never>();
  for (const instance of [...granted.keys(), ...[...commands.keys()].map((key) => state.instances.get(key))]) {
    if (!instance || instance.poll === null) continue;
    const grants = granted.get(instance) ?? [];
    out.push({ kind: "answerPoll", pollId: instance.poll, grants, commands: commands.get(instance.key) ?? [] });
    instance.poll = null;
    instance.seenAt = now;
  }
}

function takeQuota(state: State, event: Extract<Event, { type: "quota" }>, now: number, out: Effect[]): void {
  const starts = [];
  const polls = new Map<number, { runId: string; epoch: number }[]>();
  for (const entry of heldEntries(state, event.granted)) {
    const key = entry.hold?.instance ?? null;
    const instance = key === null ? null : state.instances.get(key);
    const pollGone = state.kind === "runner" && (!instance || instance.poll === null);
    if (pollGone || overcommitted(state, entry)) {
      dropHold(state, entry, out);
      uncharge(state, entry);
      requeue(state, entry, 0, "", now, out);
      continue;
    }
    const ref = beginAttempt(state, entry, instance ?? null, true, now, out);
    if (!instance || instance.poll === null) starts.push(ref);
    else polls.set(instance.poll, [...(polls.get(instance.poll) ?? []), ref]);
  }
  for (const [pollId, grants] of polls) {
    unpark(state, pollId);
    out.push({ kind: "answerPoll", pollId, grants, commands: [] });
  }
  if (starts.length > 0) out.push({ kind: "start", refs: starts });
  const tenant = tenantOf(state, event.workspace);
  const denied = heldEntries(state, event.denied);
  if (denied.length > 0) tenant.deniedUntil = now + DENIED_MS;
  for (const entry of denied) {
    dropHold(state, entry, out);
    uncharge(state, entry);
    requeue(state, entry, 0, "", now, out);
  }
}

/** Whether the envelope shrank below what is in use while the quota object was asked. */
function overcommitted(state: State, entry: Entry): boolean {
  if (state.kind === "runner") return false;
  const room = envelopeRoom(state);
  const ask = declared(entry.demand);
  if (room.slots < 0) return true;
  return (ask.memoryMb > 0 && (room.memoryMb ?? 0) < 0) || (ask.cpu > 0 && (room.cpu ?? 0) < 0);
}

/**
 * When the alarm should be armed for, in epoch ms: never "now", which a platform may drop; null when nothing is due.
 */
export function wakeAt(state: State, now: number): number | null {
  const next = nextWakeAt(state, now);
  if (next === null) return null;
  return Math.max(next, now + 10);
}
