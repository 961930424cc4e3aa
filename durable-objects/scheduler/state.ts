import type { Capability, Os } from "../../contracts/capabilities.ts";
import type { Envelope, ResolvedAsk, Settlement, TenantLimits } from "../../contracts/rpc.ts";
import type { Attempt } from "../../contracts/run.ts";
import { RankedSet } from "./ranked-set.ts";

/** Runner objects hand work to whoever polls; push objects start it on a cluster or on the control-plane host. */
export type ObjectKind = "runner" | "push";

/** What admission needs to know of an entry; equal demands of one workspace and batch share one. */
export interface Demand {
  readonly id: number;
  readonly key: string;
  readonly workspace: string;
  readonly batchId: string | null;
  readonly priority: "interactive" | "batch";
  readonly target: string;
  readonly pinnedVersion: string | null;
  readonly ask: ResolvedAsk;
  readonly runnerId: string | null;
  readonly queueTimeoutSec: number;
  readonly retries: number;
  readonly needs: readonly Capability[];
  readonly os: Os;
  readonly secrets: boolean;
  readonly timeoutSec: number;
  readonly graceSec: number;
  /** Entries of this demand in the object, waiting or live. */
  refs: number;
  /** Milliseconds during which no capable runner was online, up to `loneSince`. */
  loneMs: number;
  /** Since when no capable runner is online; null while one is. */
  loneSince: number | null;
  /** Since when its oldest entry was passed over for want of memory or CPU. */
  skippedSince: number | null;
}

/** What is known of the unit of a push attempt. */
export interface UnitEvidence {
  name: string;
  /** When the next start is tried; null when none is due. */
  startAt: number | null;
  startTries: number;
  /** A start whose answer is awaited until this time. */
  busyUntil: number;
  /** The infrastructure confirmed that it exists. */
  createdAt: number | null;
  seenAt: number | null;
  /** First of the two absences that make it absent. */
  absentAt: number | null;
  node: string | null;
  ranOn: string | null;
  version: string | null;
  /** The infrastructure's words for why it is pending. */
  detail: string | null;
  stopAt: number | null;
  stopTries: number;
  /** Somebody had it stopped by the runtime's control. */
  evicted?: { by: string; at: number };
}

export type StopCause = "cancel" | "deadline";

export interface LiveAttempt {
  readonly epoch: number;
  /** Who executes it: `runner:<id>` or `cluster:<runtime>`. */
  readonly holder: string;
  readonly runnerId: string | null;
  readonly instanceId: string | null;
  state: "granted" | "running" | "stopping";
  readonly grantedAt: number;
  acceptedAt: number | null;
  startedAt: number | null;
  /** Runner attempts: end of the lease, or of the time to accept it. */
  until: number;
  /** Extensions for our own lateness since the last heartbeat. */
  lateExtensions: number;
  phase: string;
  /** When a cancel was last handed to a poll. */
  commandedAt: number;
  stopCause: StopCause | null;
  stopReason: string | null;
  quotaHeld: boolean;
  /** Set by the shell when the grant is written down; opaque here. */
  nonce: string;
  unit: UnitEvidence | null;
}

/** Waits for the workspace's quota object; holds its place in the envelope meanwhile. */
export interface Hold {
  until: number;
  instance: string | null;
}

export interface Backoff {
  until: number;
  detail: string;
}

/** A result that was taken, for whoever repeats it because the answer was lost. */
export interface Answered {
  readonly epoch: number;
  /** `<runner>/<instance>`. */
  readonly holder: string;
}

export interface Entry {
  readonly runId: string;
  readonly seq: number;
  /** Place among entries of its demand; smaller is earlier. */
  order: number;
  readonly demand: Demand;
  readonly jobHash: string;
  readonly enqueuedAt: number;
  promoted: boolean;
  epoch: number;
  attempt: LiveAttempt | null;
  hold: Hold | null;
  backoff: Backoff | null;
  history: Attempt[];
  retriesUsed: number;
  undelivered: number;
  lostLeases: number;
  releases: number;
  /** Results that did not end the run, the newest few. */
  answered: readonly Answered[];
  /** The demand's lone clock when this entry began to wait. */
  loneBase: number;
}

/** Waiting entries of one demand that are not in backoff. */
export interface Bucket {
  readonly demand: Demand;
  readonly promoted: boolean;
  readonly batch: BatchQueue;
  readonly tenant: Tenant;
  readonly entries: RankedSet<Entry>;
  /** Taken out of the fair order so that other demand classes get looked at. */
  benched: boolean;
  /** Order of the head while it stands in the fair order. */
  head: number;
}

export interface BatchQueue {
  readonly id: string;
  readonly cls: ClassQueue;
  /** Virtual finish of its last admission. */
  last: number;
  buckets: RankedSet<Bucket>;
  /** Buckets by demand id, benched ones too. */
  all: Map<number, Bucket>;
}

/** Entries of one tenant that are promoted, interactive or batch. */
export interface ClassQueue {
  vclock: number;
  batches: RankedSet<BatchQueue>;
  all: Map<string, BatchQueue>;
}

export interface Tenant {
  readonly workspace: string;
  readonly index: number;
  limits: TenantLimits;
  /** Virtual finish of its last admission. */
  last: number;
  admissions: number;
  /** Denied by the quota object: not asked again before this time, unless it says that a place is free. */
  deniedUntil: number;
  readonly classes: readonly [ClassQueue, ClassQueue, ClassQueue];
  /** All its buckets in the fair order, oldest head first. */
  readonly buckets: RankedSet<Bucket>;
  /** Entries of this workspace in the object. */
  entries: number;
  jobBytes: number;
  /** Mean duration of its attempts in ms; 0 before the first. */
  meanMs: number;
}

/** One runner process that polls. */
export interface Instance {
  readonly key: string;
  readonly runnerId: string;
  readonly instanceId: string;
  seenAt: number;
  slots: { total: number; free: number };
  memoryMb: { total: number; free: number } | null;
  cpu: { total: number; free: number } | null;
  capabilities: readonly Capability[];
  os: Os;
  /** Id of the parked poll, or null. */
  poll: number | null;
}

/** A paired runner: its token's hash and what it last said of itself. */
export interface Runner {
  readonly id: string;
  label: string;
  tokenHash: string;
  seenAt: number | null;
  facts: RunnerFacts | null;
}

export interface RunnerFacts {
  machineId: string;
  os: Os;
  arch: string;
  version: string;
  hostname: string | null;
  capabilities: readonly Capability[];
  labels: readonly string[];
  slots: { total: number; free: number };
}

/** What is kept of an ended run so that late and repeated messages are answered truly. */
export interface Terminal {
  readonly runId: string;
  readonly status: Settlement["status"] | "tombstone";
  readonly epoch: number;
  /** `<runner>/<instance>` of the accepted attempt, or the lane. */
  readonly holder: string | null;
  readonly endedAt: number;
  readonly target: string;
  readonly workspace: string;
  readonly pinnedVersion: string | null;
  /** Of attempts before the last one. */
  readonly answered?: readonly Answered[];
}

export interface Circuit {
  failures: number;
  openUntil: number | null;
  /** The run whose start decides whether it closes. */
  probe: string | null;
  pausedUntil: number;
  lastError: string | null;
}

/** A barrier of the whole object, told by the Worker. */
export interface Barrier {
  until: number;
  detail: string;
}

/** The relay is away: when `until` has passed one run tries it for all, until something shows that it is there. */
export interface RelayBarrier extends Barrier {
  /** Tries that found it away. */
  tries: number;
  probe: string | null;
}

export interface Reservation {
  readonly runId: string;
  readonly instance: string | null;
  readonly since: number;
}

export interface Observing {
  /** Expiry of the pass in flight; 0 when none is. */
  busyUntil: number;
  startedAt: number;
  sweptAt: number;
  /** Sweeps go on until then although nothing is live. */
  sweepUntil: number;
  listed: string[] | null;
  listedAt: number;
}

export interface StoredJob {
  bytes: number;
  refs: number;
}

/** Rows to be written with the next flush. */
export interface Dirty {
  entries: Map<string, Entry>;
  gone: Set<string>;
  demands: Map<number, Demand>;
  demandsGone: Set<number>;
  tenants: Set<Tenant>;
  runners: Map<string, Runner>;
  runnersGone: Set<string>;
  terminals: Map<string, Terminal>;
  terminalsGone: Set<string>;
  jobsGone: Set<string>;
}

export interface State {
  object: string;
  objectHash: string;
  kind: ObjectKind;
  envelope: Envelope | null;
  entries: Map<string, Entry>;
  /** Entries with an attempt or a hold: what usage is derived from. */
  live: Map<string, Entry>;
  demands: Map<string, Demand>;
  tenants: Map<string, Tenant>;
  /** Tenants with waiting buckets by virtual time. */
  fair: RankedSet<Tenant>;
  /** Entries in backoff, earliest first. */
  delayed: RankedSet<Entry>;
  /** Waiting entries by workspace and target, for positions. */
  ranks: Map<string, RankedSet<Entry>>;
  bench: Set<Bucket>;
  jobs: Map<string, StoredJob>;
  jobBytes: number;
  vclock: number;
  seq: number;
  promotions: number;
  demandIds: number;
  runners: Map<string, Runner>;
  byToken: Map<string, Runner>;
  instances: Map<string, Instance>;
  terminals: Map<string, Terminal>;
  circuit: Circuit;
  relayOffline: RelayBarrier | null;
  secretsOffline: Barrier | null;
  reservation: Reservation | null;
  /** Demands whose oldest entry was passed over. */
  skipped: Set<Demand>;
  /** Demands with a queue timeout. */
  timed: Set<Demand>;
  /** Runners or timed demands changed: the lone clocks are looked at again. */
  fleetChanged: boolean;
  observing: Observing;
  meanMs: number;
  armedWakeAt: number | null;
  reconciledAt: number;
  /** Demand classes looked at in vain since capacity last grew. */
  futileLooks: number;
  lookAgainAt: number | null;
  /** Demand classes the last pump looked at in vain. */
  lastLooks: number;
  dirty: Dirty;
}

const byFair = (a: Tenant, b: Tenant): number => a.last - b.last || a.index - b.index;
const byDelay = (a: Entry, b: Entry): number => (a.backoff?.until ?? 0) - (b.backoff?.until ?? 0) || a.seq - b.seq;

/** The kind an object's name stands for. */
export function kindOf(object: string): ObjectKind {
  return object.startsWith("runners:") ? "runner" : "push";
}

export function createDirty(): Dirty {
  return {
    entries: new Map(),
    gone: new Set(),
    demands: new Map(),
    demandsGone: new Set(),
    tenants: new Set(),
    runners: new Map(),
    runnersGone: new Set(),
    terminals: new Map(),
    terminalsGone: new Set(),
    jobsGone: new Set(),
  };
}

/**
 * An empty object.
 * @param object its name, which says its kind
 * @param objectHash first 8 hex digits of the name's SHA-256
 */
export function createState(object: string, objectHash: string): State {
  return {
    object,
    objectHash,
    kind: kindOf(object),
    envelope: null,
    entries: new Map(),
    live: new Map(),
    demands: new Map(),
    tenants: new Map(),
    fair: new RankedSet(byFair),
    delayed: new RankedSet(byDelay),
    ranks: new Map(),
    bench: new Set(),
    jobs: new Map(),
    jobBytes: 0,
    vclock: 0,
    seq: 0,
    promotions: 0,
    demandIds: 0,
    runners: new Map(),
    byToken: new Map(),
    instances: new Map(),
    terminals: new Map(),
    circuit: { failures: 0, openUntil: null, probe: null, pausedUntil: 0, lastError: null },
    relayOffline: null,
    secretsOffline: null,
    reservation: null,
    skipped: new Set(),
    timed: new Set(),
    fleetChanged: false,
    observing: { busyUntil: 0, startedAt: 0, sweptAt: 0, sweepUntil: 0, listed: null, listedAt: 0 },
    meanMs: 0,
    armedWakeAt: null,
    reconciledAt: 0,
    futileLooks: 0,
    lookAgainAt: null,
    lastLooks: 0,
    dirty: createDirty(),
  };
}

/** Marks an entry's row for the next flush. */
export function touch(state: State, entry: Entry): void {
  state.dirty.entries.set(entry.runId, entry);
}

/** Whether an entry neither runs nor is being asked for. */
export const isWaiting = (entry: Entry): boolean => entry.attempt === null && entry.hold === null;
