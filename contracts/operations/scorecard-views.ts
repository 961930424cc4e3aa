import * as z from "zod";
import { CapabilityList } from "../capabilities.ts";
import { Issue } from "../errors.ts";
import { RunId, ScorecardId } from "../names.ts";
import { whole } from "../numbers.ts";
import { FailureClass, RunStatus } from "../run.ts";
import { CaseFilter, Ref } from "../scorecard.ts";
import { operation } from "./operation.ts";
import { NoParams, NoQuery, PageQuery, page, queryInt } from "./shapes.ts";

/** Rows of one page of a grid: short ones, so that a large scorecard is a few requests. */
export const GRID_PAGE_MAX = 5_000;

const GridCell = z
  .strictObject({
    runId: RunId,
    caseId: z.string(),
    trial: z.number().int(),
    status: RunStatus.describe("As stored: 'queued' until the run has ended; the stream tells what runs now"),
    score: z.number().nullable(),
    pass: z.boolean().nullable(),
    durationMs: z.number().int().nullable(),
    attempts: z.number().int().describe("Number of the last attempt"),
    failure: z
      .strictObject({
        class: FailureClass,
        code: z.string().describe("Stable upper-case code, for example OOM_KILLED"),
        message: z.string().describe("The first 300 characters of the cause"),
        retryable: z.boolean(),
      })
      .nullable()
      .describe("Why there is no measurement"),
  })
  .describe("One run of a scorecard, in short");

const Choice = z
  .strictObject({
    target: z.string().describe("What to name as runtime"),
    group: z.enum(["runtime", "own-runners", "workspace-runners"]).describe("Where it belongs in a list"),
    kind: z.string().describe("local, nomad, k8s, pool (any of the runners) or runner"),
    label: z.string(),
    shared: z.boolean().describe("A runtime of the deployment, not of the workspace"),
    ok: z.boolean().describe("Whether it can run every selected case"),
    missing: CapabilityList.describe("Capabilities it lacks"),
    reason: z.string().nullable().describe("Why not, in words; null when it can"),
    online: z.boolean().nullable().describe("Whether it answers now; null when that is not known"),
    slots: z.strictObject({ total: z.number().int(), inFlight: z.number().int() }).nullable(),
    queued: z.number().int(),
  })
  .describe("A place where the cases could run");

export const SCORECARD_VIEW_OPERATIONS = {
  get_scorecard_grid: operation({
    name: "get_scorecard_grid",
    method: "GET",
    path: "/scorecards/{id}/grid",
    group: "scorecards",
    summary: "Every run of a scorecard as a short row, in case order",
    audience: "user",
    action: "runs:read",
    params: z.strictObject({ id: ScorecardId }),
    query: z.strictObject({
      ...PageQuery,
      limit: queryInt(1, GRID_PAGE_MAX).optional().describe(`Rows a page, 1 to ${GRID_PAGE_MAX}; default 1000`),
      status: RunStatus.optional(),
    }),
    status: 200,
    output: page(GridCell),
  }),
  preview_scorecard: operation({
    name: "preview_scorecard",
    readOnly: true,
    method: "POST",
    path: "/scorecards/preview",
    group: "scorecards",
    summary: "What a scorecard would run, what it needs, and which targets have that; starts nothing",
    audience: "user",
    action: "runs:submit",
    params: NoParams,
    query: NoQuery,
    body: z.strictObject({
      dataset: Ref,
      harness: Ref,
      trials: whole(1, 100).default(1).describe("Times each case is run"),
      cases: CaseFilter.optional(),
    }),
    status: 200,
    output: z.strictObject({
      cases: z.number().int().describe("Cases that the filter selects"),
      runs: z.number().int().describe("Cases × trials"),
      needs: CapabilityList.describe("What the selected cases need, all together"),
      problems: z.array(Issue).max(100).describe("Why it would be refused wherever it runs"),
      default: z.string().nullable().describe("Target when none is named; null: one must be named"),
      placed: z.array(z.string()).describe("Targets that the cases' own placement names"),
      targets: z.array(Choice).max(1_000),
    }),
  }),
};
