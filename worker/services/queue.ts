import { EverdictError } from "../../contracts/errors.ts";
import { LIMITS, SHARED_OWNER } from "../../contracts/names.ts";
import type { OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { QUEUE_OPERATIONS } from "../../contracts/operations/runs.ts";
import type { QueueView } from "../../contracts/rpc.ts";
import { isTerminal, type Run } from "../../contracts/run.ts";
import { RuntimeSpec } from "../../contracts/runtime-spec.ts";
import { resolveTarget, runtimeObject, userObject, workspaceObject } from "../compute/resolve.ts";
import type { Context } from "../context.ts";
import { schedulerOf } from "../environment.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { auditRow } from "../observability/audit.ts";
import { list } from "../registry/registry.ts";
import { cancelRun, findRun, getRun } from "./runs.ts";

type Ops = typeof QUEUE_OPERATIONS;

/** Scheduler objects a workspace can meet, in a fixed order: its runtimes and shared ones, its runners, the caller's own. */
async function objectsOf(ctx: Context, target: string | undefined): Promise<string[]> {
  if (target !== undefined) return [(await resolveTarget(ctx.store, ctx.config, ctx.principal, target)).object];
  const objects = new Set<string>([workspaceObject(ctx.principal.workspace)]);
  if (ctx.principal.person !== null) objects.add(userObject(ctx.principal.person));
  let cursor: string | undefined;
  do {
    const page = await list(ctx, "runtime", { limit: LIMITS.pageMax, cursor, archived: "true" });
    for (const { row, owner } of page.items) {
      const spec = RuntimeSpec.parse(JSON.parse(row.spec));
      objects.add(
        runtimeObject(spec, owner === SHARED_OWNER ? SHARED_OWNER : ctx.principal.workspace, ctx.principal.workspace),
      );
    }
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return [...objects].sort();
}

/** GET /queue: lanes of every object on the first page, entries of this workspace over all pages. */
export async function getQueue(
  ctx: Context,
  { query }: { query: QueryOf<Ops["get_queue"]> },
): Promise<OutputOf<Ops["get_queue"]>> {
  const limit = query.limit ?? LIMITS.pageDefault;
  const { workspace } = ctx.principal;
  const scope = `queue:${workspace}:${query.target ?? ""}`;
  const position = await readCursor(ctx, scope, query.cursor);
  const objects = await objectsOf(ctx, query.target);
  const startObject = position ? String(position[0]) : "";
  const lanes: QueueView["lanes"] = [];
  const entries: QueueView["entries"] = [];
  let next: [string, number] | null = null;
  for (const object of objects) {
    if (position && object < startObject) continue;
    const after = position && object === startObject ? Number(position[1]) : null;
    const view = await schedulerOf(ctx.env, object).queueView({
      workspace,
      target: query.target ?? null,
      limit: Math.max(1, limit - entries.length),
      after,
    });
    if (!position || object !== startObject) lanes.push(...view.lanes);
    if (entries.length >= limit) {
      if (view.entries.length > 0) {
        next = [object, 0];
        break;
      }
      continue;
    }
    entries.push(...view.entries);
    if (view.next !== null) {
      next = [object, view.next];
      break;
    }
  }
  return {
    lanes,
    entries: entries.map(({ runId, target, position: rank, enqueuedAt, waiting }) => ({
      runId,
      target,
      position: rank,
      enqueuedAt,
      waiting,
    })),
    nextCursor: next ? await writeCursor(ctx, scope, next) : null,
  };
}

export async function promote(ctx: Context, input: { params: ParamsOf<Ops["promote_queue_entry"]> }): Promise<Run> {
  const row = await findRun(ctx, input.params.id);
  const promoted =
    row.object !== null && !isTerminal(row.status) && (await schedulerOf(ctx.env, row.object).promote(row.id));
  if (!promoted) throw notWaiting(await getRun(ctx, input), row.object !== null, "there is nothing to move");
  await auditRow(ctx, "queue.promote", row.id).run();
  return getRun(ctx, input);
}

/** Why a run has no place in a queue. @param fed whether its scorecard has handed it to one */
function notWaiting(run: Run, fed: boolean, advice: string): EverdictError {
  const waits = fed
    ? "has no place in its queue now"
    : "is in no queue yet: its scorecard feeds it when others have ended";
  const state = isTerminal(run.status)
    ? `has ended: ${run.status}`
    : run.status === "queued"
      ? waits
      : `waits no longer: ${run.status}`;
  return new EverdictError("CONFLICT", `run '${run.id}' ${state}; ${advice}`, { data: { status: run.status } });
}

/** Only what still waits: a run that has started is cancelled by POST /runs/{id}/cancel. */
export async function cancelEntry(
  ctx: Context,
  input: { params: ParamsOf<Ops["cancel_queue_entry"]> },
): Promise<undefined> {
  const run = await getRun(ctx, input);
  if (run.status !== "queued")
    throw notWaiting(
      run,
      true,
      isTerminal(run.status) ? "there is nothing to cancel" : `cancel it with POST /runs/${run.id}/cancel`,
    );
  await cancelRun(ctx, input);
  return undefined;
}
