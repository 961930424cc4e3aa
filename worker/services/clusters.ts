import { and, eq, sql } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import type { ControlResult, Inspection, WorkloadView } from "../../contracts/inspection.ts";
import { SHARED_OWNER } from "../../contracts/names.ts";
import type { BodyOf, ParamsOf } from "../../contracts/operations/operation.ts";
import type { REGISTRY_OPERATIONS } from "../../contracts/operations/registry.ts";
import { RuntimeSpec } from "../../contracts/runtime-spec.ts";
import { runtimeObject } from "../compute/resolve.ts";
import type { Context } from "../context.ts";
import { controlRuntime } from "../dispatch/inspect.ts";
import { schedulerOf } from "../environment.ts";
import { auditRow } from "../observability/audit.ts";
import { find } from "../registry/registry.ts";
import { runs } from "../store/schema.ts";

type Ops = typeof REGISTRY_OPERATIONS;

async function runtimeOf(ctx: Context, { id, version }: ParamsOf<Ops["inspect_runtime"]>) {
  const { workspace } = ctx.principal;
  const row = await find(ctx.store, "runtime", workspace, id, version);
  const spec = RuntimeSpec.parse(JSON.parse(row.spec));
  const object = runtimeObject(spec, row.owner, workspace);
  return { spec, object, ref: { owner: row.owner, id: row.id, version: row.version, workspace } };
}

/**
 * The same answer, given back to the runtime: what an object hands on from another call carries that call's disposer, and
 * is held on the object's side until it is disposed. The data itself stays.
 */
function released<T extends object>(answer: T): T {
  const dispose: unknown = Reflect.get(answer, Symbol.dispose);
  if (typeof dispose === "function") dispose.call(answer);
  return answer;
}

/** GET /runtimes/{id}/versions/{version}/inspect: one reading for all who look within 5 s. */
export async function inspectRuntime(
  ctx: Context,
  { params }: { params: ParamsOf<Ops["inspect_runtime"]> },
): Promise<Inspection> {
  const { object, ref } = await runtimeOf(ctx, params);
  const seen = released(await schedulerOf(ctx.env, object).inspect(object, ref));
  const stranger = ref.owner === SHARED_OWNER && !ctx.principal.operator;
  return stranger ? withoutNeighbours(ctx, seen) : seen;
}

/** `evd-<object>-<run>-<epoch>` names a run. */
const runOf = ({ unit }: WorkloadView): string | null => {
  const base32 = /^evd-[0-9a-z]{8}-([0-9a-z]{26})-\d+$/.exec(unit)?.[1];
  return base32 === undefined ? null : `run_${base32}`;
};

/** A shared runtime is shared by workspaces that do not know of each other: nobody sees another's runs, nor addresses. */
async function withoutNeighbours(ctx: Context, seen: Inspection): Promise<Inspection> {
  const shown = seen.workload ?? [];
  const ids = shown.flatMap((view) => runOf(view) ?? []);
  const rows =
    ids.length === 0
      ? []
      : await ctx.store
          .select({ id: runs.id })
          .from(runs)
          .where(
            and(
              eq(runs.workspace, ctx.principal.workspace),
              sql`${runs.id} in (select value from json_each(${JSON.stringify(ids)}))`,
            ),
          )
          .all();
  const own = new Set<string | null>(rows.map(({ id }) => id));
  return {
    ...seen,
    nodes: seen.nodes?.map((node) => ({ ...node, address: null })) ?? null,
    workload: seen.workload === null ? null : shown.filter((view) => own.has(runOf(view))),
    warnings:
      seen.workload === null
        ? seen.warnings
        : [...seen.warnings.slice(0, 19), "workload: of a shared runtime only this workspace's own is shown"],
  };
}

/** POST /runtimes/{id}/versions/{version}/control. @throws EverdictError as controlRuntime says */
export async function controlCluster(
  ctx: Context,
  { params, body }: { params: ParamsOf<Ops["control_runtime"]>; body: BodyOf<Ops["control_runtime"]> },
): Promise<ControlResult> {
  const { spec, object, ref } = await runtimeOf(ctx, params);
  if (ref.owner === SHARED_OWNER && !ctx.principal.operator)
    throw new EverdictError("FORBIDDEN", `runtime '${ref.id}' is shared; only operators of the deployment control it`);
  if (spec.kind === "local")
    throw new EverdictError("BAD_REQUEST", "a local runtime has no cluster to control; cancel its runs instead");
  // Told before it is done: an action that takes effect while we crash is told all the same.
  const { action, ...detail } = body;
  await auditRow(ctx, `runtime.${action}`, `${ref.id}@${ref.version}`, detail).run();
  // Before it stops: the next look at the cluster may come first.
  if (body.action === "stopWorkload")
    await schedulerOf(ctx.env, object).evicting([body.workload], ctx.principal.subject);
  return controlRuntime(ctx.env, object, ref, body);
}
