import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import { beginAttempt } from "./begin-attempt.ts";
import {
  barrierFor,
  capable,
  capacityOf,
  costOf,
  declared,
  envelopeRoom,
  instanceRoom,
  isOnline,
  liveOfWorkspace,
  type Room,
  shortOf,
  take,
  usageByInstance,
  without,
} from "./capacity.ts";
import type { Effect } from "./events.ts";
import { HOLD_MS, MAX_LOOKS, OLDEST_EVERY, RECALLED_LOOKS, RESERVE_AFTER_MS } from "./limits.ts";
import {
  bucketOf,
  charge,
  enterFairOrder,
  leaveFairOrder,
  releaseDelayed,
  removeWaiting,
  setTenantTime,
} from "./queue.ts";
import {
  type Bucket,
  type Demand,
  type Entry,
  type Instance,
  isWaiting,
  type State,
  type Tenant,
  touch,
} from "./state.ts";

/** What one pump works with; capacity only shrinks while it runs, so what was blocked once stays blocked. */
interface Pump {
  readonly state: State;
  readonly now: number;
  readonly out: Effect[];
  readonly total: Room;
  readonly room: Room;
  readonly parked: { instance: Instance; room: Room }[];
  readonly blocked: Set<Bucket>;
  readonly polls: Map<Instance, AttemptRef[]>;
  readonly starts: AttemptRef[];
  readonly asked: Map<Tenant, AttemptRef[]>;
  readonly liveOf: Map<string, number>;
  looks: number;
  /** Some class was not looked at. */
  cut: boolean;
  admitted: number;
}

type Fit = { ok: true; instance: Instance | null; room: Room } | { ok: false; short: string };

/**
 * Admits what fits, in fair order: between tenants by virtual time, inside a tenant promoted, then interactive, then
 * batch, with every 4th admission the oldest. An entry that does not fit is passed over.
 * @returns refs granted to each parked runner process
 */
export function pump(state: State, now: number, out: Effect[]): Map<Instance, AttemptRef[]> {
  releaseDelayed(state, now);
  const run = begin(state, now, out);
  if (state.fair.size + state.bench.size > 0) {
    recallBench(state);
    if (hasRoom(run)) {
      admitReserved(run);
      admitInOrder(run);
    }
    settleLooks(run);
    chooseReservation(run);
  } else state.reservation = null;
  if (run.starts.length > 0) out.push({ kind: "start", refs: run.starts });
  for (const [tenant, refs] of run.asked) {
    const { maxInFlight } = tenant.limits;
    if (maxInFlight !== null) out.push({ kind: "acquireQuota", workspace: tenant.workspace, maxInFlight, refs });
  }
  return run.polls;
}

function begin(state: State, now: number, out: Effect[]): Pump {
  const parked: Pump["parked"] = [];
  if (state.kind === "runner") {
    const used = usageByInstance(state);
    for (const instance of state.instances.values()) {
      if (instance.poll === null) continue;
      const room = instanceRoom(instance, used.get(instance.key));
      if (room.slots > 0) parked.push({ instance, room });
    }
  }
  return {
    state,
    now,
    out,
    total: capacityOf(state),
    room: state.kind === "push" ? envelopeRoom(state) : { slots: 0, memoryMb: null, cpu: null },
    parked,
    blocked: new Set(),
    polls: new Map(),
    starts: [],
    asked: new Map(),
    liveOf: new Map(),
    looks: 0,
    cut: false,
    admitted: 0,
  };
}

const hasRoom = (run: Pump): boolean => (run.state.kind === "push" ? run.room.slots > 0 : run.parked.length > 0);

function recallBench(state: State): void {
  let recalled = 0;
  for (const bucket of state.bench) {
    if (recalled === RECALLED_LOOKS) return;
    state.bench.delete(bucket);
    enterFairOrder(state, bucket);
    recalled += 1;
  }
}

function admitReserved(run: Pump): void {
  const { state } = run;
  const entry = state.reservation && state.entries.get(state.reservation.runId);
  if (!entry || !isWaiting(entry) || entry.backoff) return;
  const bucket = bucketOf(state, entry);
  if (!bucket || held(run, bucket) !== null) return;
  const fit = fits(run, entry.demand, true);
  if (fit.ok) admit(run, entry, fit);
}

function admitInOrder(run: Pump): void {
  const { state } = run;
  const exhausted: Tenant[] = [];
  const share = Math.max(4, Math.floor(MAX_LOOKS / Math.max(1, state.fair.size)));
  while (hasRoom(run) && run.looks < MAX_LOOKS) {
    const tenant = state.fair.first();
    if (!tenant) break;
    if (admitOne(run, tenant, Math.min(MAX_LOOKS, run.looks + share))) continue;
    // Blocked tenants save up no credit: they come back at the clock.
    state.fair.delete(tenant);
    exhausted.push(tenant);
  }
  for (const tenant of exhausted) {
    if (tenant.buckets.size > 0) state.fair.add(tenant);
    setTenantTime(state, tenant, Math.max(tenant.last, state.vclock));
  }
}

function admitOne(run: Pump, tenant: Tenant, lookLimit: number): boolean {
  for (const bucket of inTenantOrder(tenant)) {
    if (run.blocked.has(bucket)) continue;
    if (run.looks >= lookLimit) {
      run.cut = true;
      return false;
    }
    const entry = bucket.entries.first();
    if (!entry) continue;
    const reason = held(run, bucket);
    if (reason === null) {
      const fit = fits(run, bucket.demand, run.state.reservation?.runId === entry.runId);
      if (fit.ok) {
        admit(run, entry, fit);
        return true;
      }
      if (fit.short === "memory" || fit.short === "cpu") passOver(run, bucket.demand);
    }
    run.blocked.add(bucket);
    run.looks += 1;
  }
  return false;
}

function* inTenantOrder(tenant: Tenant): Generator<Bucket> {
  const [promoted, interactive, batch] = tenant.classes;
  for (const queue of promoted.batches) yield* queue.buckets;
  if (tenant.admissions % OLDEST_EVERY === OLDEST_EVERY - 1) {
    yield* tenant.buckets;
    return;
  }
  for (const queue of interactive.batches) yield* queue.buckets;
  for (const queue of batch.batches) yield* queue.buckets;
}

/** What holds a bucket back whatever is free. */
function held(run: Pump, bucket: Bucket): string | null {
  const { state, now } = run;
  const entry = bucket.entries.first();
  if (!entry) return "empty";
  const { tenant } = bucket;
  if (tenant.limits.maxInFlight !== null) {
    if (tenant.deniedUntil > now) return "quota";
    let live = run.liveOf.get(tenant.workspace);
    if (live === undefined) {
      live = liveOfWorkspace(state, tenant.workspace);
      run.liveOf.set(tenant.workspace, live);
    }
    if (live >= tenant.limits.maxInFlight) return "quota";
  }
  return barrierFor(state, entry, now);
}

function fits(run: Pump, demand: Demand, reserved: boolean): Fit {
  const { state } = run;
  const ask = declared(demand);
  const reservedFor = reserved ? undefined : reservedEntry(state);
  if (state.kind === "push") {
    const short = shortOf(run.room, ask);
    if (short) return { ok: false, short };
    if (reservedFor && shortOf(without(run.room, declared(reservedFor.demand)), ask))
      return { ok: false, short: "reservation" };
    return { ok: true, instance: null, room: run.room };
  }
  let short = "no-runner";
  for (const { instance, room } of run.parked) {
    if (!capable(instance, demand)) continue;
    const lacking = shortOf(room, ask);
    if (lacking) {
      if (short === "no-runner" || lacking !== "slots") short = lacking;
      continue;
    }
    const heldHere = reservedFor && state.reservation?.instance === instance.key;
    if (heldHere && shortOf(without(room, declared(reservedFor.demand)), ask)) {
      if (short === "no-runner") short = "reservation";
      continue;
    }
    return { ok: true, instance, room };
  }
  return { ok: false, short };
}

const reservedEntry = (state: State): Entry | undefined =>
  state.reservation ? state.entries.get(state.reservation.runId) : undefined;

function passOver(run: Pump, demand: Demand): void {
  if (demand.skippedSince !== null) return;
  demand.skippedSince = run.now;
  run.state.skipped.add(demand);
  run.state.dirty.demands.set(demand.id, demand);
}

function admit(run: Pump, entry: Entry, fit: Extract<Fit, { ok: true }>): void {
  const { state, now, out } = run;
  const { demand } = entry;
  const tenant = state.tenants.get(demand.workspace);
  charge(state, entry, costOf(run.total, demand));
  removeWaiting(state, entry);
  take(fit.room, declared(demand));
  run.admitted += 1;
  if (state.reservation?.runId === entry.runId) state.reservation = null;
  if (demand.skippedSince !== null) {
    demand.skippedSince = null;
    state.skipped.delete(demand);
    state.dirty.demands.set(demand.id, demand);
  }
  if (state.circuit.openUntil !== null) state.circuit.probe = entry.runId;
  if (state.relayOffline) state.relayOffline.probe = entry.runId;
  run.liveOf.set(demand.workspace, (run.liveOf.get(demand.workspace) ?? 0) + 1);
  if (tenant && tenant.limits.maxInFlight !== null) {
    entry.hold = { until: now + HOLD_MS, instance: fit.instance?.key ?? null };
    state.live.set(entry.runId, entry);
    touch(state, entry);
    push(run.asked, tenant, { runId: entry.runId, epoch: entry.epoch + 1 });
    return;
  }
  const ref = beginAttempt(state, entry, fit.instance, false, now, out);
  if (fit.instance) push(run.polls, fit.instance, ref);
  else run.starts.push(ref);
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

/** Keeps looking after a pump that could not look at every class: blocked ones make room for the others. */
function settleLooks(run: Pump): void {
  const { state } = run;
  state.lookAgainAt = null;
  state.lastLooks = run.looks;
  if (run.cut || run.looks >= MAX_LOOKS) {
    for (const bucket of run.blocked) {
      leaveFairOrder(state, bucket);
      bucket.benched = true;
      state.bench.add(bucket);
    }
  } else if (state.bench.size === 0) {
    state.futileLooks = 0;
    return;
  }
  state.futileLooks = run.admitted > 0 ? 0 : state.futileLooks + run.looks;
  if (state.futileLooks < 2 * state.demands.size) state.lookAgainAt = run.now + 20;
}

/** The one reservation goes to the oldest entry that was passed over for 60 s and that nothing but room holds back. */
function chooseReservation(run: Pump): void {
  const { state, now } = run;
  if (state.reservation && reservable(run, reservedEntry(state)) === undefined) state.reservation = null;
  if (state.reservation) return;
  let oldest: { entry: Entry; instance: string | null } | null = null;
  let looked = 0;
  for (const demand of state.skipped) {
    if (looked++ >= 4 * MAX_LOOKS) break;
    if (demand.skippedSince === null || now - demand.skippedSince < RESERVE_AFTER_MS) continue;
    const entry = oldestOf(state, demand);
    if (!entry || (oldest && oldest.entry.seq <= entry.seq)) continue;
    const instance = reservable(run, entry);
    if (instance !== undefined) oldest = { entry, instance };
  }
  if (!oldest) return;
  const { entry, instance } = oldest;
  state.reservation = { runId: entry.runId, instance, since: now };
  run.out.push({ kind: "log", event: "reservation", fields: { run: entry.runId, instance } });
}

function oldestOf(state: State, demand: Demand): Entry | undefined {
  const tenant = state.tenants.get(demand.workspace);
  if (!tenant) return undefined;
  let oldest: Entry | undefined;
  for (const cls of tenant.classes) {
    const head = cls.all
      .get(demand.batchId ?? "")
      ?.all.get(demand.id)
      ?.entries.first();
    if (head && (!oldest || head.seq < oldest.seq)) oldest = head;
  }
  return oldest;
}

/** Where an entry may hold a reservation: a runner process, null for the envelope, undefined for nowhere. */
function reservable(run: Pump, entry: Entry | undefined): string | null | undefined {
  const { state, now } = run;
  if (!entry || !isWaiting(entry) || entry.backoff) return undefined;
  const bucket = bucketOf(state, entry);
  if (!bucket || held(run, bucket) !== null) return undefined;
  if (state.kind === "push") return null;
  const current = state.reservation?.runId === entry.runId ? state.reservation.instance : null;
  const suits = (instance: Instance) => isOnline(instance, now) && capable(instance, entry.demand);
  const kept = current === null ? undefined : state.instances.get(current);
  if (kept && suits(kept)) return kept.key;
  if (current !== null) return undefined;
  const used = usageByInstance(state);
  let best: { key: string; slots: number } | null = null;
  for (const instance of state.instances.values()) {
    if (!suits(instance)) continue;
    const slots = used.get(instance.key)?.slots ?? 0;
    if (!best || slots < best.slots) best = { key: instance.key, slots };
  }
  return best?.key;
}
