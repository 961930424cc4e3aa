import type { TenantLimits } from "../../contracts/rpc.ts";
import type { Context } from "../context.ts";
import {
  type Asked,
  auditIfCounted,
  countBinds,
  countedBinds,
  countText,
  insertIfCounted,
  overBudget,
  type Told,
  toldBinds,
  toldIn,
  toldLimits,
  toldText,
} from "./runs-budget.ts";
import type { runs } from "./schema.ts";

/** The row of a run that is submitted alone; every other column has its default. */
export type SubmittedRun = Pick<
  typeof runs.$inferSelect,
  | "id"
  | "workspace"
  | "status"
  | "target"
  | "object"
  | "runtimeId"
  | "runtimeVersion"
  | "pinnedVersion"
  | "harnessOwner"
  | "harnessId"
  | "harnessVersion"
  | "harnessSpec"
  | "caseId"
  | "caseBody"
  | "trial"
  | "retries"
  | "queueTimeoutSec"
  | "priority"
  | "memoryMb"
  | "createdBy"
  | "createdAt"
>;

const RUN_COLUMNS = [
  "id",
  "workspace",
  "status",
  "target",
  "object",
  "runtimeId",
  "runtimeVersion",
  "pinnedVersion",
  "harnessOwner",
  "harnessId",
  "harnessVersion",
  "harnessSpec",
  "caseId",
  "caseBody",
  "trial",
  "retries",
  "queueTimeoutSec",
  "priority",
  "memoryMb",
  "createdBy",
  "createdAt",
] as const satisfies readonly (keyof SubmittedRun)[];

// Written once: building them with the query builder was a sixth of a submit's time.
const COUNT = countText("not exists (select 1 from runs where id = ?4)");
const INSERT_RUN = insertIfCounted("runs", RUN_COLUMNS);
const TOLD = toldText("runs");

/**
 * Counts and stores a run with its audit row, and reads its workspace's limits on the way: one call. A run that is stored
 * already, because its request is repeated after a crash, stays as it is and does not count again.
 * @throws EverdictError BUDGET_EXCEEDED, and then nothing is stored
 */
export async function storeSubmittedRun(ctx: Context, row: SubmittedRun): Promise<TenantLimits[]> {
  const { d1 } = ctx.store;
  const asked: Asked = { workspace: row.workspace, atMs: Date.parse(row.createdAt), runs: 1, id: row.id };
  const answers = await d1.batch<Told>([
    d1.prepare(COUNT).bind(...countBinds(asked)),
    d1.prepare(INSERT_RUN).bind(...RUN_COLUMNS.map((name) => row[name]), ...countedBinds(asked)),
    auditIfCounted(ctx, asked, "run.submit", row.id, { target: row.target, caseId: row.caseId }),
    d1.prepare(TOLD).bind(...toldBinds(asked)),
  ]);
  const told = toldIn(answers);
  if (!told.accepted) throw overBudget(told, asked);
  return toldLimits(told);
}

/** How long acknowledgements are gathered; the sweep repeats what was not acknowledged for 10 s. */
const GATHER_MS = 250;
/** A gathering whose request was cut off is given up. */
const STALE_MS = 5_000;
let gathering: { since: number; ids: string[] } | null = null;

/** Notes that a run's Scheduler has it; the notes of a moment are written together. */
export function acknowledge(ctx: Context, id: string): void {
  if (gathering && ctx.now() - gathering.since < STALE_MS) {
    gathering.ids.push(id);
    return;
  }
  const ids = [...(gathering?.ids ?? []), id];
  const mine = { since: ctx.now(), ids };
  gathering = mine;
  ctx.waitUntil(
    new Promise((resolve) => setTimeout(resolve, GATHER_MS)).then(() => {
      if (gathering === mine) gathering = null;
      return ctx.store.d1
        .prepare("update runs set acknowledged = 1 where id in (select value from json_each(?))")
        .bind(JSON.stringify(ids))
        .run();
    }),
  );
}
