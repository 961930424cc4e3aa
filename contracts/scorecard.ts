import * as z from "zod";
import { RegistryId, ScorecardId, VersionRef, WorkspaceId } from "./names.ts";
import { whole } from "./numbers.ts";
import { Timestamp } from "./run.ts";

export const SCORECARD_MAX_RUNS = 50_000;

export const Target = z
  .string()
  .min(1)
  .max(200)
  .describe("A runtime, runtime@version, self, self:<runner>, self:ws or self:ws:<runner>");

export const Ref = z
  .strictObject({ id: RegistryId, version: VersionRef.default("latest") })
  .describe("A registered thing and its version");

export const CaseFilter = z
  .strictObject({
    ids: z
      .array(z.string().min(1).max(200))
      .max(10_000)
      .optional()
      .describe("Only these cases, empty means all; an unknown id is refused"),
    tags: z
      .array(z.string().min(1).max(60))
      .max(20)
      .optional()
      .describe("Only cases with at least one of these tags; empty means all"),
    limit: whole(1, 10_000).optional().describe("At most so many, in dataset order"),
  })
  .describe("Which cases to run");

export const ScorecardRequest = z
  .strictObject({
    dataset: Ref,
    harness: Ref,
    runtime: z
      .union([Target, z.array(Target).min(1).max(32)], "must be one target, or a list of targets")
      .optional()
      .describe(
        "One target, several to share the cases, or 'auto': every capable runtime; overrides placement.target of the cases",
      ),
    concurrency: whole(1, 512).default(4).describe("Cases in flight at once over all targets"),
    retries: whole(0, 5).default(1).describe("Extra attempts after a retryable infrastructure failure"),
    trials: whole(1, 100).default(1).describe("Times each case is run"),
    cases: CaseFilter.optional(),
    priority: z.enum(["interactive", "batch"]).default("batch"),
    queueTimeoutSec: whole(0, 604_800, "seconds")
      .optional()
      .describe("Seconds a run may wait while no capable runner is online; 0 waits"),
  })
  .describe("Dataset × harness × runtimes");
export type ScorecardRequest = z.infer<typeof ScorecardRequest>;

const count = z.number().int().min(0);
const perClass = z.strictObject({ infra: count, config: count, harness: count, agent: count });

export const ScorecardProgress = z.strictObject({
  total: count,
  queued: count,
  running: count,
  succeeded: count,
  failed: count,
  cancelled: count,
});

export const ScorecardSummary = z
  .strictObject({
    passRate: z.number().nullable().describe("Of measured runs"),
    passRateInterval: z.tuple([z.number(), z.number()]).nullable().describe("95 % interval"),
    meanScore: z.number().nullable(),
    measured: count,
    failedByClass: perClass.describe("What was not measured, and whose fault it was"),
    durationMs: z.strictObject({ p50: z.number().nullable(), p95: z.number().nullable() }),
  })
  .describe("The result; passRate counts measured runs only");

export const Scorecard = z
  .strictObject({
    id: ScorecardId,
    workspace: WorkspaceId,
    status: z
      .enum(["queued", "running", "succeeded", "failed", "cancelled"])
      .describe("failed only when nothing was measured"),
    dataset: z.strictObject({ id: z.string(), version: z.string() }),
    harness: z.strictObject({ id: z.string(), version: z.string() }),
    targets: z.array(z.string()),
    concurrency: z.number().int(),
    retries: z.number().int(),
    trials: z.number().int(),
    createdBy: z.string(),
    createdAt: Timestamp,
    finishedAt: Timestamp.nullable(),
    progress: ScorecardProgress,
    summary: ScorecardSummary.nullable(),
  })
  .describe("A batch of runs and its result");
export type Scorecard = z.infer<typeof Scorecard>;
