import { freshEntry } from "./fresh-entry.ts";
import { admitToQueue } from "./intake.ts";
import { insertWaiting, tenantOf } from "./queue.ts";
import {
  createDirty,
  createState,
  type Demand,
  type Entry,
  isWaiting,
  type Runner,
  type State,
  type Terminal,
} from "./state.ts";

export interface EntryRow {
  runId: string;
  seq: number;
  demand: number;
  jobHash: string;
  enqueuedAt: number;
  /** 1 while it has an attempt or a hold. */
  live: 0 | 1;
  /** JSON of what an entry gathers once it is granted; null before. */
  state: string | null;
}

/** Rows that differ from what is stored. */
export interface Changes {
  meta: string;
  entries: EntryRow[];
  gone: string[];
  demands: { id: number; json: string }[];
  demandsGone: number[];
  tenants: { workspace: string; json: string }[];
  runners: { id: string; json: string }[];
  runnersGone: string[];
  terminals: { runId: string; endedAt: number; json: string }[];
  terminalsGone: string[];
  jobsGone: string[];
}

/** Everything that is stored, in the order of writing where it matters. */
export interface Stored {
  object: string;
  objectHash: string;
  meta: string | null;
  demands: Iterable<string>;
  tenants: Iterable<string>;
  runners: Iterable<string>;
  terminals: Iterable<string>;
  jobs: Iterable<{ key: string; bytes: number }>;
  /** By sequence. */
  entries: Iterable<EntryRow>;
}

type Gathered = Omit<Entry, "runId" | "seq" | "demand" | "jobHash" | "enqueuedAt">;

/** Rows to be written since the last call; afterwards the state counts as stored. */
export function drainChanges(state: State): Changes {
  const { dirty } = state;
  state.dirty = createDirty();
  return {
    meta: encodeMeta(state),
    entries: [...dirty.entries.values()].map(encodeEntry),
    gone: [...dirty.gone],
    demands: [...dirty.demands.values()].map((demand) => ({ id: demand.id, json: JSON.stringify(demand) })),
    demandsGone: [...dirty.demandsGone],
    tenants: [...dirty.tenants].map((tenant) => ({
      workspace: tenant.workspace,
      json: JSON.stringify({
        workspace: tenant.workspace,
        limits: tenant.limits,
        last: tenant.last,
        admissions: tenant.admissions,
        meanMs: tenant.meanMs,
      }),
    })),
    runners: [...dirty.runners.values()].map((runner) => ({ id: runner.id, json: JSON.stringify(runner) })),
    runnersGone: [...dirty.runnersGone],
    terminals: [...dirty.terminals.values()].map((terminal) => ({
      runId: terminal.runId,
      endedAt: terminal.endedAt,
      json: JSON.stringify(terminal),
    })),
    terminalsGone: [...dirty.terminalsGone],
    jobsGone: [...dirty.jobsGone],
  };
}

function encodeEntry(entry: Entry): EntryRow {
  const { runId, seq, demand, jobHash, enqueuedAt, ...gathered } = entry;
  const fresh = entry.epoch === 0 && entry.order === seq && isWaiting(entry) && !entry.backoff && entry.loneBase === 0;
  return {
    runId,
    seq,
    demand: demand.id,
    jobHash,
    enqueuedAt,
    live: isWaiting(entry) ? 0 : 1,
    state: fresh ? null : JSON.stringify(gathered satisfies Gathered),
  };
}

function encodeMeta(state: State): string {
  const { envelope, vclock, seq, promotions, demandIds, circuit, relayOffline, secretsOffline, reservation } = state;
  const { observing, meanMs, armedWakeAt, reconciledAt } = state;
  const stored = { ...observing, listed: null };
  return JSON.stringify({
    envelope,
    vclock,
    seq,
    promotions,
    demandIds,
    circuit,
    relayOffline,
    secretsOffline,
    reservation,
    observing: stored,
    meanMs,
    armedWakeAt,
    reconciledAt,
  });
}

/** Makes the state again from what was stored. */
export function loadState(stored: Stored): State {
  const state = createState(stored.object, stored.objectHash);
  if (stored.meta !== null) Object.assign(state, JSON.parse(stored.meta));
  for (const json of stored.tenants) {
    const row: { workspace: string } = JSON.parse(json);
    Object.assign(tenantOf(state, row.workspace), row);
  }
  for (const json of stored.runners) {
    const runner: Runner = JSON.parse(json);
    state.runners.set(runner.id, runner);
    state.byToken.set(runner.tokenHash, runner);
  }
  for (const json of stored.terminals) {
    const terminal: Terminal = JSON.parse(json);
    state.terminals.set(terminal.runId, terminal);
  }
  const demands = loadDemands(state, stored.demands);
  const bytes = new Map<string, number>();
  for (const job of stored.jobs) bytes.set(job.key, job.bytes);
  for (const row of stored.entries) loadEntry(state, row, demands, bytes);
  state.fleetChanged = state.timed.size > 0;
  state.dirty = createDirty();
  return state;
}

function loadDemands(state: State, rows: Iterable<string>): Map<number, Demand> {
  const demands = new Map<number, Demand>();
  for (const json of rows) {
    const demand: Demand = JSON.parse(json);
    demand.refs = 0;
    demands.set(demand.id, demand);
    state.demands.set(demand.key, demand);
    if (demand.queueTimeoutSec > 0 && state.kind === "runner") state.timed.add(demand);
    if (demand.skippedSince !== null) state.skipped.add(demand);
  }
  return demands;
}

function loadEntry(state: State, row: EntryRow, demands: Map<number, Demand>, bytes: Map<string, number>): void {
  const demand = demands.get(row.demand);
  if (!demand) throw new Error(`entry ${row.runId} names demand ${row.demand}, which is not stored`);
  const { runId, seq, jobHash, enqueuedAt } = row;
  const entry = freshEntry({ runId, seq, demand, jobHash, enqueuedAt });
  if (row.state !== null) Object.assign(entry, JSON.parse(row.state));
  const tenant = tenantOf(state, demand.workspace);
  admitToQueue(state, entry, tenant, bytes.get(`${demand.workspace}/${entry.jobHash}`) ?? 0);
  if (isWaiting(entry)) insertWaiting(state, entry);
  else state.live.set(entry.runId, entry);
}
