import { EverdictError } from "../../contracts/errors.ts";
import type { TenantLimits } from "../../contracts/rpc.ts";
import { type Context, iso } from "../context.ts";

/*
 * A submit is one batch, which D1 runs as one transaction: first the runs are counted, if the budget holds them; every other
 * write asks whether they were; the last statement tells. So submits at the same moment never go over together, a refused
 * one leaves nothing behind, and none needs a call of its own for it.
 */

/** Runs that one submit asks for. */
export interface Asked {
  workspace: string;
  /** When it is submitted, epoch milliseconds: the calendar month (UTC) of it is the one that counts. */
  atMs: number;
  /** How many runs. */
  runs: number;
  /** Fresh id of what is submitted; by it the rest of the batch knows that the runs were counted. */
  id: string;
}

/** The calendar month of a moment, UTC: `2026-11`. @param atMs epoch milliseconds */
export const monthOf = (atMs: number): string => iso(atMs).slice(0, 7);

/** When the budget of a moment's month begins anew, ISO 8601 UTC. @param atMs epoch milliseconds */
export function resetsAt(atMs: number): string {
  const at = new Date(atMs);
  return iso(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + 1, 1));
}

/**
 * SQL that counts runs unless they would go over the budget, or `guard` does not hold. Binds what `asked` says, as
 * ?1 workspace, ?2 month, ?3 runs, ?4 id; a guard may use these and others from ?5.
 */
export const countText = (guard: string): string => `
  insert into run_usage (workspace, month, used, last_id)
  select ?1, ?2, ?3, ?4 where ${guard} and not exists (
    select 1 from workspaces left join run_usage as spent on spent.workspace = workspaces.id and spent.month = ?2
    where workspaces.id = ?1 and coalesce(spent.used, 0) + ?3 > workspaces.runs_budget)
  on conflict (workspace, month) do update set used = run_usage.used + excluded.used, last_id = excluded.last_id`;

/** What a count binds first. */
export const countBinds = ({ workspace, atMs, runs, id }: Asked) => [workspace, monthOf(atMs), runs, id] as const;

/** SQL condition, in the batch of a count: the runs were counted. */
export const COUNTED = "exists (select 1 from run_usage where workspace = ? and month = ? and last_id = ?)";

/** What COUNTED binds. */
export const countedBinds = ({ workspace, atMs, id }: Asked) => [workspace, monthOf(atMs), id] as const;

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** SQL of an insert, in the batch of a count, that does nothing unless the runs were counted, or when it was done before. */
export const insertIfCounted = (table: string, columns: readonly string[]): string => `
  insert into ${table} (${columns.map(snake).join(", ")})
  select ${columns.map(() => "?").join(", ")} where ${COUNTED} on conflict do nothing`;

const INSERT_AUDIT = insertIfCounted("audit", [
  "id",
  "workspace",
  "at",
  "actor",
  "action",
  "target",
  "requestId",
  "detail",
]);

/** The audit row of a submit, in the batch of its count. Never pass a secret value. */
export function auditIfCounted(
  ctx: Context,
  asked: Asked,
  action: string,
  target: string,
  detail: Record<string, unknown>,
): D1PreparedStatement {
  const { workspace, subject } = ctx.principal;
  const values = [ctx.newId("aud"), workspace, iso(ctx.now()), subject, action, target, ctx.requestId];
  return ctx.store.d1.prepare(INSERT_AUDIT).bind(...values, JSON.stringify(detail), ...countedBinds(asked));
}

/** What the last statement of a submit's batch tells. Limits are null in a workspace without a row: it has the defaults. */
export interface Told {
  accepted: 0 | 1;
  weight: number | null;
  maxInFlight: number | null;
  queueDepth: number | null;
  runsBudget: number | null;
  /** Runs of the month, with those that were just counted. */
  used: number;
}

/** SQL of the last statement: whether the row `?3` of a table is there, and the workspace's limits. Binds as `toldBinds`. */
export const toldText = (table: "runs" | "scorecards"): string => `
  select exists (select 1 from ${table} where id = ?3) as accepted, weight, max_in_flight as maxInFlight,
    queue_depth as queueDepth, runs_budget as runsBudget, coalesce(used, 0) as used
  from (select ?1 as named) left join workspaces on workspaces.id = named
    left join run_usage on run_usage.workspace = named and run_usage.month = ?2`;

/** What the last statement binds. */
export const toldBinds = countedBinds;

/** What a submit's batch told. @throws EverdictError UNAVAILABLE when it told nothing */
export function toldIn(answers: readonly D1Result<Told>[]): Told {
  const told = answers.at(-1)?.results[0];
  if (!told) throw new EverdictError("UNAVAILABLE", "a store did not answer; try again", { retryAfterSec: 2 });
  return told;
}

/** The stored limits of a submit's workspace; none when it has no row. */
export function toldLimits({ weight, maxInFlight, queueDepth }: Told): TenantLimits[] {
  return weight === null || queueDepth === null ? [] : [{ weight, maxInFlight, queueDepth }];
}

/** Whether the budget has no room for what was asked and not counted. */
export const isOver = ({ runsBudget, used }: Told, { runs }: Asked): boolean =>
  runsBudget !== null && used + runs > runsBudget;

/** The refusal of a submit that would go over: BUDGET_EXCEEDED {budget, used, asked, resetsAt}. */
export function overBudget({ runsBudget, used }: Told, { workspace, atMs, runs }: Asked): EverdictError {
  const resets = resetsAt(atMs);
  return new EverdictError(
    "BUDGET_EXCEEDED",
    `workspace '${workspace}' has used ${used} of its ${runsBudget} runs of ${monthOf(atMs)}; ${runs} more would go over. ` +
      `An operator raises it with PUT /workspaces/${workspace}/limits, or it begins anew on ${resets.slice(0, 10)}`,
    { data: { budget: runsBudget, used, asked: runs, resetsAt: resets } },
  );
}

const GIVE_BACK_RUN = `
  update run_usage set used = max(0, used - 1)
  where (workspace, month) = (select workspace, substr(created_at, 1, 7) from runs where id = ?)`;

/** Removes a run that its Scheduler refused, and gives back its place in the budget of its month; a repeat does nothing. */
export async function withdrawRun(d1: D1Database, id: string): Promise<void> {
  await d1.batch([d1.prepare(GIVE_BACK_RUN).bind(id), d1.prepare("delete from runs where id = ?").bind(id)]);
}

const GIVE_BACK_SCORECARD = `
  update run_usage set used = max(0, used - (select progress ->> '$.total' from scorecards where id = ?1))
  where (workspace, month) = (select workspace, substr(created_at, 1, 7) from scorecards where id = ?1 and complete = 0)`;

/** Removes a scorecard whose rows were cut off, and gives back the places of all its runs; a repeat does nothing. */
export async function withdrawScorecard(d1: D1Database, id: string): Promise<void> {
  await d1.batch([
    d1.prepare(GIVE_BACK_SCORECARD).bind(id),
    d1.prepare("delete from runs where scorecard_id = ?").bind(id),
    d1.prepare("delete from scorecards where id = ?").bind(id),
  ]);
}
