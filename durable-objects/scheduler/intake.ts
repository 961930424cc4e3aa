import type { CancelAnswer, EnqueueAnswer, Envelope, RunnerRecord, TenantLimits } from "../../contracts/rpc.ts";
import { neverFits, osMatches } from "./capacity.ts";
import { cancelRun, failRun, jobKey, loneClock, remember } from "./endings.ts";
import type { Effect, Event, NewEntry } from "./events.ts";
import { freshEntry } from "./fresh-entry.ts";
import { MAX_ENTRIES, MAX_JOB_BYTES, MAX_TENANT_JOB_BYTES } from "./limits.ts";
import { allBuckets, demandOf, insertWaiting, removeWaiting, tenantOf } from "./queue.ts";
import { type Entry, isWaiting, type Runner, type State, type Tenant, touch } from "./state.ts";

/** Accepts entries, idempotent by run id; full queues are refused with a time to come back. */
export function enqueue(state: State, event: Extract<Event, { type: "enqueue" }>, now: number, out: Effect[]): void {
  if (event.envelope) setEnvelope(state, event.envelope, now, out);
  const answers: EnqueueAnswer[] = [];
  for (const entry of event.entries) {
    setLimits(state, entry.workspace, event.limits);
    answers.push(enqueueOne(state, entry, now, out));
  }
  out.push({ kind: "enqueued", answers });
}

function enqueueOne(state: State, item: NewEntry, now: number, out: Effect[]): EnqueueAnswer {
  const { runId } = item;
  if (state.entries.has(runId) || state.terminals.has(runId)) return { runId, ok: true };
  const tenant = tenantOf(state, item.workspace);
  const key = jobKey(item.workspace, item.jobHash);
  const full = fullness(state, tenant, state.jobs.has(key) ? 0 : item.jobBytes);
  if (full) return { runId, ok: false, code: "QUEUE_FULL", detail: full, retryAfterSec: 30 };
  const demand = demandOf(state, item);
  const entry = freshEntry({ runId, seq: ++state.seq, demand, jobHash: item.jobHash, enqueuedAt: now });
  entry.loneBase = loneClock(entry, now);
  admitToQueue(state, entry, tenant, item.jobBytes);
  insertWaiting(state, entry);
  touch(state, entry);
  const impossible = impossibleReason(state, entry);
  if (impossible) failRun(state, entry, { stage: "dispatch", ...impossible, retryable: false }, now, out);
  return { runId, ok: true };
}

/** Counts an entry in: object, tenant, demand, stored job. Also used when rows are loaded. */
export function admitToQueue(state: State, entry: Entry, tenant: Tenant, jobBytes: number): void {
  state.entries.set(entry.runId, entry);
  tenant.entries += 1;
  entry.demand.refs += 1;
  const key = jobKey(entry.demand.workspace, entry.jobHash);
  const job = state.jobs.get(key);
  if (job) {
    job.refs += 1;
    return;
  }
  state.jobs.set(key, { bytes: jobBytes, refs: 1 });
  state.dirty.jobsGone.delete(key);
  tenant.jobBytes += jobBytes;
  state.jobBytes += jobBytes;
}

function fullness(state: State, tenant: Tenant, bytes: number): string | null {
  if (state.entries.size >= MAX_ENTRIES) return `the queue holds ${MAX_ENTRIES} runs; try again when some have ended`;
  const { queueDepth } = tenant.limits;
  if (tenant.entries >= queueDepth)
    return `workspace '${tenant.workspace}' has ${queueDepth} runs here, its queueDepth; try again when some have ended`;
  if (tenant.jobBytes + bytes > MAX_TENANT_JOB_BYTES)
    return `the stored jobs of workspace '${tenant.workspace}' would exceed ${MAX_TENANT_JOB_BYTES} bytes`;
  if (state.jobBytes + bytes > MAX_JOB_BYTES) return `the stored jobs would exceed ${MAX_JOB_BYTES} bytes`;
  return null;
}

/** Why an entry can never run here, or null. */
function impossibleReason(state: State, entry: Entry) {
  const { demand } = entry;
  const tooBig = neverFits(state, demand);
  if (tooBig) return { class: "config" as const, code: "NEVER_FITS", message: `the run can never fit: it ${tooBig}` };
  if (demand.runnerId === null) return null;
  const runner = state.runners.get(demand.runnerId);
  if (!runner)
    return { class: "infra" as const, code: "NO_RUNNER", message: `runner '${demand.runnerId}' is not paired` };
  if (!runner.facts || osMatches(demand, runner.facts.os)) return null;
  const message = `runner '${runner.id}' runs ${runner.facts.os}, the run needs os-${demand.os}`;
  return { class: "infra" as const, code: "NO_RUNNER", message };
}

/** Ends waiting entries bound to a runner whose operating system, now known, can never match. */
export function failMismatched(state: State, runner: Runner, now: number, out: Effect[]): void {
  const doomed: Entry[] = [];
  for (const bucket of allBuckets(state)) {
    if (bucket.demand.runnerId !== runner.id || !runner.facts) continue;
    if (!osMatches(bucket.demand, runner.facts.os)) doomed.push(...bucket.entries);
  }
  for (const entry of doomed) {
    const impossible = impossibleReason(state, entry);
    if (impossible) failRun(state, entry, { stage: "dispatch", ...impossible, retryable: false }, now, out);
  }
}

/** Takes a new envelope over; waiting entries that can no longer ever fit fail. */
export function setEnvelope(state: State, envelope: Envelope, now: number, out: Effect[]): void {
  const before = state.envelope;
  state.envelope = envelope;
  if (!before) return;
  const same = before.memoryBudgetMb === envelope.memoryBudgetMb && before.cpuBudget === envelope.cpuBudget;
  if (same) return;
  const doomed: Entry[] = [];
  for (const bucket of allBuckets(state)) if (neverFits(state, bucket.demand)) doomed.push(...bucket.entries);
  for (const entry of state.delayed) if (neverFits(state, entry.demand)) doomed.push(entry);
  for (const entry of doomed) {
    const impossible = impossibleReason(state, entry);
    if (impossible) failRun(state, entry, { stage: "dispatch", ...impossible, retryable: false }, now, out);
  }
}

export function setLimits(state: State, workspace: string, limits: TenantLimits): void {
  const tenant = tenantOf(state, workspace);
  const { weight, maxInFlight, queueDepth } = tenant.limits;
  if (weight === limits.weight && maxInFlight === limits.maxInFlight && queueDepth === limits.queueDepth) return;
  tenant.limits = { ...limits, weight: limits.weight > 0 ? limits.weight : 1 };
  tenant.deniedUntil = 0;
  state.dirty.tenants.add(tenant);
}

/** Cancels runs in whatever state they are; an unknown run leaves a tombstone and will never start. */
export function cancel(state: State, runIds: string[], reason: string, now: number, out: Effect[]): void {
  const answers = runIds.map((runId) => ({ runId, state: cancelOne(state, runId, reason, now, out) }));
  out.push({ kind: "cancelled", answers });
}

function cancelOne(state: State, runId: string, reason: string, now: number, out: Effect[]): CancelAnswer["state"] {
  const entry = state.entries.get(runId);
  if (!entry) {
    const terminal = state.terminals.get(runId);
    if (terminal) return terminal.status === "tombstone" ? "tombstoned" : "terminal";
    const nowhere = { target: "", workspace: "", pinnedVersion: null };
    remember(state, { runId, status: "tombstone", epoch: 0, holder: null, endedAt: now, ...nowhere });
    return "tombstoned";
  }
  const { attempt } = entry;
  if (!attempt) {
    cancelRun(state, entry, reason, now, out);
    return "cancelled";
  }
  if (attempt.stopCause !== "cancel") {
    attempt.state = "stopping";
    attempt.stopCause = "cancel";
    attempt.stopReason = reason;
    attempt.commandedAt = 0;
    if (attempt.unit) {
      attempt.unit.stopAt = now;
      attempt.unit.startAt = null;
    }
    touch(state, entry);
  }
  return "stopping";
}

/** Puts an entry to the head of its own workspace's entries. @returns false when it is not waiting here */
export function promote(state: State, runId: string): boolean {
  const entry = state.entries.get(runId);
  if (!entry || !isWaiting(entry)) return false;
  removeWaiting(state, entry);
  entry.promoted = true;
  state.promotions += 1;
  entry.order = -state.promotions;
  insertWaiting(state, entry);
  touch(state, entry);
  return true;
}

/** The quota object's answer to entries on hold. */
export function heldEntries(state: State, refs: { runId: string; epoch: number }[]): Entry[] {
  const entries: Entry[] = [];
  for (const ref of refs) {
    const entry = state.entries.get(ref.runId);
    if (entry?.hold && entry.epoch + 1 === ref.epoch) entries.push(entry);
  }
  return entries;
}

/** Pairs a runner, idempotent by id; a new token replaces the old one. */
export function pairRunner(state: State, record: RunnerRecord): void {
  const known = state.runners.get(record.id);
  if (known) state.byToken.delete(known.tokenHash);
  const runner: Runner = known ?? { id: record.id, label: "", tokenHash: "", seenAt: null, facts: null };
  runner.label = record.label;
  runner.tokenHash = record.tokenHash;
  state.runners.set(runner.id, runner);
  state.byToken.set(runner.tokenHash, runner);
  state.dirty.runners.set(runner.id, runner);
  state.dirty.runnersGone.delete(runner.id);
}

/** Revokes a runner: its polls are refused, its leases end at its next message or by themselves. */
export function revokeRunner(state: State, runnerId: string, now: number, out: Effect[]): boolean {
  const runner = state.runners.get(runnerId);
  if (!runner) return false;
  state.runners.delete(runnerId);
  state.byToken.delete(runner.tokenHash);
  state.dirty.runners.delete(runnerId);
  state.dirty.runnersGone.add(runnerId);
  for (const instance of state.instances.values()) {
    if (instance.runnerId !== runnerId) continue;
    if (instance.poll !== null) out.push({ kind: "refusePoll", pollId: instance.poll });
    state.instances.delete(instance.key);
  }
  const doomed: Entry[] = [];
  for (const bucket of allBuckets(state)) if (bucket.demand.runnerId === runnerId) doomed.push(...bucket.entries);
  for (const entry of state.delayed) if (entry.demand.runnerId === runnerId) doomed.push(entry);
  for (const entry of doomed) {
    const impossible = impossibleReason(state, entry);
    if (impossible) failRun(state, entry, { stage: "dispatch", ...impossible, retryable: false }, now, out);
  }
  state.fleetChanged = true;
  return true;
}
