import * as z from "zod";
import { EvalCase } from "../case.ts";
import { HarnessBody } from "../harness.ts";
import { RunId, ScorecardId } from "../names.ts";
import { whole } from "../numbers.ts";
import { FailureClass, Run, RunStatus, Waiting } from "../run.ts";
import { Ref, Scorecard, ScorecardRequest, Target } from "../scorecard.ts";
import { operation } from "./operation.ts";
import { NoParams, NoQuery, PageQuery, page, queryInt, StreamQuery } from "./shapes.ts";

const RunParams = z.strictObject({ id: RunId });
const ScorecardParams = z.strictObject({ id: ScorecardId });

export const RunRequest = z
  .strictObject({
    harness: z
      .union([Ref, z.strictObject({ spec: HarnessBody })])
      .describe("A registered harness, or an anonymous one that is kept with the run"),
    case: EvalCase,
    runtime: Target.optional(),
    retries: whole(0, 5).default(0),
    queueTimeoutSec: whole(0, 604_800, "seconds")
      .optional()
      .describe(
        "Seconds it may wait while no capable runner is online; default 300 for one named runner, else 0 (for ever)",
      ),
    priority: z.enum(["interactive", "batch"]).default("interactive"),
  })
  .describe("One case on one target");

const LogQuery = {
  stream: z.enum(["stdout", "stderr", "both"]).default("both"),
  epoch: queryInt(1, 1_000_000).optional().describe("Attempt; default the latest"),
};

export const RUN_OPERATIONS = {
  submit_run: operation({
    name: "submit_run",
    openWorld: true,
    method: "POST",
    path: "/runs",
    group: "runs",
    summary: "Run one case",
    audience: "user",
    action: "runs:submit",
    params: NoParams,
    query: NoQuery,
    body: RunRequest,
    status: 202,
    output: Run,
    creates: true,
    maxBodyBytes: 2 * 1024 * 1024,
  }),
  list_runs: operation({
    name: "list_runs",
    method: "GET",
    path: "/runs",
    group: "runs",
    summary: "List runs, newest first",
    audience: "user",
    action: "runs:read",
    params: NoParams,
    query: z.strictObject({
      ...PageQuery,
      status: RunStatus.optional(),
      scorecardId: ScorecardId.optional(),
      target: z.string().min(1).max(200).optional(),
    }),
    status: 200,
    output: page(Run),
  }),
  get_run: operation({
    name: "get_run",
    method: "GET",
    path: "/runs/{id}",
    group: "runs",
    summary: "Read a run: why it waits, its attempts, its result",
    audience: "user",
    action: "runs:read",
    params: RunParams,
    query: NoQuery,
    status: 200,
    output: Run,
  }),
  cancel_run: operation({
    name: "cancel_run",
    idempotent: true,
    method: "POST",
    path: "/runs/{id}/cancel",
    group: "runs",
    summary: "Cancel a run",
    audience: "user",
    action: "runs:cancel",
    params: RunParams,
    query: NoQuery,
    status: 202,
    output: Run,
    destructive: true,
  }),
  get_run_logs: operation({
    name: "get_run_logs",
    method: "GET",
    path: "/runs/{id}/logs",
    group: "runs",
    summary: "Read the output of a run",
    audience: "user",
    action: "runs:read",
    params: RunParams,
    query: z.strictObject({
      ...LogQuery,
      tailBytes: queryInt(1, 8 * 1024 * 1024)
        .optional()
        .describe("Only the last bytes; default 1 MiB"),
    }),
    status: 200,
    output: z.string(),
    outputType: "text",
  }),
  stream_run_logs: operation({
    name: "stream_run_logs",
    method: "GET",
    path: "/runs/{id}/logs/stream",
    group: "runs",
    summary: "Follow the output of a run (SSE: log, run, end; resumes by Last-Event-ID)",
    description:
      "A log event is {epoch, stream, offset, text}. On a cluster the live stream is 'both'; with the result the streams come apart, with replay: true when all of it was in the live log.",
    audience: "user",
    action: "runs:read",
    params: RunParams,
    query: StreamQuery,
    status: 200,
    outputType: "sse",
    noTool: "MCP tool calls return one answer; use get_run and get_run_logs",
  }),
  get_run_placement: operation({
    name: "get_run_placement",
    method: "GET",
    path: "/runs/{id}/placement",
    group: "runs",
    summary: "Where a run is or was, in the infrastructure's words",
    audience: "user",
    action: "runs:read",
    params: RunParams,
    query: NoQuery,
    status: 200,
    output: z.strictObject({
      unit: z.string().nullable(),
      node: z.string().nullable(),
      ranOn: z.string().nullable(),
      state: z.string(),
      waiting: Waiting.nullable(),
      events: z.array(z.string()),
    }),
  }),
};

const Side = z.strictObject({
  score: z.number().nullable(),
  pass: z.boolean().nullable(),
  status: z.string(),
  runs: z.number().int(),
});

export const SCORECARD_OPERATIONS = {
  run_scorecard: operation({
    name: "run_scorecard",
    openWorld: true,
    method: "POST",
    path: "/scorecards",
    group: "scorecards",
    summary: "Run a dataset with a harness on one or several targets",
    audience: "user",
    action: "runs:submit",
    params: NoParams,
    query: NoQuery,
    body: ScorecardRequest,
    status: 202,
    output: Scorecard,
    creates: true,
  }),
  list_scorecards: operation({
    name: "list_scorecards",
    method: "GET",
    path: "/scorecards",
    group: "scorecards",
    summary: "List scorecards, newest first",
    audience: "user",
    action: "runs:read",
    params: NoParams,
    query: z.strictObject({
      ...PageQuery,
      status: z.enum(["queued", "running", "succeeded", "failed", "cancelled"]).optional(),
    }),
    status: 200,
    output: page(Scorecard),
  }),
  compare_scorecards: operation({
    name: "compare_scorecards",
    method: "GET",
    path: "/scorecards/compare",
    group: "scorecards",
    summary: "Compare two scorecards case by case",
    audience: "user",
    action: "runs:read",
    params: NoParams,
    query: z.strictObject({ a: ScorecardId, b: ScorecardId }),
    status: 200,
    output: z.strictObject({
      a: Scorecard,
      b: Scorecard,
      passRateDifference: z.number().nullable().describe("b − a, over measured runs"),
      improved: z.number().int().describe("Cases whose mean score is higher in b"),
      regressed: z.number().int(),
      unchanged: z.number().int(),
      cases: z
        .array(
          z.strictObject({
            caseId: z.string(),
            a: Side.nullable(),
            b: Side.nullable(),
            difference: z.number().nullable(),
          }),
        )
        .max(10_000),
    }),
  }),
  get_scorecard: operation({
    name: "get_scorecard",
    method: "GET",
    path: "/scorecards/{id}",
    group: "scorecards",
    summary: "Read a scorecard: progress and summary",
    audience: "user",
    action: "runs:read",
    params: ScorecardParams,
    query: NoQuery,
    status: 200,
    output: Scorecard,
  }),
  list_scorecard_runs: operation({
    name: "list_scorecard_runs",
    method: "GET",
    path: "/scorecards/{id}/runs",
    group: "scorecards",
    summary: "List the runs of a scorecard in case order",
    audience: "user",
    action: "runs:read",
    params: ScorecardParams,
    query: z.strictObject({ ...PageQuery, status: RunStatus.optional(), class: FailureClass.optional() }),
    status: 200,
    output: page(Run),
  }),
  stream_scorecard: operation({
    name: "stream_scorecard",
    method: "GET",
    path: "/scorecards/{id}/stream",
    group: "scorecards",
    summary: "Follow a scorecard (SSE: progress, run, end; resumes by Last-Event-ID)",
    audience: "user",
    action: "runs:read",
    params: ScorecardParams,
    query: StreamQuery,
    status: 200,
    outputType: "sse",
    noTool: "MCP tool calls return one answer; use get_scorecard",
  }),
  cancel_scorecard: operation({
    name: "cancel_scorecard",
    idempotent: true,
    method: "POST",
    path: "/scorecards/{id}/cancel",
    group: "scorecards",
    summary: "Cancel what has not ended",
    audience: "user",
    action: "runs:cancel",
    params: ScorecardParams,
    query: NoQuery,
    status: 202,
    output: Scorecard,
    destructive: true,
  }),
  retry_scorecard: operation({
    name: "retry_scorecard",
    openWorld: true,
    method: "POST",
    path: "/scorecards/{id}/retry",
    group: "scorecards",
    summary: "Run again what was not measured, by failure class",
    description: "New runs replace the failed ones in the scorecard's result; the old runs stay readable.",
    audience: "user",
    action: "runs:submit",
    params: ScorecardParams,
    query: z.strictObject({
      class: FailureClass.optional().describe("Only failures of this class; default every class"),
    }),
    status: 202,
    output: Scorecard,
    creates: true,
  }),
};

const Slots = z.strictObject({ total: z.number().int(), inFlight: z.number().int() });
const Budget = z.strictObject({ budget: z.number().int(), inFlight: z.number().int() });

export const QUEUE_OPERATIONS = {
  get_queue: operation({
    name: "get_queue",
    method: "GET",
    path: "/queue",
    group: "queue",
    summary: "What waits where, and why",
    audience: "user",
    action: "queue:read",
    params: NoParams,
    query: z.strictObject({ ...PageQuery, target: z.string().min(1).max(200).optional() }),
    status: 200,
    output: z.strictObject({
      lanes: z.array(
        z.strictObject({
          lane: z.string(),
          target: z.string(),
          slots: Slots,
          memoryMb: Budget.nullable(),
          cpu: Budget.nullable(),
          queued: z.number().int(),
          oldestSec: z.number().int(),
          health: z.strictObject({ state: z.enum(["ok", "degraded", "open"]), detail: z.string().nullable() }),
          drift: z.number().describe("0 unless the books are wrong"),
        }),
      ),
      entries: z.array(
        z.strictObject({
          runId: RunId,
          target: z.string(),
          position: z.number().int(),
          enqueuedAt: z.string(),
          waiting: Waiting,
        }),
      ),
      nextCursor: z.string().nullable(),
    }),
  }),
  promote_queue_entry: operation({
    name: "promote_queue_entry",
    idempotent: true,
    method: "POST",
    path: "/queue/entries/{id}/promote",
    group: "queue",
    summary: "Move a waiting run to the head of its own workspace's share",
    audience: "user",
    action: "queue:promote",
    params: RunParams,
    query: NoQuery,
    status: 200,
    output: Run,
  }),
  cancel_queue_entry: operation({
    name: "cancel_queue_entry",
    method: "DELETE",
    path: "/queue/entries/{id}",
    group: "queue",
    summary: "Cancel a waiting run",
    audience: "user",
    action: "runs:cancel",
    params: RunParams,
    query: NoQuery,
    status: 204,
    destructive: true,
  }),
};
