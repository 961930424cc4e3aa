import * as z from "zod";
import { RunId, ScorecardId, Version, WorkspaceId } from "./names.ts";
import { between } from "./numbers.ts";
import { FAILURE_CLASSES, RUN_STATUSES } from "./run-states.ts";

export { FAILURE_CLASSES, isTerminal, RUN_STATUSES, TERMINAL_STATUSES } from "./run-states.ts";

export const Timestamp = z.string().max(30).describe("ISO 8601 UTC with milliseconds");

export const RunStatus = z.enum(RUN_STATUSES).describe("A failing grade is a succeeded run with a low score");
export type RunStatus = z.infer<typeof RunStatus>;

export const FailureClass = z
  .enum(FAILURE_CLASSES)
  .describe("Whose fault it was: ours and the machine's, the configuration's, the harness's, the agent's");
export type FailureClass = z.infer<typeof FailureClass>;
export const FailureStage = z.enum(["dispatch", "install", "run", "collect", "grade"]).describe("How far it came");

export const Failure = z
  .strictObject({
    stage: FailureStage,
    class: FailureClass,
    code: z
      .string()
      .max(60)
      .regex(/^[A-Z][A-Z0-9_]*$/)
      .describe("Stable upper-case code, for example OOM_KILLED"),
    message: z.string().max(4_000).describe("The cause and the knob to turn"),
    retryable: z.boolean(),
    placement: z
      .strictObject({
        unit: z.string().max(253).nullable().describe("External name of the attempt"),
        node: z.string().max(253).nullable(),
        events: z.array(z.string().max(2_000)).max(50).describe("The infrastructure's own words"),
      })
      .optional(),
    logTail: z.string().max(16_384).optional().describe("Last lines of output"),
  })
  .describe("Why there is no trustworthy measurement");
export type Failure = z.infer<typeof Failure>;

export const Score = z.strictObject({
  name: z.string().max(200),
  kind: z.string().max(40),
  score: between(0, 1),
  pass: z.boolean(),
  weight: between(0, 1_000),
  detail: z.string().max(2_000).nullable().describe("What was expected and found"),
});
export type Score = z.infer<typeof Score>;

export const RunResult = z
  .strictObject({
    exitCode: z.number().int().nullable(),
    score: between(0, 1).describe("Weighted mean of the graders"),
    pass: z.boolean().describe("Every grader scored 1"),
    scores: z.array(Score).max(64),
    durationMs: z.number().int().min(0),
    stdoutTail: z.string().max(16_384).describe("Last 4 KiB of standard output"),
    outputs: z
      .array(
        z.strictObject({
          path: z.string().max(1_000),
          bytes: z.number().int().min(0),
          truncated: z.boolean().optional(),
        }),
      )
      .max(200),
    notes: z
      .array(z.string().max(1_000))
      .max(20)
      .optional()
      .describe("Facts worth knowing, for example an out-of-memory kill the agent survived"),
  })
  .describe("The measurement");
export type RunResult = z.infer<typeof RunResult>;

export const WAIT_REASONS = [
  "slots",
  "memory",
  "cpu",
  "quota",
  "concurrency",
  "reservation",
  "circuit",
  "no-runner",
  "relay-offline",
  "backoff",
  "secrets-unavailable",
  "cluster",
] as const;
export type WaitReason = (typeof WAIT_REASONS)[number];

export const Waiting = z
  .strictObject({
    position: z
      .number()
      .int()
      .min(1)
      .nullable()
      .describe("Rank among this workspace's entries for the target; null before the scorecard feeds it"),
    reason: z.enum(WAIT_REASONS).describe("The one constraint that holds it back"),
    detail: z.string().max(2_000).describe("The constraint in words and figures"),
    etaSec: z
      .number()
      .int()
      .min(0)
      .nullable()
      .describe("Estimate from observed durations; null when nothing was observed"),
  })
  .describe("Why the run has not started");
export type Waiting = z.infer<typeof Waiting>;

export const Provenance = z
  .strictObject({
    ranOn: z.string().max(300).describe("For example nomad:gpu@1.0.0 or runner:rnr-…"),
    runner: z.string().max(60).nullable(),
    node: z.string().max(253).nullable(),
    attestation: z
      .enum(["managed", "self_reported"])
      .describe("managed: the control plane's own evidence; self_reported: a runner's word"),
  })
  .describe("Where it really ran");
export type Provenance = z.infer<typeof Provenance>;

export const ATTEMPT_STATES = [
  "granted",
  "running",
  "stopping",
  "succeeded",
  "failed",
  "lost",
  "released",
  "superseded",
  "cancelled",
] as const;
export const Attempt = z.strictObject({
  epoch: z.number().int().min(1),
  externalId: z.string().max(63).nullable(),
  holder: z.string().max(300).describe("Who executes it: runner:<id> or cluster:<runtime>"),
  state: z.enum(ATTEMPT_STATES),
  grantedAt: Timestamp,
  startedAt: Timestamp.nullable(),
  endedAt: Timestamp.nullable(),
  reason: z.string().max(1_000).nullable(),
});
export type Attempt = z.infer<typeof Attempt>;

export const Run = z
  .strictObject({
    id: RunId,
    workspace: WorkspaceId,
    status: RunStatus,
    target: z.string().max(200),
    runtime: z.strictObject({ id: z.string().max(63), version: Version }).nullable(),
    harness: z
      .strictObject({ id: z.string().max(63), version: z.string().max(80) })
      .describe("An anonymous harness has id 'anonymous' and version '0.0.0'"),
    caseId: z.string().max(200),
    trial: z.number().int().min(1),
    scorecardId: ScorecardId.nullable(),
    createdBy: z.string().max(300),
    createdAt: Timestamp,
    startedAt: Timestamp.nullable(),
    finishedAt: Timestamp.nullable(),
    epoch: z.number().int().min(0),
    waiting: Waiting.nullable(),
    result: RunResult.nullable(),
    failure: Failure.nullable(),
    provenance: Provenance.nullable(),
    attempts: z.array(Attempt).max(200),
  })
  .describe("One execution of one case");
export type Run = z.infer<typeof Run>;
