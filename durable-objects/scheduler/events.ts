import type { JobTemplate } from "../../contracts/job.ts";
import type {
  CancelAnswer,
  EnqueueAnswer,
  EnqueueEntry,
  Envelope,
  JudgedResult,
  Observation,
  RunnerRecord,
  Settlement,
  StartAnswer,
  TenantLimits,
} from "../../contracts/rpc.ts";
import type { Failure } from "../../contracts/run.ts";
import type {
  Accepted,
  AttemptRef,
  Command,
  HeartbeatAnswer,
  HeartbeatRequest,
  LeaseRequest,
} from "../../contracts/runner-protocol.ts";

/** An entry without its stored parts, and the facts of its Job that admission reads. */
export interface NewEntry extends Omit<EnqueueEntry, "job" | "grading"> {
  job: Pick<JobTemplate, "needs" | "os" | "timeoutSec" | "graceSec">;
  secrets: boolean;
  jobBytes: number;
}

export type Withheld = AttemptRef & {
  reason: "secrets-unavailable" | "relay-offline";
  detail: string;
  retryAfterSec: number;
};

export type Event =
  | { type: "enqueue"; envelope: Envelope | null; limits: TenantLimits; entries: NewEntry[] }
  | { type: "cancel"; runIds: string[]; reason: string }
  | { type: "promote"; runId: string }
  | { type: "poll"; pollId: number; runnerId: string; request: LeaseRequest }
  | { type: "unpark"; pollId: number }
  | { type: "heartbeat"; runnerId: string; request: HeartbeatRequest }
  | { type: "results"; runnerId: string; instanceId: string; results: JudgedResult[] }
  | { type: "withhold"; items: Withheld[] }
  | { type: "reject"; items: (AttemptRef & { failure: Failure })[] }
  | { type: "startAnswers"; answers: StartAnswer[] }
  | { type: "observed"; observation: Observation }
  | { type: "quota"; workspace: string; granted: AttemptRef[]; denied: AttemptRef[] }
  | { type: "nudge" }
  | { type: "relayBack" }
  | { type: "evicting"; units: readonly string[]; by: string }
  | { type: "envelope"; envelope: Envelope }
  | { type: "limits"; workspace: string; limits: TenantLimits }
  | { type: "pair"; runner: RunnerRecord }
  | { type: "revoke"; runnerId: string }
  | { type: "tick" }
  | { type: "pump" };

export interface UnitRef extends AttemptRef {
  name: string;
  target: string;
  workspace: string;
  pinnedVersion: string | null;
}

export type Effect =
  | { kind: "enqueued"; answers: EnqueueAnswer[] }
  | { kind: "cancelled"; answers: CancelAnswer[] }
  | { kind: "promoted"; done: boolean }
  | { kind: "heartbeat"; answer: HeartbeatAnswer }
  | { kind: "results"; accepted: Accepted[] }
  | { kind: "revoked"; done: boolean; held: AttemptRef[] }
  /** An attempt came into being; the shell gives it its nonce before the row is written. */
  | { kind: "grant"; runId: string; epoch: number }
  | { kind: "answerPoll"; pollId: number; grants: AttemptRef[]; commands: Command[] }
  /** The runner was revoked while it was parked. */
  | { kind: "refusePoll"; pollId: number }
  | { kind: "start"; refs: AttemptRef[] }
  | { kind: "stop"; units: UnitRef[] }
  | { kind: "observe"; refs: AttemptRef[] }
  | { kind: "acquireQuota"; workspace: string; maxInFlight: number; refs: AttemptRef[] }
  | { kind: "releaseQuota"; workspace: string; refs: AttemptRef[] }
  | { kind: "reconcileQuota"; workspace: string; live: AttemptRef[] }
  | { kind: "settle"; settlement: Settlement }
  | { kind: "started"; scorecardId: string; runId: string }
  | { kind: "log"; event: string; fields: Record<string, string | number | boolean | null> };
