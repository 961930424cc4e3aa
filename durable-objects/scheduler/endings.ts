import { attemptName } from "../../contracts/names.ts";
import type { Settlement, Verdict } from "../../contracts/rpc.ts";
import type { Attempt, Failure, Provenance } from "../../contracts/run.ts";
import { capacityOf, costOf, instanceKey } from "./capacity.ts";
import type { Effect } from "./events.ts";
import { iso } from "./iso.ts";
import { backoffMs, MAX_HISTORY, MAX_TERMINALS, START_WINDOW_MS, SWEEP_MS, TERMINAL_MS } from "./limits.ts";
import { insertWaiting, refund, removeWaiting, tenantOf } from "./queue.ts";
import { type Entry, isWaiting, type LiveAttempt, type State, type Terminal, touch } from "./state.ts";

/** A failure of class infra that may be tried again. */
export const infraFailure = (stage: Failure["stage"], code: string, message: string, retryable = true): Failure => ({
  stage,
  class: "infra",
  code,
  message,
  retryable,
});

/** External name of the attempt in hand. */
export const nameOf = (state: State, entry: Entry): string =>
  attemptName(state.objectHash, entry.runId, entry.attempt?.epoch ?? entry.epoch);

/**
 * Ends the attempt in hand: its row leaves usage and its evidence goes into the history.
 * @param ended the state it is remembered with
 */
export function closeAttempt(
  state: State,
  entry: Entry,
  ended: Attempt["state"],
  reason: string | null,
  now: number,
  out: Effect[],
): void {
  const { attempt } = entry;
  if (!attempt) return;
  entry.history = [...entry.history, record(state, entry, attempt, ended, reason, now)].slice(-MAX_HISTORY);
  entry.attempt = null;
  state.live.delete(entry.runId);
  if (attempt.unit && attempt.unit.createdAt === null)
    state.observing.sweepUntil = Math.max(state.observing.sweepUntil, now + START_WINDOW_MS + SWEEP_MS);
  endProbe(state, entry);
  if (attempt.quotaHeld) releaseQuota(entry, attempt.epoch, out);
  if (attempt.startedAt !== null) observeDuration(state, entry, now - attempt.startedAt);
  touch(state, entry);
}

/** The attempt as the API shows it. */
export function record(
  state: State,
  entry: Entry,
  attempt: LiveAttempt,
  shown: Attempt["state"],
  reason: string | null,
  endedAt: number | null,
): Attempt {
  return {
    epoch: attempt.epoch,
    externalId: nameOf(state, entry),
    holder: attempt.holder,
    state: shown,
    grantedAt: iso(attempt.grantedAt),
    startedAt: attempt.startedAt === null ? null : iso(attempt.startedAt),
    endedAt: endedAt === null ? null : iso(endedAt),
    reason: reason === null ? null : reason.slice(0, 1_000),
  };
}

export function releaseQuota(entry: Entry, epoch: number, out: Effect[]): void {
  out.push({ kind: "releaseQuota", workspace: entry.demand.workspace, refs: [{ runId: entry.runId, epoch }] });
}

/** Exponentially weighted means that estimates of waiting times are made from. */
function observeDuration(state: State, entry: Entry, ms: number): void {
  const tenant = tenantOf(state, entry.demand.workspace);
  tenant.meanMs = tenant.meanMs === 0 ? ms : tenant.meanMs * 0.8 + ms * 0.2;
  state.meanMs = state.meanMs === 0 ? ms : state.meanMs * 0.8 + ms * 0.2;
  state.dirty.tenants.add(tenant);
}

/** Puts an entry whose attempt came to nothing back to its old place. @param delayMs 0 is at once */
export function requeue(state: State, entry: Entry, delayMs: number, detail: string, now: number, out: Effect[]): void {
  entry.backoff = delayMs > 0 ? { until: now + delayMs, detail } : null;
  entry.loneBase = loneClock(entry, now);
  insertWaiting(state, entry);
  touch(state, entry);
  const { runnerId } = entry.demand;
  if (runnerId === null || state.runners.has(runnerId)) return;
  const message = `runner '${runnerId}' is not paired any more`;
  failRun(state, entry, infraFailure("dispatch", "NO_RUNNER", message, false), now, out);
}

/** Gives back what a grant that was never delivered was charged. */
export function uncharge(state: State, entry: Entry): void {
  refund(state, entry, costOf(capacityOf(state), entry.demand));
}

/** Milliseconds for which no capable runner was online, as far as this demand has been watched. */
export function loneClock(entry: Entry, now: number): number {
  const { loneMs, loneSince } = entry.demand;
  return loneMs + (loneSince === null ? 0 : Math.max(0, now - loneSince));
}

/** Retries an infra failure while retries are left, else settles the run as failed. Closes the attempt. */
export function failAttempt(
  state: State,
  entry: Entry,
  verdict: Extract<Verdict, { kind: "failed" }>,
  now: number,
  out: Effect[],
): void {
  const { failure } = verdict;
  const provenance = provenanceOf(state, entry, verdict.node);
  const again = failure.class === "infra" && failure.retryable && entry.retriesUsed < entry.demand.retries;
  const startedAt = entry.attempt?.startedAt ?? null;
  const holder = holderOf(entry);
  closeAttempt(state, entry, "failed", `${failure.code}: ${failure.message}`, now, out);
  if (again) {
    entry.retriesUsed += 1;
    const delay = backoffMs(entry.retriesUsed, 2_000, 60_000);
    const detail = `retry ${entry.retriesUsed} of ${entry.demand.retries} after ${failure.code}`;
    requeue(state, entry, delay, detail, now, out);
    return;
  }
  settle(
    state,
    entry,
    { status: "failed", failure, result: null, provenance, startedAt, holder, ...output(verdict) },
    now,
    out,
  );
}

const output = (verdict: { stdout: string; stderr: string }) => ({ stdout: verdict.stdout, stderr: verdict.stderr });

/** Ends a run with a failure that no attempt caused, or that ends all attempts. */
export function failRun(state: State, entry: Entry, failure: Failure, now: number, out: Effect[]): void {
  const provenance = provenanceOf(state, entry, null);
  const holder = holderOf(entry);
  closeAttempt(state, entry, "failed", `${failure.code}: ${failure.message}`, now, out);
  settle(state, entry, { status: "failed", failure, result: null, provenance, holder, ...NO_OUTPUT }, now, out);
}

/** Ends a run with its measurement. */
export function succeed(
  state: State,
  entry: Entry,
  verdict: Extract<Verdict, { kind: "measured" }>,
  now: number,
  out: Effect[],
): void {
  const provenance = provenanceOf(state, entry, verdict.node);
  const { attempt } = entry;
  if (attempt && attempt.startedAt === null) attempt.startedAt = attempt.acceptedAt ?? attempt.grantedAt;
  const startedAt = attempt?.startedAt ?? null;
  const holder = holderOf(entry);
  closeAttempt(state, entry, "succeeded", null, now, out);
  const { result } = verdict;
  settle(
    state,
    entry,
    { status: "succeeded", failure: null, result, provenance, startedAt, holder, ...output(verdict) },
    now,
    out,
  );
}

/** Ends a run as cancelled, whatever it was doing. */
export function cancelRun(state: State, entry: Entry, reason: string, now: number, out: Effect[]): void {
  const holder = holderOf(entry);
  const startedAt = entry.attempt?.startedAt ?? null;
  const provenance = entry.attempt ? provenanceOf(state, entry, null) : null;
  closeAttempt(state, entry, "cancelled", reason, now, out);
  settle(
    state,
    entry,
    { status: "cancelled", failure: null, result: null, provenance, startedAt, holder, ...NO_OUTPUT },
    now,
    out,
  );
}

const NO_OUTPUT = { stdout: "", stderr: "" };

interface Ending {
  status: Settlement["status"];
  failure: Failure | null;
  result: Settlement["result"];
  provenance: Provenance | null;
  startedAt?: number | null;
  holder: string | null;
  stdout: string;
  stderr: string;
}

function settle(state: State, entry: Entry, end: Ending, now: number, out: Effect[]): void {
  if (entry.hold) dropHold(state, entry, out);
  else if (isWaiting(entry)) removeWaiting(state, entry);
  const { demand } = entry;
  out.push({
    kind: "settle",
    settlement: {
      runId: entry.runId,
      workspace: demand.workspace,
      scorecardId: demand.batchId,
      epoch: entry.epoch,
      status: end.status,
      result: end.result,
      failure: end.failure,
      provenance: end.provenance,
      attempts: entry.history,
      runtimeVersion: entry.history.length > 0 ? versionOf(state, entry) : null,
      startedAt: typeof end.startedAt === "number" ? iso(end.startedAt) : null,
      finishedAt: iso(now),
      stdout: end.stdout,
      stderr: end.stderr,
    },
  });
  remember(state, {
    runId: entry.runId,
    status: end.status,
    epoch: entry.epoch,
    holder: end.holder,
    endedAt: now,
    target: demand.target,
    workspace: demand.workspace,
    pinnedVersion: demand.pinnedVersion,
    ...(entry.answered.length > 0 ? { answered: entry.answered } : {}),
  });
  forget(state, entry);
}

/** Version an entry ran, or would run, with. */
export const versionOf = (state: State, entry: Entry): string | null =>
  entry.attempt?.unit?.version ?? entry.demand.pinnedVersion ?? state.envelope?.version ?? null;

/** A run that tried something for all the others tries it no more. */
function endProbe(state: State, { runId }: Entry): void {
  if (state.circuit.probe === runId) state.circuit.probe = null;
  if (state.relayOffline?.probe === runId) state.relayOffline.probe = null;
}

/** Releases the place an entry holds while the quota object is asked. */
export function dropHold(state: State, entry: Entry, out: Effect[]): void {
  entry.hold = null;
  state.live.delete(entry.runId);
  endProbe(state, entry);
  releaseQuota(entry, entry.epoch + 1, out);
}

function holderOf(entry: Entry): string | null {
  const { attempt } = entry;
  if (!attempt) return null;
  return attempt.runnerId === null ? attempt.holder : instanceKey(attempt.runnerId, attempt.instanceId);
}

const hasStarted = (unit: LiveAttempt["unit"]): boolean =>
  unit !== null && (unit.ranOn !== null || unit.seenAt !== null);

function provenanceOf(state: State, entry: Entry, node: string | null): Provenance | null {
  const { attempt } = entry;
  if (!attempt) return null;
  // What was never handed over ran nowhere.
  if (attempt.runnerId !== null ? attempt.acceptedAt === null : !hasStarted(attempt.unit)) return null;
  if (attempt.runnerId !== null)
    return { ranOn: `runner:${attempt.runnerId}`, runner: attempt.runnerId, node, attestation: "self_reported" };
  const version = versionOf(state, entry);
  const ranOn = attempt.unit?.ranOn ?? `${attempt.holder}${version === null ? "" : `@${version}`}`;
  return { ranOn, runner: null, node: node ?? attempt.unit?.node ?? null, attestation: "managed" };
}

/** Keeps an ended run so that late messages are answered truly; the oldest are forgotten. */
export function remember(state: State, terminal: Terminal): void {
  state.terminals.set(terminal.runId, terminal);
  state.dirty.terminals.set(terminal.runId, terminal);
  for (const old of state.terminals.values()) {
    if (state.terminals.size <= MAX_TERMINALS && terminal.endedAt - old.endedAt < TERMINAL_MS) break;
    state.terminals.delete(old.runId);
    state.dirty.terminals.delete(old.runId);
    state.dirty.terminalsGone.add(old.runId);
  }
}

function forget(state: State, entry: Entry): void {
  const { demand } = entry;
  state.entries.delete(entry.runId);
  state.dirty.entries.delete(entry.runId);
  state.dirty.gone.add(entry.runId);
  if (state.reservation?.runId === entry.runId) state.reservation = null;
  const tenant = tenantOf(state, demand.workspace);
  tenant.entries -= 1;
  const key = jobKey(demand.workspace, entry.jobHash);
  const job = state.jobs.get(key);
  if (job) {
    job.refs -= 1;
    if (job.refs === 0) {
      state.jobs.delete(key);
      state.dirty.jobsGone.add(key);
      tenant.jobBytes -= job.bytes;
      state.jobBytes -= job.bytes;
    }
  }
  demand.refs -= 1;
  if (demand.refs > 0) return;
  state.demands.delete(demand.key);
  state.dirty.demands.delete(demand.id);
  state.dirty.demandsGone.add(demand.id);
  state.skipped.delete(demand);
  state.timed.delete(demand);
}

/** Equal jobs of one workspace are stored once. */
export const jobKey = (workspace: string, hash: string): string => `${workspace}/${hash}`;
