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
  /** Declared, MiB; null: none. */
  memoryMb: number | null;
}

type Stay = readonly [start: number, end: number | null, weight: number];

/** The most weight that was there at once in the time before each step; at the first step, what was there then. */
function peaks(stays: readonly Stay[], from: number, stepMs: number, steps: number): number[] {
  const events = stays
    .flatMap(([start, end, weight]) => [[start, weight] as const, ...(end === null ? [] : [[end, -weight] as const])])
    // One that leaves makes room for one that comes at the same moment.
    .sort(([a, x], [b, y]) => a - b || x - y);
  const most: number[] = new Array(steps).fill(0);
  let there = 0;
  let step = 0;
  const raise = (at: number) => {
    most[at] = Math.max(most[at] ?? 0, there);
  };
  for (const [time, change] of events) {
    const at = Math.max(0, Math.ceil((time - from) / stepMs));
    while (step < Math.min(at, steps - 1)) raise(++step);
    if (at >= steps) break;
    there += change;
    if (time <= from) most[0] = there;
    else raise(at);
  }
  while (step < steps - 1) raise(++step);
  return most;
}

/**
 * The most runs that ran and that waited at once, and the memory of those that ran, in each of `steps` spans, each ending `stepMs` after the one before; a run
 * that came and went between two looks is counted too.
 * @param from end of the first span, epoch milliseconds
 */
export function countOver(spans: readonly Span[], from: number, stepMs: number, steps: number): History["targets"] {
  const byTarget = new Map<string, { inFlight: Stay[]; waiting: Stay[]; memory: Stay[] }>();
  for (const { target, createdAt, startedAt, finishedAt, memoryMb } of spans) {
    const stays = byTarget.get(target) ?? { inFlight: [], waiting: [], memory: [] };
    byTarget.set(target, stays);
    stays.waiting.push([createdAt, startedAt ?? finishedAt, 1]);
    if (startedAt === null) continue;
    stays.inFlight.push([startedAt, finishedAt, 1]);
    if (memoryMb !== null) stays.memory.push([startedAt, finishedAt, memoryMb]);
  }
  return [...byTarget]
    .map(([target, { inFlight, waiting, memory }]) => ({
      target,
      inFlight: peaks(inFlight, from, stepMs, steps),
      waiting: peaks(waiting, from, stepMs, steps),
      memoryMb: peaks(memory, from, stepMs, steps),
    }))
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
      memoryMb: runs.memoryMb,
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
    memoryMb: row.memoryMb,
  }));
  return {
    from: iso(from),
    stepSec: HISTORY_STEP_SEC,
    complete: rows.length <= MAX_ROWS,
    targets: countOver(spans, from, stepMs, steps).slice(0, MAX_TARGETS),
  };
}
