import { and, asc, desc, eq, gt, inArray, lt } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { LIMITS } from "../../contracts/names.ts";
import type { BodyOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { SCORECARD_OPERATIONS } from "../../contracts/operations/runs.ts";
import { isTerminal, type Run } from "../../contracts/run.ts";
import { type Scorecard, ScorecardProgress } from "../../contracts/scorecard.ts";
import type { ScorecardPlan } from "../../contracts/scorecard-rpc.ts";
import { type Context, iso, withDeadline } from "../context.ts";
import { scorecardOf as objectOf } from "../environment.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { type SseEvent, sseResponse } from "../http/sse.ts";
import { checkSize, loadCases, scorecardTargets, selectCases } from "../lanes/scorecard.ts";
import { checkJobSecrets, commandBody, loadHarness, takeSubmit } from "../lanes/submit.ts";
import { auditRow } from "../observability/audit.ts";
import { find } from "../registry/registry.ts";
import { runs, scorecards } from "../store/schema.ts";
import {
  insertScorecardRuns,
  type PlannedRun,
  reopenScorecard,
  type ScorecardRow,
  scorecardOf,
  storeScorecard,
} from "../store/scorecard-rows.ts";
import { requireCancel, withLive } from "./runs.ts";

type Ops = typeof SCORECARD_OPERATIONS;
const OBJECT_MS = 15_000;

/** POST /scorecards: accepted whole or refused whole. @throws EverdictError BUDGET_EXCEEDED, among others */
export async function runScorecard(ctx: Context, input: { body: BodyOf<Ops["run_scorecard"]> }): Promise<Scorecard> {
  const { body } = input;
  const { store, env, config, principal } = ctx;
  const [dataset, harness] = await Promise.all([
    find(store, "dataset", principal.workspace, body.dataset.id, body.dataset.version),
    loadHarness(store, principal.workspace, body.harness),
  ]);
  const command = commandBody(harness);
  const chosen = selectCases(await loadCases(store, dataset.owner, dataset.id, dataset.version), body.cases);
  checkSize(chosen.length * body.trials);
  const targets = await scorecardTargets(ctx, body, command, chosen);
  await checkJobSecrets(
    env,
    config,
    store,
    principal.workspace,
    command,
    chosen.map((item) => item.case),
  );
  await takeSubmit(env, principal.workspace, ctx.now());
  const total = chosen.length * body.trials;
  const row: ScorecardRow = {
    id: ctx.newId("sc"),
    workspace: principal.workspace,
    status: "queued",
    datasetOwner: dataset.owner,
    datasetId: dataset.id,
    datasetVersion: dataset.version,
    harnessOwner: harness.owner ?? principal.workspace,
    harnessId: harness.id,
    harnessVersion: harness.version,
    targets,
    explicitTargets: body.runtime !== undefined,
    concurrency: body.concurrency,
    retries: body.retries,
    trials: body.trials,
    priority: body.priority,
    queueTimeoutSec: body.queueTimeoutSec ?? null,
    principal: { subject: principal.subject, person: principal.person },
    createdBy: principal.subject,
    createdAt: iso(ctx.now()),
    finishedAt: null,
    progress: { total, queued: total, running: 0, succeeded: 0, failed: 0, cancelled: 0 },
    summary: null,
    acknowledged: false,
    complete: false,
  };
  const planned: PlannedRun[] = [];
  for (let trial = 1; trial <= body.trials; trial++) {
    for (const item of chosen)
      planned.push({ runId: ctx.newId("run"), caseId: item.case.id, trial, seq: planned.length });
  }
  await storeScorecard(ctx, row, total, {
    dataset: `${row.datasetId}@${row.datasetVersion}`,
    harness: `${row.harnessId}@${row.harnessVersion}`,
    targets,
    runs: total,
  });
  await insertScorecardRuns(store, row, planned);
  await store.update(scorecards).set({ complete: true }).where(eq(scorecards.id, row.id)).run();
  await begin(ctx, row, planned);
  return scorecardOf(row);
}

async function begin(ctx: Context, row: ScorecardRow, planned: ScorecardPlan["runs"]): Promise<void> {
  const plan: ScorecardPlan = {
    id: row.id,
    workspace: row.workspace,
    targets: row.targets,
    concurrency: row.concurrency,
    runs: planned.map(({ runId, caseId, trial, replaces }) => ({
      runId,
      caseId,
      trial,
      ...(replaces === undefined ? {} : { replaces }),
    })),
  };
  await withDeadline(objectOf(ctx.env, row.id).begin(plan), OBJECT_MS, "the scorecard");
  await ctx.store.update(scorecards).set({ acknowledged: true }).where(eq(scorecards.id, row.id)).run();
}

/** Begins a stored plan again, for the sweep: the object ignores what it has. */
export async function beginStored(ctx: Context, row: ScorecardRow): Promise<void> {
  const stored = await ctx.store
    .select({ runId: runs.id, caseId: runs.caseId, trial: runs.trial })
    .from(runs)
    .where(and(eq(runs.scorecardId, row.id), eq(runs.replaced, false)))
    .orderBy(asc(runs.seq))
    .all();
  await begin(ctx, row, stored);
}

/** The stored row of a scorecard of this workspace. @throws EverdictError NOT_FOUND, also for another workspace's */
export async function findScorecard(ctx: Context, id: string): Promise<ScorecardRow> {
  const row = await ctx.store
    .select()
    .from(scorecards)
    .where(and(eq(scorecards.id, id), eq(scorecards.workspace, ctx.principal.workspace), eq(scorecards.complete, true)))
    .get();
  if (!row)
    throw new EverdictError("NOT_FOUND", `scorecard '${id}' does not exist in workspace '${ctx.principal.workspace}'`, {
      data: { scorecard: id },
    });
  return row;
}

async function live(ctx: Context, row: ScorecardRow): Promise<Scorecard> {
  if (isTerminal(row.status)) return scorecardOf(row);
  return scorecardOf(row, await withDeadline(objectOf(ctx.env, row.id).live(), OBJECT_MS, "the scorecard"));
}

export async function getScorecard(
  ctx: Context,
  input: { params: ParamsOf<Ops["get_scorecard"]> },
): Promise<Scorecard> {
  return live(ctx, await findScorecard(ctx, input.params.id));
}

export async function listScorecards(
  ctx: Context,
  input: { query: QueryOf<Ops["list_scorecards"]> },
): Promise<{ items: Scorecard[]; nextCursor: string | null }> {
  const { query } = input;
  const limit = query.limit ?? LIMITS.pageDefault;
  const scope = `scorecards:${ctx.principal.workspace}:${query.status ?? ""}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const open = query.status === "queued" || query.status === "running";
  const rows = await ctx.store
    .select()
    .from(scorecards)
    .where(
      and(
        eq(scorecards.workspace, ctx.principal.workspace),
        eq(scorecards.complete, true),
        query.status === undefined
          ? undefined
          : open
            ? inArray(scorecards.status, ["queued", "running"])
            : eq(scorecards.status, query.status),
        after ? lt(scorecards.id, String(after[0])) : undefined,
      ),
    )
    .orderBy(desc(scorecards.id))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const items = await Promise.all(shown.map((row) => live(ctx, row)));
  return {
    items: query.status === undefined ? items : items.filter((item) => item.status === query.status),
    nextCursor: rows.length > limit && last ? await writeCursor(ctx, scope, [last.id]) : null,
  };
}

export async function listScorecardRuns(
  ctx: Context,
  input: { params: ParamsOf<Ops["list_scorecard_runs"]>; query: QueryOf<Ops["list_scorecard_runs"]> },
): Promise<{ items: Run[]; nextCursor: string | null }> {
  const { query } = input;
  const row = await findScorecard(ctx, input.params.id);
  const limit = query.limit ?? LIMITS.pageDefault;
  const scope = `scorecard-runs:${row.id}:${query.status ?? ""}:${query.class ?? ""}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const found = await ctx.store
    .select()
    .from(runs)
    .where(
      and(
        eq(runs.scorecardId, row.id),
        eq(runs.replaced, false),
        query.status === undefined ? undefined : eq(runs.status, isTerminal(query.status) ? query.status : "queued"),
        query.class === undefined ? undefined : eq(runs.failureClass, query.class),
        after ? gt(runs.seq, Number(after[0])) : undefined,
      ),
    )
    .orderBy(asc(runs.seq))
    .limit(limit + 1)
    .all();
  const shown = found.slice(0, limit);
  const last = shown.at(-1);
  const items = await withLive(ctx, shown);
  return {
    items: query.status === undefined ? items : items.filter((run) => run.status === query.status),
    nextCursor: found.length > limit && last ? await writeCursor(ctx, scope, [last.seq ?? 0]) : null,
  };
}

export async function cancelScorecard(
  ctx: Context,
  input: { params: ParamsOf<Ops["cancel_scorecard"]> },
): Promise<Scorecard> {
  const row = await findScorecard(ctx, input.params.id);
  requireCancel(ctx, `scorecard '${row.id}'`, row.createdBy);
  if (isTerminal(row.status))
    throw new EverdictError("CONFLICT", `scorecard '${row.id}' has already ended: ${row.status}`, {
      data: { status: row.status },
    });
  await auditRow(ctx, "scorecard.cancel", row.id).run();
  return scorecardOf(row, await withDeadline(objectOf(ctx.env, row.id).cancel(), OBJECT_MS, "the scorecard"));
}

/**
 * Runs again what was not measured; the new runs take the place of the old ones, and count like others.
 * @throws EverdictError CONFLICT while it runs, or when there is nothing to retry; BUDGET_EXCEEDED
 */
export async function retryScorecard(
  ctx: Context,
  input: { params: ParamsOf<Ops["retry_scorecard"]>; query: QueryOf<Ops["retry_scorecard"]> },
): Promise<Scorecard> {
  const row = await findScorecard(ctx, input.params.id);
  if (!isTerminal(row.status)) {
    const { status } = await live(ctx, row);
    throw new EverdictError("CONFLICT", `scorecard '${row.id}' is still ${status}; retry it when it has ended`, {
      data: { status },
    });
  }
  const wanted = input.query.class;
  const old = await ctx.store
    .select()
    .from(runs)
    .where(
      and(
        eq(runs.scorecardId, row.id),
        eq(runs.replaced, false),
        wanted === undefined
          ? inArray(runs.status, ["failed", "cancelled"])
          : and(eq(runs.status, "failed"), eq(runs.failureClass, wanted)),
      ),
    )
    .orderBy(asc(runs.seq))
    .all();
  if (old.length === 0)
    throw new EverdictError(
      "CONFLICT",
      `scorecard '${row.id}' has no ${wanted === undefined ? "unmeasured" : `'${wanted}'-failed`} run to retry`,
    );
  const planned = old.map((run) => ({
    runId: ctx.newId("run"),
    caseId: run.caseId,
    trial: run.trial,
    seq: run.seq ?? 0,
    replaces: run.id,
  }));
  const progress = ScorecardProgress.parse(row.progress);
  const failed = old.filter((run) => run.status === "failed").length;
  const reopened = {
    ...progress,
    queued: progress.queued + old.length,
    failed: progress.failed - failed,
    cancelled: progress.cancelled - (old.length - failed),
  };
  await reopenScorecard(ctx, row, planned, reopened, { class: wanted ?? null, runs: old.length });
  await begin(ctx, row, planned);
  return getScorecard(ctx, input);
}

/** GET /scorecards/{id}/stream. The end event carries the final scorecard. */
export async function streamScorecard(
  ctx: Context,
  input: { params: ParamsOf<Ops["stream_scorecard"]> },
  request: Request,
): Promise<Response> {
  await findScorecard(ctx, input.params.id);
  const after = Number(request.headers.get("last-event-id") ?? "0");
  return sseResponse(
    request,
    scorecardEvents(ctx, input.params.id, Number.isSafeInteger(after) && after >= 0 ? after : 0),
  );
}

async function* scorecardEvents(ctx: Context, id: string, after: number): AsyncGenerator<SseEvent | null> {
  const object = objectOf(ctx.env, id);
  for (let seq = after; ; ) {
    for (const event of await object.events(seq, 20_000)) {
      seq = event.seq;
      if (event.event === "end") {
        yield { id: String(seq), event: "end", data: await getScorecard(ctx, { params: { id } }) };
        return;
      }
      yield { id: String(seq), event: event.event, data: event.data };
    }
    yield null;
  }
}
