import { and, desc, eq, gt } from "drizzle-orm";
import { formatId } from "../../contracts/names.ts";
import type { OutputOf, QueryOf } from "../../contracts/operations/operation.ts";
import { HISTORY_STEP_SEC, type QUEUE_HISTORY_OPERATIONS } from "../../contracts/operations/queue-history.ts";
import { isTerminal } from "../../contracts/run-states.ts";
import { type Context, iso } from "../context.ts";
import { runs } from "../store/schema.ts";
import { viewsOf } from "./runs.ts";

type Ops = typeof QUEUE_HISTORY_OPERATIONS;
type History = OutputOf<Ops["get_queue_history"]>;

/** A run that was submitted earlier and waits or runs still is left out. */
const LOOK_BACK_MS = 24 * 3_600_000;
/** Ids are in order of time, so this is a range of the index. */
const MAX_ROWS = 20_000;
const MAX_TARGETS = 1_000;

export interface Span {
  target: string;
  /** Epoch milliseconds; null: not yet. */
  createdAt: number;
  startedAt: number | null;
  finishedAt: number | null;
}

/**
 * How many runs ran and waited at each of `steps` times from `from` on.
 * @param from epoch milliseconds @param stepMs milliseconds between two counts
 */
export function countOver(spans: readonly Span[], from: number, stepMs: number, steps: number): History["targets"] {
  const changes = new Map<string, { inFlight: number[]; waiting: number[] }>();
  // A run counts at the times in [start, end).
  const add = (list: number[], start: number, end: number | null) => {
    const first = Math.max(0, Math.ceil((start - from) / stepMs));
    const past = end === null ? steps : Math.max(0, Math.ceil((end - from) / stepMs));
    if (first >= steps || past <= first) return;
    list[first] = (list[first] ?? 0) + 1;
    if (past < steps) list[past] = (list[past] ?? 0) - 1;
  };
  for (const { target, createdAt, startedAt, finishedAt } of spans) {
    let change = changes.get(target);
    if (!change) {
      change = { inFlight: new Array(steps).fill(0), waiting: new Array(steps).fill(0) };
      changes.set(target, change);
    }
    add(change.waiting, createdAt, startedAt ?? finishedAt);
    if (startedAt !== null) add(change.inFlight, startedAt, finishedAt);
  }
  const summed = (list: number[]) => {
    let sum = 0;
    return list.map((step) => (sum += step));
  };
  return [...changes]
    .map(([target, { inFlight, waiting }]) => ({ target, inFlight: summed(inFlight), waiting: summed(waiting) }))
    .filter(({ inFlight, waiting }) => inFlight.some(Boolean) || waiting.some(Boolean))
    .sort((a, b) => (a.target < b.target ? -1 : 1));
}

/** GET /queue/history: from stored runs, and of those that have not ended from their Schedulers. */
export async function getQueueHistory(
  ctx: Context,
  { query }: { query: QueryOf<Ops["get_queue_history"]> },
): Promise<History> {
  const now = ctx.now();
  const stepMs = HISTORY_STEP_SEC * 1_000;
  const minutes = query.minutes ?? 60;
  // The last time is now.
  const from = now - minutes * 60_000;
  const steps = Math.floor((now - from) / stepMs) + 1;
  const rows = await ctx.store
    .select({
      id: runs.id,
      object: runs.object,
      target: runs.target,
      status: runs.status,
      createdAt: runs.createdAt,
      startedAt: runs.startedAt,
      finishedAt: runs.finishedAt,
    })
    .from(runs)
    .where(
      and(
        eq(runs.workspace, ctx.principal.workspace),
        gt(runs.id, formatId("run", now - LOOK_BACK_MS, new Uint8Array(10))),
      ),
    )
    .orderBy(desc(runs.id))
    .limit(MAX_ROWS + 1)
    .all();
  const read = rows.slice(0, MAX_ROWS);
  const views = await viewsOf(
    ctx,
    read.filter(({ status }) => !isTerminal(status)),
  );
  const ms = (at: string | null | undefined): number | null => (at == null ? null : Date.parse(at));
  const spans = read.map((row) => ({
    target: row.target,
    createdAt: Date.parse(row.createdAt),
    startedAt: ms(row.startedAt ?? views.get(row.id)?.startedAt),
    finishedAt: ms(row.finishedAt ?? views.get(row.id)?.finishedAt),
  }));
  return {
    from: iso(from),
    stepSec: HISTORY_STEP_SEC,
    complete: rows.length <= MAX_ROWS,
    targets: countOver(spans, from, stepMs, steps).slice(0, MAX_TARGETS),
  };
}
