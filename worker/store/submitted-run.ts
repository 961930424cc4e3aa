import type { TenantLimits } from "../../contracts/rpc.ts";
import { type Context, iso } from "../context.ts";
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

const AUDIT_COLUMNS = ["id", "workspace", "at", "actor", "action", "target", "requestId", "detail"] as const;

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const insertOf = (table: string, columns: readonly string[]): string =>
  `insert into ${table} (${columns.map(snake).join(", ")}) values (${columns.map(() => "?").join(", ")})`;

// Written once: building them with the query builder was a sixth of a submit's time.
const INSERT_RUN = `${insertOf("runs", RUN_COLUMNS)} on conflict do nothing`;
const INSERT_AUDIT = insertOf("audit", AUDIT_COLUMNS);
const LIMITS = "select weight, max_in_flight as maxInFlight, queue_depth as queueDepth from workspaces where id = ?";

/** Stores a run with its audit row, and reads its workspace's limits on the way: one call. */
export async function storeSubmittedRun(ctx: Context, row: SubmittedRun): Promise<TenantLimits[]> {
  const { d1 } = ctx.store;
  const detail = JSON.stringify({ target: row.target, caseId: row.caseId });
  const audited = [
    ctx.newId("aud"),
    row.workspace,
    iso(ctx.now()),
    ctx.principal.subject,
    "run.submit",
    row.id,
    ctx.requestId,
    detail,
  ];
  const [, , limits] = await d1.batch<TenantLimits>([
    d1.prepare(INSERT_RUN).bind(...RUN_COLUMNS.map((name) => row[name])),
    d1.prepare(INSERT_AUDIT).bind(...audited),
    d1.prepare(LIMITS).bind(row.workspace),
  ]);
  return limits?.results ?? [];
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
