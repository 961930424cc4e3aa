import type { Failure, RunStatus, Waiting } from "./run.ts";

/* What the Worker and a scorecard's object say to each other; see rpc.ts for the rules. */

/** What a scorecard needs to know of an ended run. */
export interface RunDigest {
  runId: string;
  status: "succeeded" | "failed" | "cancelled";
  score: number | null;
  pass: boolean | null;
  durationMs: number | null;
  failureClass: "infra" | "config" | "harness" | "agent" | null;
  failureCode: string | null;
  /** "dispatch" tells of the target, not of the case: nothing was started there. */
  failureStage: Failure["stage"] | null;
}

export interface ScorecardProgress {
  total: number;
  queued: number;
  running: number;
  succeeded: number;
  failed: number;
  cancelled: number;
}

export interface ScorecardSummary {
  passRate: number | null;
  passRateInterval: [number, number] | null;
  meanScore: number | null;
  measured: number;
  failedByClass: Record<"infra" | "config" | "harness" | "agent", number>;
  durationMs: { p50: number | null; p95: number | null };
}

export interface ScorecardEnd {
  status: "succeeded" | "failed" | "cancelled";
  progress: ScorecardProgress;
  summary: ScorecardSummary;
  finishedAt: string;
}

export interface ScorecardPlan {
  id: string;
  workspace: string;
  targets: string[];
  concurrency: number;
  /** `replaces`: a retry; the run it names no longer counts. */
  runs: { runId: string; caseId: string; trial: number; replaces?: string }[];
}

export interface ScorecardLive {
  status: "queued" | "running" | "succeeded" | "failed" | "cancelled";
  progress: ScorecardProgress;
  summary: ScorecardSummary | null;
  finishedAt: string | null;
}

/** Numbered event of a scorecard's stream; `seq` is the SSE id. */
export type ScorecardEvent =
  | { seq: number; event: "progress"; data: ScorecardProgress }
  | { seq: number; event: "run"; data: { id: string; caseId: string; status: RunStatus; score: number | null } }
  | { seq: number; event: "end" };

export interface ScorecardRpc {
  /** Idempotent by plan id; adds the runs of a later retry when called again with new run ids. */
  begin(plan: ScorecardPlan): Promise<void>;
  cancel(): Promise<ScorecardLive>;
  live(): Promise<ScorecardLive | null>;
  /** Called by a Scheduler after D1 has the settlement; at least once. */
  settled(digests: RunDigest[]): Promise<void>;
  /** Called by a Scheduler when runs start. */
  started(runIds: string[]): Promise<void>;
  /** Why a run of this scorecard that is not fed yet waits; null when it was fed. */
  waiting(runIds: string[]): Promise<{ runId: string; waiting: Waiting | null }[]>;
  /** Events after `seq`; parks up to waitMs when there are none. */
  events(after: number, waitMs: number): Promise<ScorecardEvent[]>;
  sweep(): Promise<{ active: boolean }>;
}
