import type { TenantLimits } from "../../contracts/rpc.ts";
import type { NewEntry } from "./events.ts";
import { RankedSet } from "./ranked-set.ts";
import type { BatchQueue, Bucket, ClassQueue, Demand, Entry, State, Tenant } from "./state.ts";

const DEFAULT_LIMITS: TenantLimits = { weight: 1, maxInFlight: null, queueDepth: 50_000 };

const MAX_IDLE_BATCHES = 256;

const byHead = (a: Bucket, b: Bucket): number =>
  a.head - b.head || Number(a.promoted) - Number(b.promoted) || a.demand.id - b.demand.id;
const byVirtualTime = (a: BatchQueue, b: BatchQueue): number =>
  a.last - b.last || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
const byOrder = (a: Entry, b: Entry): number => a.order - b.order || a.seq - b.seq;

/** Promoted entries first, then interactive before batch, then by age: the order that positions are told in. */
const byRank = (a: Entry, b: Entry): number => classIndex(a) - classIndex(b) || byOrder(a, b);

const classIndex = (entry: Entry): 0 | 1 | 2 => (entry.promoted ? 0 : entry.demand.priority === "interactive" ? 1 : 2);

const createClass = (): ClassQueue => ({ vclock: 0, batches: new RankedSet(byVirtualTime), all: new Map() });

/** The tenant's state, made when it first appears. */
export function tenantOf(state: State, workspace: string): Tenant {
  const known = state.tenants.get(workspace);
  if (known) return known;
  const tenant: Tenant = {
    workspace,
    index: state.tenants.size,
    limits: DEFAULT_LIMITS,
    last: 0,
    admissions: 0,
    deniedUntil: 0,
    classes: [createClass(), createClass(), createClass()],
    buckets: new RankedSet(byHead),
    entries: 0,
    jobBytes: 0,
    meanMs: 0,
  };
  state.tenants.set(workspace, tenant);
  return tenant;
}

/** The demand class of an entry, made when it is the first of its kind. */
export function demandOf(state: State, entry: NewEntry): Demand {
  const { ask, job } = entry;
  const needs = [...job.needs].sort();
  const key = JSON.stringify([
    entry.workspace,
    entry.batchId,
    entry.priority,
    entry.target,
    entry.pinnedVersion,
    [ask.cpu.value, ask.cpu.declared, ask.memoryMb.value, ask.memoryMb.declared, ask.gpu],
    entry.runnerId,
    entry.queueTimeoutSec,
    entry.retries,
    needs,
    job.os,
    entry.secrets,
    job.timeoutSec,
    job.graceSec,
  ]);
  const known = state.demands.get(key);
  if (known) return known;
  const demand: Demand = {
    id: ++state.demandIds,
    key,
    workspace: entry.workspace,
    batchId: entry.batchId,
    priority: entry.priority,
    target: entry.target,
    pinnedVersion: entry.pinnedVersion,
    ask,
    runnerId: entry.runnerId,
    queueTimeoutSec: entry.queueTimeoutSec,
    retries: entry.retries,
    needs,
    os: job.os,
    secrets: entry.secrets,
    timeoutSec: job.timeoutSec,
    graceSec: job.graceSec,
    refs: 0,
    loneMs: 0,
    loneSince: null,
    skippedSince: null,
  };
  state.demands.set(key, demand);
  state.dirty.demands.set(demand.id, demand);
  if (demand.queueTimeoutSec > 0 && state.kind === "runner") {
    state.timed.add(demand);
    state.fleetChanged = true;
  }
  return demand;
}

/** Puts a waiting entry where it belongs: into its bucket, or among the delayed. */
export function insertWaiting(state: State, entry: Entry): void {
  rankSet(state, entry).add(entry);
  if (entry.backoff) state.delayed.add(entry);
  else addToBucket(state, entry);
}

/** Takes a waiting entry out of every order. */
export function removeWaiting(state: State, entry: Entry): void {
  const key = rankKey(entry);
  const ranks = state.ranks.get(key);
  ranks?.delete(entry);
  if (ranks?.size === 0) state.ranks.delete(key);
  if (entry.backoff) state.delayed.delete(entry);
  else removeFromBucket(state, entry);
}

/** Moves entries whose backoff is over into their buckets. */
export function releaseDelayed(state: State, now: number): void {
  for (;;) {
    const entry = state.delayed.first();
    if (!entry?.backoff || entry.backoff.until > now) return;
    state.delayed.delete(entry);
    entry.backoff = null;
    addToBucket(state, entry);
    state.dirty.entries.set(entry.runId, entry);
  }
}

/** Rank among the waiting entries of its workspace for its target, from 1. */
export function positionOf(state: State, entry: Entry): number {
  return (state.ranks.get(rankKey(entry))?.rank(entry) ?? 0) + 1;
}

const rankKey = (entry: Entry): string => `${entry.demand.workspace}\n${entry.demand.target}`;

function rankSet(state: State, entry: Entry): RankedSet<Entry> {
  const key = rankKey(entry);
  let ranks = state.ranks.get(key);
  if (!ranks) {
    ranks = new RankedSet(byRank);
    state.ranks.set(key, ranks);
  }
  return ranks;
}

/** The bucket an entry is, or would be, in. */
export function bucketOf(state: State, entry: Entry): Bucket | undefined {
  return classOf(state, entry)
    .all.get(entry.demand.batchId ?? "")
    ?.all.get(entry.demand.id);
}

const classOf = (state: State, entry: Entry): ClassQueue =>
  tenantOf(state, entry.demand.workspace).classes[classIndex(entry)];

function addToBucket(state: State, entry: Entry): void {
  const tenant = tenantOf(state, entry.demand.workspace);
  const cls = classOf(state, entry);
  const batchId = entry.demand.batchId ?? "";
  let batch = cls.all.get(batchId);
  if (!batch) {
    forgetIdleBatches(cls);
    batch = { id: batchId, cls, last: cls.vclock, buckets: new RankedSet(byHead), all: new Map() };
    cls.all.set(batchId, batch);
  }
  let bucket = batch.all.get(entry.demand.id);
  if (!bucket) {
    const { demand, promoted } = entry;
    bucket = { demand, promoted, batch, tenant, entries: new RankedSet(byOrder), benched: false, head: entry.order };
    batch.all.set(demand.id, bucket);
    bucket.entries.add(entry);
    enterFairOrder(state, bucket);
    return;
  }
  const earlier = entry.order < bucket.head;
  if (earlier && !bucket.benched) leaveFairOrder(state, bucket);
  bucket.entries.add(entry);
  if (earlier && !bucket.benched) enterFairOrder(state, bucket);
}

function removeFromBucket(state: State, entry: Entry): void {
  const bucket = bucketOf(state, entry);
  if (!bucket?.entries.has(entry)) return;
  const wasHead = entry.order === bucket.head;
  if (wasHead && !bucket.benched) leaveFairOrder(state, bucket);
  bucket.entries.delete(entry);
  if (bucket.entries.size > 0) {
    if (wasHead && !bucket.benched) enterFairOrder(state, bucket);
    return;
  }
  state.bench.delete(bucket);
  bucket.batch.all.delete(bucket.demand.id);
}

/** An empty batch is kept while it owes virtual time: a scorecard that feeds case by case must not jump the others. */
function forgetIdleBatches(cls: ClassQueue): void {
  if (cls.all.size < MAX_IDLE_BATCHES) return;
  for (const [id, batch] of cls.all) if (batch.all.size === 0 && batch.last <= cls.vclock) cls.all.delete(id);
  if (cls.all.size < 2 * MAX_IDLE_BATCHES) return;
  for (const [id, batch] of cls.all) if (batch.all.size === 0) cls.all.delete(id);
}

/** Puts a bucket where pumps look. */
export function enterFairOrder(state: State, bucket: Bucket): void {
  const { batch, tenant } = bucket;
  bucket.head = bucket.entries.first()?.order ?? 0;
  bucket.benched = false;
  batch.buckets.add(bucket);
  if (batch.buckets.size === 1) batch.cls.batches.add(batch);
  tenant.buckets.add(bucket);
  if (tenant.buckets.size === 1) state.fair.add(tenant);
}

/** Takes a bucket away from where pumps look; its entries stay in it. */
export function leaveFairOrder(state: State, bucket: Bucket): void {
  const { batch, tenant } = bucket;
  batch.buckets.delete(bucket);
  if (batch.buckets.size === 0) batch.cls.batches.delete(batch);
  tenant.buckets.delete(bucket);
  if (tenant.buckets.size === 0) state.fair.delete(tenant);
}

/** All buckets of the object, benched ones too. */
export function* allBuckets(state: State): Generator<Bucket> {
  for (const tenant of state.tenants.values())
    for (const cls of tenant.classes) for (const batch of cls.all.values()) yield* batch.all.values();
}

/**
 * Charges an admission to its tenant and batch in virtual time (start-time fair queueing): who was idle or blocked
 * starts at the clock, so that no credit is saved up.
 * @param cost dominant share of the envelope, in (0, 1]
 */
export function charge(state: State, entry: Entry, cost: number): void {
  const tenant = tenantOf(state, entry.demand.workspace);
  const cls = classOf(state, entry);
  const batch = cls.all.get(entry.demand.batchId ?? "");
  const start = Math.max(state.vclock, tenant.last);
  setTenantTime(state, tenant, start + cost / tenant.limits.weight);
  state.vclock = start;
  tenant.admissions += 1;
  state.dirty.tenants.add(tenant);
  if (!batch) return;
  const batchStart = Math.max(cls.vclock, batch.last);
  const listed = batch.buckets.size > 0;
  if (listed) cls.batches.delete(batch);
  batch.last = batchStart + cost;
  if (listed) cls.batches.add(batch);
  cls.vclock = batchStart;
}

/** Gives back what an admission was charged that came to nothing. */
export function refund(state: State, entry: Entry, cost: number): void {
  const tenant = tenantOf(state, entry.demand.workspace);
  setTenantTime(state, tenant, Math.max(0, tenant.last - cost / tenant.limits.weight));
  state.dirty.tenants.add(tenant);
}

/** Moves a tenant in virtual time, keeping the fair order sound. */
export function setTenantTime(state: State, tenant: Tenant, last: number): void {
  const listed = state.fair.delete(tenant);
  tenant.last = last;
  if (listed) state.fair.add(tenant);
}
