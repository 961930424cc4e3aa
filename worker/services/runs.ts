import { and, desc, eq, isNull, lt } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { LIMITS } from "../../contracts/names.ts";
import type { BodyOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { RUN_OPERATIONS } from "../../contracts/operations/runs.ts";
import { isTerminal, type Run } from "../../contracts/run.ts";
import { allowed } from "../auth/principal.ts";
import { defaultTarget, resolveTarget } from "../compute/resolve.ts";
import { type Context, iso, withDeadline } from "../context.ts";
import { schedulerOf, scorecardOf } from "../environment.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { renderCase } from "../lanes/job.ts";
import {
  anonymousHarness,
  checkCase,
  checkFits,
  checkJobSecrets,
  commandBody,
  declaredMemory,
  entryOf,
  gate,
  limitsIn,
  loadHarness,
  takeSubmit,
} from "../lanes/submit.ts";
import { auditRow } from "../observability/audit.ts";
import { overlay, type RunRow, runOf } from "../store/run-rows.ts";
import { withdrawRun } from "../store/runs-budget.ts";
import { runs } from "../store/schema.ts";
import { acknowledge, storeSubmittedRun } from "../store/submitted-run.ts";

type Ops = typeof RUN_OPERATIONS;
const OBJECT_MS = 10_000;

/**
 * POST /runs: checks everything that can be checked now, counts and stores the run, hands it to its Scheduler, answers.
 * @throws EverdictError BUDGET_EXCEEDED; RATE_LIMITED when its queue is full, and then it does not count
 */
export async function submitRun(ctx: Context, input: { body: BodyOf<Ops["submit_run"]> }): Promise<Run> {
  const { body } = input;
  const { store, env, config, principal } = ctx;
  checkCase(body.case, "case");
  const named = body.runtime ?? body.case.placement?.target;
  if (
    body.runtime !== undefined &&
    body.case.placement?.target !== undefined &&
    body.runtime !== body.case.placement.target
  ) {
    throw new EverdictError("BAD_REQUEST", "runtime and case.placement.target name different targets", {
      issues: [
        {
          path: "runtime",
          message: `must equal case.placement.target ('${body.case.placement.target}'), or leave one out`,
        },
      ],
    });
  }
  const target = named ?? defaultTarget(config, principal.workspace);
  if (target === "auto") {
    throw new EverdictError("BAD_REQUEST", "'auto' shares the cases of a scorecard; a run names one target", {
      issues: [{ path: "runtime", message: "name one target" }],
    });
  }
  const harness =
    "spec" in body.harness
      ? anonymousHarness(body.harness.spec)
      : await loadHarness(store, principal.workspace, body.harness);
  const command = commandBody(harness);
  const [resolved] = await Promise.all([
    resolveTarget(store, config, principal, target),
    takeSubmit(env, principal.workspace, ctx.now()),
  ]);
  gate(resolved, command, body.case);
  const rendered = await renderCase(command, body.case, resolved.runtime?.spec ?? null);
  checkFits(resolved, rendered.ask, body.case.id);
  await checkJobSecrets(env, config, store, principal.workspace, command, [body.case]);
  const row = {
    id: ctx.newId("run"),
    workspace: principal.workspace,
    status: "queued",
    target,
    object: resolved.object,
    runtimeId: resolved.runtime?.id ?? null,
    runtimeVersion: resolved.runtime?.version ?? null,
    pinnedVersion: resolved.pinnedVersion,
    harnessOwner: harness.owner,
    harnessId: harness.id,
    harnessVersion: harness.version,
    harnessSpec: harness.owner === null ? JSON.stringify(harness.spec) : null,
    caseId: body.case.id,
    caseBody: JSON.stringify(body.case),
    trial: 1,
    retries: body.retries,
    queueTimeoutSec: body.queueTimeoutSec ?? null,
    priority: body.priority,
    memoryMb: declaredMemory(rendered.ask),
    createdBy: principal.subject,
    createdAt: iso(ctx.now()),
  };
  const limits = await storeSubmittedRun(ctx, row);
  const entry = entryOf({ ...row, scorecardId: null, priority: body.priority }, resolved, rendered);
  const [answer] = await withDeadline(
    schedulerOf(env, resolved.object).enqueue(resolved.object, resolved.envelope, limitsIn(limits), [entry]),
    OBJECT_MS,
    "the scheduler",
  );
  if (answer && !answer.ok) {
    await withdrawRun(store.d1, row.id);
    throw answer.code === "QUEUE_FULL"
      ? new EverdictError("RATE_LIMITED", answer.detail, { retryAfterSec: answer.retryAfterSec })
      : new EverdictError("PAYLOAD_TOO_LARGE", answer.detail);
  }
  acknowledge(ctx, row.id);
  return {
    id: row.id,
    workspace: row.workspace,
    status: "queued",
    target,
    runtime: resolved.runtime ? { id: resolved.runtime.id, version: resolved.runtime.version } : null,
    harness: { id: harness.id, version: harness.version },
    caseId: row.caseId,
    trial: 1,
    scorecardId: null,
    createdBy: row.createdBy,
    createdAt: row.createdAt,
    startedAt: null,
    finishedAt: null,
    epoch: 0,
    waiting: null,
    result: null,
    failure: null,
    provenance: null,
    attempts: [],
  };
}

/** The stored row of a run of this workspace. @throws EverdictError NOT_FOUND, also for another workspace's */
export async function findRun(ctx: Context, id: string): Promise<RunRow> {
  const row = await ctx.store
    .select()
    .from(runs)
    .where(and(eq(runs.id, id), eq(runs.workspace, ctx.principal.workspace)))
    .get();
  if (!row)
    throw new EverdictError("NOT_FOUND", `run '${id}' does not exist in workspace '${ctx.principal.workspace}'`, {
      data: { run: id },
    });
  return row;
}

type Views = Map<string, Awaited<ReturnType<ReturnType<typeof schedulerOf>["views"]>>[number]>;

/** Ids of rows by a key; rows without one are left out. */
function idsBy<R extends { id: string }>(rows: readonly R[], key: (row: R) => string | null): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const row of rows) {
    const name = key(row);
    if (name === null) continue;
    const ids = groups.get(name);
    if (ids) ids.push(row.id);
    else groups.set(name, [row.id]);
  }
  return groups;
}

/** What Schedulers know of runs that have not ended: one call per object, however many runs. */
export async function viewsOf(ctx: Context, rows: readonly Pick<RunRow, "id" | "object">[]): Promise<Views> {
  const views: Views = new Map();
  const asked = [...idsBy(rows, (row) => row.object)].map(async ([object, ids]) => {
    const found = await withDeadline(schedulerOf(ctx.env, object).views(ids), OBJECT_MS, "the scheduler");
    for (const view of found) views.set(view.runId, view);
  });
  await Promise.all(asked);
  return views;
}

/** Why runs wait that no Scheduler knows: their scorecard holds them back, or a queue refused them. */
async function waitingOf(ctx: Context, rows: readonly RunRow[]): Promise<Map<string, Run["waiting"]>> {
  const waiting = new Map<string, Run["waiting"]>();
  const asked = [...idsBy(rows, (row) => row.scorecardId)].map(async ([scorecardId, ids]) => {
    const found = await withDeadline(scorecardOf(ctx.env, scorecardId).waiting(ids), OBJECT_MS, "the scorecard");
    for (const item of found) waiting.set(item.runId, item.waiting);
  });
  await Promise.all(asked);
  return waiting;
}

/** Lays live views over stored runs: one call per object, however many runs. */
export async function withLive(ctx: Context, rows: readonly RunRow[]): Promise<Run[]> {
  const open = rows.filter((row) => !isTerminal(row.status));
  const views = await viewsOf(ctx, open);
  const waiting = await waitingOf(
    ctx,
    open.filter((row) => !views.has(row.id)),
  );
  return rows.map((row) => {
    const view = views.get(row.id);
    const run = runOf(row);
    if (view) return overlay(run, view);
    return isTerminal(run.status) ? run : { ...run, waiting: waiting.get(row.id) ?? null };
  });
}

export async function getRun(ctx: Context, input: { params: ParamsOf<Ops["get_run"]> }): Promise<Run> {
  const row = await findRun(ctx, input.params.id);
  const [run] = await withLive(ctx, [row]);
  if (run && !isTerminal(run.status) && run.status === "queued" && run.waiting === null && row.object !== null) {
    // The object has already forgotten it: the outbox has been here since the row was read.
    return runOf(await findRun(ctx, input.params.id));
  }
  return run ?? runOf(row);
}

export async function listRuns(
  ctx: Context,
  input: { query: QueryOf<Ops["list_runs"]> },
): Promise<{ items: Run[]; nextCursor: string | null }> {
  const { query } = input;
  const limit = query.limit ?? LIMITS.pageDefault;
  const scope = `runs:${ctx.principal.workspace}:${query.status ?? ""}:${query.scorecardId ?? ""}:${query.target ?? ""}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const rows = await ctx.store
    .select()
    .from(runs)
    .where(
      and(
        eq(runs.workspace, ctx.principal.workspace),
        storedStatus(query.status),
        query.scorecardId === undefined ? undefined : eq(runs.scorecardId, query.scorecardId),
        query.target === undefined ? undefined : eq(runs.target, query.target),
        after ? lt(runs.id, String(after[0])) : undefined,
      ),
    )
    .orderBy(desc(runs.id))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const live = await withLive(ctx, shown);
  return {
    items: query.status === undefined ? live : live.filter((run) => run.status === query.status),
    nextCursor: rows.length > limit && last ? await writeCursor(ctx, scope, [last.id]) : null,
  };
}

/** D1 knows a run as queued until it ends; the phases between are the object's. */
function storedStatus(status: Run["status"] | undefined) {
  if (status === undefined) return undefined;
  return eq(runs.status, isTerminal(status) ? status : "queued");
}

/** @throws EverdictError FORBIDDEN unless the caller made it or may cancel anyone's */
export function requireCancel(ctx: Context, what: string, createdBy: string): void {
  if (createdBy === ctx.principal.subject || allowed(ctx.principal, "runs:cancel-any")) return;
  throw new EverdictError("FORBIDDEN", `${what} was submitted by '${createdBy}'; only they or an admin may cancel it`);
}

export async function cancelRun(ctx: Context, input: { params: ParamsOf<Ops["cancel_run"]> }): Promise<Run> {
  const row = await findRun(ctx, input.params.id);
  requireCancel(ctx, `run '${row.id}'`, row.createdBy);
  const over = (status: string) =>
    new EverdictError("CONFLICT", `run '${row.id}' has already ended: ${status}`, { data: { status } });
  if (isTerminal(row.status)) throw over(row.status);
  await auditRow(ctx, "run.cancel", row.id).run();
  if (row.object === null && (await cancelUnfed(ctx, row))) return runOf(await findRun(ctx, row.id));
  const { object } = row.object === null ? await findRun(ctx, row.id) : row;
  if (object === null) throw over("cancelled");
  const [answer] = await withDeadline(
    schedulerOf(ctx.env, object).cancel([row.id], `cancelled by ${ctx.principal.subject}`),
    OBJECT_MS,
    "the scheduler",
  );
  if (answer?.state === "terminal") throw over((await getRun(ctx, input)).status);
  if (answer?.state === "tombstoned") {
    await ctx.store
      .update(runs)
      .set({ status: "cancelled", finishedAt: iso(ctx.now()) })
      .where(and(eq(runs.id, row.id), eq(runs.status, "queued")))
      .run();
  }
  return getRun(ctx, input);
}

/** A run that its scorecard has not fed yet is nowhere but in D1. Answers whether it could be ended there. */
async function cancelUnfed(ctx: Context, row: RunRow): Promise<boolean> {
  const done = await ctx.store
    .update(runs)
    .set({ status: "cancelled", finishedAt: iso(ctx.now()) })
    .where(and(eq(runs.id, row.id), eq(runs.status, "queued"), isNull(runs.object)))
    .run();
  if (done.meta.changes === 0) return false;
  if (row.scorecardId !== null) {
    const digest = {
      runId: row.id,
      status: "cancelled" as const,
      score: null,
      pass: null,
      durationMs: null,
      failureClass: null,
      failureCode: null,
      failureStage: null,
    };
    await scorecardOf(ctx.env, row.scorecardId).settled([digest]);
  }
  return true;
}

export async function getPlacement(ctx: Context, input: { params: ParamsOf<Ops["get_run_placement"]> }) {
  const row = await findRun(ctx, input.params.id);
  const [run, views] = await Promise.all([getRun(ctx, input), isTerminal(row.status) ? null : viewsOf(ctx, [row])]);
  const placed = views?.get(row.id)?.placed ?? null;
  const last = run.attempts.at(-1);
  const events = [
    ...(run.failure?.placement?.events ?? []),
    ...(placed?.detail ? [placed.detail] : []),
    ...run.attempts.flatMap((attempt) =>
      attempt.reason === null ? [] : [`attempt ${attempt.epoch}: ${attempt.reason}`],
    ),
  ];
  return {
    unit: last?.externalId ?? run.failure?.placement?.unit ?? null,
    node: run.provenance?.node ?? run.failure?.placement?.node ?? placed?.node ?? null,
    ranOn: run.provenance?.ranOn ?? placed?.ranOn ?? null,
    state: last?.state ?? run.status,
    waiting: run.waiting,
    events,
  };
}
