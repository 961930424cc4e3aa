import type * as z from "zod";
import { EverdictError } from "../../contracts/errors.ts";
import { Scorecard, ScorecardProgress, ScorecardSummary } from "../../contracts/scorecard.ts";
import type { ScorecardLive } from "../../contracts/scorecard-rpc.ts";
import { type Context, iso, type Store } from "../context.ts";
import {
  type Asked,
  auditIfCounted,
  COUNTED,
  countBinds,
  countedBinds,
  countText,
  insertIfCounted,
  isOver,
  overBudget,
  type Told,
  toldBinds,
  toldIn,
  toldText,
} from "./runs-budget.ts";
import type { scorecards } from "./schema.ts";

export type ScorecardRow = typeof scorecards.$inferSelect;

/** The wire's Scorecard, with the object's live state where it is ahead of the stored one. */
export function scorecardOf(row: ScorecardRow, live: ScorecardLive | null = null): z.infer<typeof Scorecard> {
  return {
    id: row.id,
    workspace: row.workspace,
    status: Scorecard.shape.status.parse(live?.status ?? row.status),
    dataset: { id: row.datasetId, version: row.datasetVersion },
    harness: { id: row.harnessId, version: row.harnessVersion },
    targets: row.targets,
    concurrency: row.concurrency,
    retries: row.retries,
    trials: row.trials,
    createdBy: row.createdBy,
    createdAt: row.createdAt,
    finishedAt: live ? live.finishedAt : row.finishedAt,
    progress: live?.progress ?? ScorecardProgress.parse(row.progress),
    summary: live ? live.summary : ScorecardSummary.nullable().parse(row.summary),
  };
}

/** Rows of one statement: with ids and case names well below D1's 2 MB a bound value. */
const ROWS_PER_STATEMENT = 4_000;

export interface PlannedRun {
  runId: string;
  caseId: string;
  trial: number;
  seq: number;
}

const insertRunsText = (condition: string): string => `
  insert or ignore into runs
    (id, workspace, status, target, harness_owner, harness_id, harness_version, case_id, trial, scorecard_id, seq,
     retries, queue_timeout_sec, priority, created_by, created_at, epoch, attempts, replaced, acknowledged)
  select value ->> 0, ?, 'queued', ?, ?, ?, ?, value ->> 1, value ->> 2, ?, value ->> 3, ?, ?, ?, ?, ?, 0, '[]', 0, 0
  from json_each(?) ${condition}`;

const INSERT_RUNS = insertRunsText("");
const INSERT_RUNS_IF_COUNTED = insertRunsText(`where ${COUNTED}`);

/** What each statement that writes runs of a scorecard binds, some thousand runs in each. */
function runsBinds(row: ScorecardRow, planned: readonly PlannedRun[]): (string | number | null)[][] {
  const out: (string | number | null)[][] = [];
  for (let i = 0; i < planned.length; i += ROWS_PER_STATEMENT) {
    const chunk = planned.slice(i, i + ROWS_PER_STATEMENT).map((run) => [run.runId, run.caseId, run.trial, run.seq]);
    const harness = [row.harnessOwner, row.harnessId, row.harnessVersion];
    const how = [row.retries, row.queueTimeoutSec, row.priority, row.createdBy, row.createdAt];
    out.push([row.workspace, row.targets.join(","), ...harness, row.id, ...how, JSON.stringify(chunk)]);
  }
  return out;
}

/** Writes a scorecard's runs; a repeat changes nothing. */
export async function insertScorecardRuns(
  { d1 }: Store,
  row: ScorecardRow,
  planned: readonly PlannedRun[],
): Promise<void> {
  for (const binds of runsBinds(row, planned))
    await d1
      .prepare(INSERT_RUNS)
      .bind(...binds)
      .run();
}

const SCORECARD_COLUMNS = [
  "id",
  "workspace",
  "status",
  "datasetOwner",
  "datasetId",
  "datasetVersion",
  "harnessOwner",
  "harnessId",
  "harnessVersion",
  "targets",
  "explicitTargets",
  "concurrency",
  "retries",
  "trials",
  "priority",
  "queueTimeoutSec",
  "principal",
  "createdBy",
  "createdAt",
  "finishedAt",
  "progress",
  "summary",
  "acknowledged",
  "complete",
] as const satisfies readonly (keyof ScorecardRow)[];

/** A value as D1 takes it: a flag as 0 or 1, what is not plain as JSON. */
function columnOf(value: unknown): unknown {
  if (typeof value === "boolean") return Number(value);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : value;
}

const COUNT_SCORECARD = countText("not exists (select 1 from scorecards where id = ?4)");
const INSERT_SCORECARD = insertIfCounted("scorecards", SCORECARD_COLUMNS);
const SCORECARD_TOLD = toldText("scorecards");

/**
 * Counts the runs of a scorecard and stores its row, not complete yet. One that is stored already, because its request is
 * repeated after a crash, stays as it is and does not count again.
 * @param runs how many runs will follow
 * @throws EverdictError BUDGET_EXCEEDED, and then nothing is stored
 */
export async function storeScorecard(
  ctx: Context,
  row: ScorecardRow,
  runs: number,
  detail: Record<string, unknown>,
): Promise<void> {
  const { d1 } = ctx.store;
  const asked: Asked = { workspace: row.workspace, atMs: Date.parse(row.createdAt), runs, id: row.id };
  const answers = await d1.batch<Told>([
    d1.prepare(COUNT_SCORECARD).bind(...countBinds(asked)),
    d1.prepare(INSERT_SCORECARD).bind(...SCORECARD_COLUMNS.map((name) => columnOf(row[name])), ...countedBinds(asked)),
    auditIfCounted(ctx, asked, "scorecard.submit", row.id, detail),
    d1.prepare(SCORECARD_TOLD).bind(...toldBinds(asked)),
  ]);
  const told = toldIn(answers);
  if (!told.accepted) throw overBudget(told, asked);
}

// The end that was read is still its end: nobody else has retried it meanwhile.
const COUNT_RETRY = countText(`exists (
    select 1 from scorecards where id = ?5 and status in ('succeeded', 'failed', 'cancelled') and finished_at is ?6)`);
const REPLACE = `update runs set replaced = 1 where id in (select value from json_each(?)) and ${COUNTED}`;
const REOPEN = `
  update scorecards set status = 'running', finished_at = null, summary = null, acknowledged = 0, progress = ?
  where id = ? and ${COUNTED}`;
const RETRY_TOLD = toldText("runs");

/**
 * Counts new runs of a scorecard that has ended, stores them, marks those that they replace, and opens it again: all of it
 * or nothing.
 * @param row as it was read when it had ended
 * @param planned at least one
 * @throws EverdictError BUDGET_EXCEEDED; CONFLICT when another retry was first
 */
export async function reopenScorecard(
  ctx: Context,
  row: ScorecardRow,
  planned: readonly (PlannedRun & { replaces: string })[],
  progress: z.infer<typeof ScorecardProgress>,
  detail: Record<string, unknown>,
): Promise<void> {
  const { d1 } = ctx.store;
  const atMs = ctx.now();
  const asked: Asked = { workspace: row.workspace, atMs, runs: planned.length, id: planned[0]?.runId ?? "" };
  const counted = countedBinds(asked);
  const old = JSON.stringify(planned.map(({ replaces }) => replaces));
  const answers = await d1.batch<Told>([
    d1.prepare(COUNT_RETRY).bind(...countBinds(asked), row.id, row.finishedAt),
    ...runsBinds({ ...row, createdAt: iso(atMs) }, planned).map((binds) =>
      d1.prepare(INSERT_RUNS_IF_COUNTED).bind(...binds, ...counted),
    ),
    d1.prepare(REPLACE).bind(old, ...counted),
    d1.prepare(REOPEN).bind(JSON.stringify(progress), row.id, ...counted),
    auditIfCounted(ctx, asked, "scorecard.retry", row.id, detail),
    d1.prepare(RETRY_TOLD).bind(...toldBinds(asked)),
  ]);
  const told = toldIn(answers);
  if (told.accepted) return;
  if (isOver(told, asked)) throw overBudget(told, asked);
  throw new EverdictError("CONFLICT", `scorecard '${row.id}' is being retried by somebody else`);
}
