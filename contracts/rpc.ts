import type { Capability, Os } from "./capabilities.ts";
import type { Inspection } from "./inspection.ts";
import type { JobFacts, JobTemplate } from "./job.ts";
import type { Attempt, Failure, Provenance, RunResult, RunStatus, Waiting } from "./run.ts";
import type {
  Accepted,
  AttemptRef,
  Command,
  HeartbeatAnswer,
  HeartbeatRequest,
  LeaseRequest,
} from "./runner-protocol.ts";
import type { RunDigest, ScorecardEnd } from "./scorecard-rpc.ts";

/*
 * What the Worker and the objects say to each other. Plain data only (structured clone), no thrown errors for expected
 * outcomes: a throw across an RPC border means "try again", never "no".
 */

/** One dimension of an ask. A defaulted one is placed and charged for fairness, never counted against a budget. */
export interface AskDimension {
  value: number;
  declared: boolean;
}

/** cpu in millicores, memory in MiB. */
export interface ResolvedAsk {
  cpu: AskDimension;
  memoryMb: AskDimension;
  gpu: number;
}

/** Admission envelope of a cluster or local object; null budgets are unlimited. */
export interface Envelope {
  slots: number;
  memoryBudgetMb: number | null;
  cpuBudget: number | null;
  /** Highest non-archived version, for lane names of unpinned entries. */
  version: string;
}

/** What the Worker needs to turn an Outcome into a measurement; opaque to the object. */
export type GradingSpec = { readonly [key: string]: unknown };

export interface EnqueueEntry {
  runId: string;
  workspace: string;
  /** The target as the user named it: "gpu", "gpu@1.0.0", "self", "self:rnr-…". */
  target: string;
  /** Version the user pinned; null binds to the newest at grant. */
  pinnedVersion: string | null;
  /** Scorecard, or null; entries of a batch are FIFO, batches of a workspace share. */
  batchId: string | null;
  priority: "interactive" | "batch";
  ask: ResolvedAsk;
  /** Runner lanes only: the one runner that may take it. */
  runnerId: string | null;
  /** Seconds an entry may wait while no capable runner is online; 0 waits for ever. */
  queueTimeoutSec: number;
  /** Extra attempts after a retryable infra failure. */
  retries: number;
  /** The job without what only a grant knows. Needs, os and time limits are read from it. */
  job: JobTemplate;
  /** SHA-256 of the job's canonical JSON (hex): equal jobs are stored once. */
  jobHash: string;
  grading: GradingSpec;
}

export type EnqueueAnswer =
  | { runId: string; ok: true }
  | { runId: string; ok: false; code: "QUEUE_FULL" | "TOO_LARGE"; detail: string; retryAfterSec: number };

export interface TenantLimits {
  weight: number;
  maxInFlight: number | null;
  queueDepth: number;
}

export interface CancelAnswer {
  runId: string;
  /** cancelled: ended now; stopping: a holder was told; terminal: it had ended; tombstoned: unknown here, and will never start. */
  state: "cancelled" | "stopping" | "terminal" | "tombstoned";
}

/** The object's live view of a run that is not terminal, or has ended and is not yet stored. */
export interface RunView {
  runId: string;
  status: RunStatus;
  epoch: number;
  startedAt: string | null;
  finishedAt: string | null;
  waiting: Waiting | null;
  attempts: Attempt[];
  /** Where the attempt in hand is, as far as it is known. */
  placed: { node: string | null; ranOn: string | null; detail: string | null } | null;
  runtimeVersion: string | null;
  settlement: Settlement | null;
}

export interface LaneView {
  lane: string;
  target: string;
  slots: { total: number; inFlight: number };
  memoryMb: { budget: number; inFlight: number } | null;
  cpu: { budget: number; inFlight: number } | null;
  queued: number;
  oldestSec: number;
  health: { state: "ok" | "degraded" | "open"; detail: string | null };
  drift: number;
}

export interface QueueEntryView {
  runId: string;
  workspace: string;
  target: string;
  position: number;
  enqueuedAt: string;
  waiting: Waiting;
}

export interface QueueView {
  lanes: LaneView[];
  entries: QueueEntryView[];
  /** Pass it back as `after` to go on; null at the end. */
  next: number | null;
}

/** A paired runner as its object stores it. */
export interface RunnerRecord {
  id: string;
  label: string;
  /** SHA-256 of the token, hex. */
  tokenHash: string;
}

export interface RunnerView {
  id: string;
  label: string;
  online: boolean;
  lastSeenAt: string | null;
  machineId: string | null;
  os: string | null;
  arch: string | null;
  version: string | null;
  hostname: string | null;
  capabilities: Capability[];
  labels: string[];
  slots: { total: number; free: number };
  running: { runId: string; epoch: number; phase: string }[];
}

/** A granted attempt on its way to its executor; secrets, registry credentials and the log token are added by the Worker. */
export interface Grant {
  runId: string;
  workspace: string;
  target: string;
  pinnedVersion: string | null;
  epoch: number;
  name: string;
  objectHash: string;
  nonce: string;
  job: JobFacts;
  /** The program as JSON text: it goes to the wire unread. */
  programJson: string;
}

/** ok:false with UNAUTHENTICATED: the token is not known to this object or was revoked. */
export type RunnerAnswer<T> = ({ ok: true } & T) | { ok: false; code: "UNAUTHENTICATED" };

/** The end of an attempt as the Worker judged it. */
export type Verdict =
  | { kind: "measured"; result: RunResult; stdout: string; stderr: string; node: string | null }
  | { kind: "failed"; failure: Failure; stdout: string; stderr: string; node: string | null; durationMs: number | null }
  | { kind: "released" }
  | { kind: "stopped" };

export interface JudgedResult extends AttemptRef {
  verdict: Verdict;
}

/** The one terminal record of a run, as it goes through the outbox to D1. */
export interface Settlement {
  runId: string;
  workspace: string;
  scorecardId: string | null;
  epoch: number;
  status: "succeeded" | "failed" | "cancelled";
  result: RunResult | null;
  failure: Failure | null;
  provenance: Provenance | null;
  attempts: Attempt[];
  runtimeVersion: string | null;
  startedAt: string | null;
  finishedAt: string;
  stdout: string;
  stderr: string;
}

/** One unit seen on a cluster or on the control-plane host. */
export interface ObservedUnit extends AttemptRef {
  name: string;
  state: "pending" | "running" | "finished" | "absent" | "stopped";
  node: string | null;
  /** The infrastructure's own words for why it is pending. */
  detail: string | null;
  /** Present with "finished": judged by the Worker. */
  verdict: Verdict | null;
  /** For provenance, for example nomad:gpu@1.0.0: of a unit whose start was never answered. */
  ranOn?: string;
}

export interface Observation {
  /** false: the listing failed, says nothing about any unit, and counts for the circuit. */
  ok: boolean;
  error: {
    code: string;
    message: string;
    retryAfterSec: number | null;
    /** The way is missing, not the cluster: nothing is started until it is back, and it does not count for the circuit. */
    relayOffline?: boolean;
  } | null;
  units: ObservedUnit[];
  /** Units in the listing that carry this object's labels, live or not: for drift and the orphan sweep. */
  listed: string[];
}

export type StartAnswer =
  | ({
      kind: "started";
      externalId: string;
      node: string | null;
      runtimeVersion: string;
      /** For the run's provenance, for example nomad:gpu@1.0.0. */
      ranOn?: string;
    } & AttemptRef)
  /** Ends the attempt. */
  | ({ kind: "failed"; failure: Failure } & AttemptRef)
  /** Nothing was started; back to the queue without a charge. */
  | ({
      kind: "withheld";
      reason: "secrets-unavailable" | "relay-offline";
      detail: string;
      retryAfterSec: number;
    } & AttemptRef)
  /** The answer was lost or the cluster is unreachable: repeat under the same name. */
  | ({ kind: "unknown"; error: { code: string; message: string; retryAfterSec: number | null } } & AttemptRef);

/** A registered version of a runtime. */
export interface RuntimeRef {
  /** Workspace, or _shared. */
  owner: string;
  id: string;
  version: string;
  /** Who looks: a local runtime's object is its workspace's. */
  workspace: string;
}

export interface SchedulerRpc {
  /** Idempotent by run id. `envelope` is null for runner objects. */
  enqueue(
    object: string,
    envelope: Envelope | null,
    limits: TenantLimits,
    entries: EnqueueEntry[],
  ): Promise<EnqueueAnswer[]>;
  cancel(runIds: string[], reason: string): Promise<CancelAnswer[]>;
  views(runIds: string[]): Promise<RunView[]>;
  /** Entries of one workspace, or of all (operator); `target` narrows. */
  queueView(query: {
    workspace: string | null;
    target: string | null;
    limit: number;
    after: number | null;
  }): Promise<QueueView>;
  /** To the head of its own workspace's entries; false when it is not waiting here. */
  promote(runId: string): Promise<boolean>;
  setEnvelope(object: string, envelope: Envelope): Promise<void>;
  setLimits(workspace: string, limits: TenantLimits): Promise<void>;
  /** Idempotent by id. */
  pairRunner(object: string, runner: RunnerRecord): Promise<void>;
  /** @returns the attempts that it held, which are lost */
  revokeRunner(id: string): Promise<{ done: boolean; held: AttemptRef[] }>;
  runners(): Promise<RunnerView[]>;
  /** Parks up to request.waitMs. */
  lease(tokenHash: string, request: LeaseRequest): Promise<RunnerAnswer<{ grants: Grant[]; commands: Command[] }>>;
  heartbeat(tokenHash: string, request: HeartbeatRequest): Promise<RunnerAnswer<HeartbeatAnswer>>;
  /** What to grade each still-current attempt of this holder with; the others are simply missing in the answer. */
  gradings(
    tokenHash: string,
    instanceId: string,
    refs: AttemptRef[],
  ): Promise<
    RunnerAnswer<{
      gradings: (AttemptRef & {
        grading: GradingSpec;
        job: Pick<JobTemplate, "timeoutSec" | "resources" | "image">;
        workspace: string;
      })[];
    }>
  >;
  /** Accepts and settles in one step; with `lease`, also grants the next attempts without parking when any result was given. */
  results(
    tokenHash: string,
    instanceId: string,
    results: JudgedResult[],
    lease: LeaseRequest | null,
  ): Promise<RunnerAnswer<{ accepted: Accepted[]; grants: Grant[]; commands: Command[] }>>;
  /** Grants that could not be handed over: back to their place, no charge. */
  withhold(
    items: (AttemptRef & { reason: "secrets-unavailable" | "relay-offline"; detail: string; retryAfterSec: number })[],
  ): Promise<void>;
  /** Grants that can never be handed over, for example a missing secret: the attempt ends with this failure. */
  reject(items: (AttemptRef & { failure: Failure })[]): Promise<void>;
  /** Answer of one observe pass, called by the Dispatcher. */
  observed(observation: Observation): Promise<{ followed: string[] }>;
  /** Somebody watches the output of a run: for a minute, its unit is not removed before its log was read. */
  follow(runId: string): Promise<void>;
  /** A quota object that denied a place here has a free one: ask again. */
  nudge(): Promise<void>;
  /** A relay that was away is connected: what waits for it may be tried. */
  relayBack(): Promise<void>;
  /** Somebody is about to have units of this object stopped by hand. @param by the subject who does */
  evicting(units: string[], by: string): Promise<void>;
  /** Re-arms the alarm and drains the outbox; called by the cron sweep. Answers whether anything is live. */
  sweep(): Promise<{ active: boolean }>;
  /** Prometheus gauges by name. */
  gauges(): Promise<Record<string, number>>;
  /** A look at the runtime's cluster, at most 5 s old; all viewers share one reading. */
  inspect(object: string, runtime: RuntimeRef): Promise<Inspection>;
  /** The cluster was changed by hand: the next look is a new one. */
  forgetInspections(): Promise<void>;
  /** Names of the units of live attempts. */
  liveUnits(): Promise<string[]>;
}

export interface FeedItem {
  runId: string;
  target: string;
}

export type FeedAnswer =
  | { runId: string; ok: true }
  /** The run can never be enqueued; it was settled as failed. */
  | { runId: string; ok: false; settled: RunDigest }
  /** Try again later. */
  | { runId: string; ok: false; retryAfterSec: number; detail: string };

/** The Worker's entrypoint for objects: all network and D1 work is done there. */
export interface DispatcherRpc {
  start(object: string, grants: Grant[]): Promise<StartAnswer[]>;
  /** Starts one observe pass and returns at once; calls back with SchedulerRpc.observed. */
  observe(
    object: string,
    units: (AttemptRef & {
      name: string;
      grading: GradingSpec;
      job: Pick<JobTemplate, "timeoutSec" | "resources" | "image" | "secretEnv" | "git">;
      target: string;
      workspace: string;
      pinnedVersion: string | null;
      nonce: string;
      stopping: boolean;
    })[],
  ): Promise<void>;
  stop(
    object: string,
    units: (AttemptRef & { name: string; target: string; workspace: string; pinnedVersion: string | null })[],
  ): Promise<void>;
  /** A look at a runtime's cluster. Rejects only by our own fault. */
  inspect(object: string, runtime: RuntimeRef): Promise<Inspection>;
  /** Writes terminal records to D1, idempotent by (run, epoch) and guarded by "not terminal"; answers the run ids now stored. */
  settle(settlements: Settlement[]): Promise<string[]>;
  /** Records in D1 whether an object has live state, for the cron sweep. */
  markActive(kind: "scheduler" | "scorecard", name: string, active: boolean): Promise<void>;
  /** Renders and enqueues cases of a scorecard. */
  feed(scorecardId: string, items: FeedItem[]): Promise<FeedAnswer[]>;
  /** Cancels runs of a scorecard in their Schedulers. */
  cancelRuns(scorecardId: string, runIds: string[]): Promise<void>;
  /** Writes the scorecard's progress or its end to D1; answers false when it must be repeated. */
  finishScorecard(scorecardId: string, end: ScorecardEnd): Promise<boolean>;
}

export interface QuotaRpc {
  /** Acquires an in-flight place for each ref; idempotent by (run, epoch). */
  acquire(
    object: string,
    maxInFlight: number,
    refs: AttemptRef[],
  ): Promise<{ granted: AttemptRef[]; denied: AttemptRef[] }>;
  release(object: string, refs: AttemptRef[]): Promise<void>;
  /** Replaces what is held for one object by its live rows. */
  reconcile(object: string, live: AttemptRef[]): Promise<void>;
  /** Token bucket of submits; answers seconds to wait, 0 when taken. */
  takeSubmits(count: number, ratePerSec: number, burst: number): Promise<{ waitSec: number }>;
}

export type { Os };
