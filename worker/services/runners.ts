import { and, asc, eq, gt } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { LIMITS } from "../../contracts/names.ts";
import type { BodyOf, OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { RUNNER_OPERATIONS } from "../../contracts/operations/runners.ts";
import { tokenObject } from "../auth/authenticate.ts";
import { randomSecret, sha256 } from "../auth/digest.ts";
import { userObject, workspaceObject } from "../compute/resolve.ts";
import { type Context, iso } from "../context.ts";
import { logOf, schedulerOf } from "../environment.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { auditRow } from "../observability/audit.ts";
import { runners } from "../store/schema.ts";

type Ops = typeof RUNNER_OPERATIONS;
type Whose = "own" | "workspace";

/** The object that leases to these runners. @throws EverdictError BAD_REQUEST for a key that acts as no person */
function objectOf(ctx: Context, whose: Whose): string {
  if (whose === "workspace") return workspaceObject(ctx.principal.workspace);
  if (ctx.principal.person === null) {
    throw new EverdictError(
      "BAD_REQUEST",
      "this API key acts as the workspace and owns no machines; use a personal key, or /workspace/runners",
    );
  }
  return userObject(ctx.principal.person);
}

export const listRunners =
  (whose: Whose) =>
  async (ctx: Context, { query }: { query: QueryOf<Ops["list_runners"]> }): Promise<OutputOf<Ops["list_runners"]>> => {
    if (whose === "own" && ctx.principal.person === null) return { items: [], nextCursor: null };
    const object = objectOf(ctx, whose);
    const limit = query.limit ?? LIMITS.pageDefault;
    const after = await readCursor(ctx, `runners:${object}`, query.cursor);
    const rows = await ctx.store
      .select()
      .from(runners)
      .where(and(eq(runners.object, object), after ? gt(runners.id, String(after[0])) : undefined))
      .orderBy(asc(runners.id))
      .limit(limit + 1)
      .all();
    const shown = rows.slice(0, limit);
    const live = new Map(
      shown.length > 0 ? (await schedulerOf(ctx.env, object).runners()).map((view) => [view.id, view]) : [],
    );
    const last = shown.at(-1);
    const items = shown.map((row) => {
      const view = live.get(row.id);
      return {
        id: row.id,
        label: row.label,
        owner: row.owner,
        online: view?.online ?? false,
        lastSeenAt: view?.lastSeenAt ?? null,
        os: view?.os ?? null,
        arch: view?.arch ?? null,
        version: view?.version ?? null,
        hostname: view?.hostname ?? null,
        capabilities: view?.capabilities ?? [],
        labels: view?.labels ?? [],
        slots: view?.slots ?? { total: 0, free: 0 },
        running: view?.running ?? [],
        createdAt: row.createdAt,
      };
    });
    return {
      items,
      nextCursor: rows.length > limit && last ? await writeCursor(ctx, `runners:${object}`, [last.id]) : null,
    };
  };

export const pairRunner =
  (whose: Whose) =>
  async (ctx: Context, { body }: { body: BodyOf<Ops["pair_runner"]> }): Promise<OutputOf<Ops["pair_runner"]>> => {
    const object = objectOf(ctx, whose);
    const id = ctx.newId("rnr");
    const token = `rnr_${tokenObject(object)}.${randomSecret()}`;
    await schedulerOf(ctx.env, object).pairRunner(object, { id, label: body.label, tokenHash: await sha256(token) });
    const row = {
      id,
      object,
      owner: whose === "own" ? ctx.principal.subject : ctx.principal.workspace,
      label: body.label,
      createdBy: ctx.principal.subject,
      createdAt: iso(ctx.now()),
    };
    await ctx.store.batch([
      ctx.store.insert(runners).values(row).onConflictDoNothing(),
      auditRow(ctx, "runner.pair", id, { label: body.label, whose }),
    ]);
    return { id, label: body.label, token, command: `npx everdict runner --pair ${token} --api-url ${ctx.origin}` };
  };

export const revokeRunner =
  (whose: Whose) =>
  async (ctx: Context, { params }: { params: ParamsOf<Ops["revoke_runner"]> }): Promise<undefined> => {
    const object = objectOf(ctx, whose);
    const row = await ctx.store
      .select({ id: runners.id })
      .from(runners)
      .where(and(eq(runners.id, params.id), eq(runners.object, object)))
      .get();
    if (!row)
      throw new EverdictError(
        "NOT_FOUND",
        `runner '${params.id}' is not ${whose === "own" ? "one of yours" : `a runner of workspace '${ctx.principal.workspace}'`}`,
        { data: { runner: params.id } },
      );
    // The object first: it is the one that answers the runner.
    const { held } = await schedulerOf(ctx.env, object).revokeRunner(params.id);
    // Their log tokens are good until then.
    await Promise.all(held.map(({ runId, epoch }) => logOf(ctx.env, runId).close(epoch)));
    await ctx.store.batch([
      ctx.store.delete(runners).where(eq(runners.id, params.id)),
      auditRow(ctx, "runner.revoke", params.id),
    ]);
    return undefined;
  };
