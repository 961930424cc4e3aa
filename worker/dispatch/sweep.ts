import { and, eq, isNull, lt } from "drizzle-orm";
import { EvalCase } from "../../contracts/case.ts";
import { EverdictError } from "../../contracts/errors.ts";
import { resolveTarget } from "../compute/resolve.ts";
import { type Context, iso, randomIds, storeOf } from "../context.ts";
import { configOf, type Env, schedulerOf, scorecardOf } from "../environment.ts";
import { IDEMPOTENCY_KEPT_MS } from "../http/idempotency.ts";
import { renderCase } from "../lanes/job.ts";
import { commandBody, entryOf, limitsOf } from "../lanes/submit.ts";
import { logEvent } from "../observability/log.ts";
import { beginStored } from "../services/scorecards.ts";
import { harnessOf } from "../store/harness-of-run.ts";
import type { RunRow } from "../store/run-rows.ts";
import { withdrawScorecard } from "../store/runs-budget.ts";
import { activeObjects, endedSessions, idempotency, runs, scorecards } from "../store/schema.ts";
import { settleUnfed } from "./settle-unfed.ts";

/** A request that is still being answered is left alone. */
const SETTLING_MS = 10_000;
/** A scorecard whose run rows were cut off was never acknowledged to anybody. */
const ABANDONED_MS = 10 * 60_000;
const BATCH = 200;

const worded = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}`.slice(0, 300) : "unknown";

/**
 * What an alarm or an answer that was lost would leave undone: wakes objects with live state, hands over what was stored
 * and never acknowledged, forgets what is over.
 */
export async function sweep(env: Env): Promise<void> {
  const now = Date.now();
  const store = storeOf(env);
  const active = await store.select().from(activeObjects).limit(1_000).all();
  for (const { kind, name } of active) {
    try {
      const { active: live } =
        kind === "scheduler" ? await schedulerOf(env, name).sweep() : await scorecardOf(env, name).sweep();
      if (!live)
        await store
          .delete(activeObjects)
          .where(and(eq(activeObjects.kind, kind), eq(activeObjects.name, name)))
          .run();
    } catch (error) {
      logEvent("sweep.object-failed", { kind, name, error: worded(error) });
    }
  }
  await reEnqueue(env, now);
  await beginAgain(env, now);
  await store
    .delete(idempotency)
    .where(lt(idempotency.createdAt, iso(now - IDEMPOTENCY_KEPT_MS)))
    .run();
  await store
    .delete(endedSessions)
    .where(lt(endedSessions.expiresAt, iso(now)))
    .run();
}

async function reEnqueue(env: Env, now: number): Promise<void> {
  const store = storeOf(env);
  const rows = await store
    .select()
    .from(runs)
    .where(
      and(
        eq(runs.acknowledged, false),
        isNull(runs.scorecardId),
        eq(runs.status, "queued"),
        lt(runs.createdAt, iso(now - SETTLING_MS)),
      ),
    )
    .limit(BATCH)
    .all();
  for (const row of rows) {
    try {
      await handOver(env, row);
      await store.update(runs).set({ acknowledged: true }).where(eq(runs.id, row.id)).run();
    } catch (error) {
      logEvent("sweep.enqueue-failed", { runId: row.id, error: worded(error) });
    }
  }
}

/** Hands a run over; one that never can be ends, and says why. @throws what may be different the next time */
async function handOver(env: Env, row: RunRow): Promise<void> {
  try {
    await enqueueStored(env, row);
  } catch (error) {
    if (!(error instanceof EverdictError) || error.status >= 500 || error.code === "RATE_LIMITED") throw error;
    await settleUnfed(env, row, error);
  }
}

async function enqueueStored(env: Env, row: RunRow): Promise<void> {
  const store = storeOf(env);
  if (row.object === null || row.caseBody === null) return;
  const spec = await harnessOf(store, row);
  if (spec === null) throw new EverdictError("UNAVAILABLE", "the harness of the run is not readable");
  const harness = commandBody({ owner: row.harnessOwner, id: row.harnessId, version: row.harnessVersion, spec });
  const person = row.object.startsWith("runners:user:") ? row.object.slice("runners:user:".length) : null;
  const resolved = await resolveTarget(store, configOf(env), { workspace: row.workspace, person }, row.target);
  const rendered = await renderCase(harness, EvalCase.parse(JSON.parse(row.caseBody)), resolved.runtime?.spec ?? null);
  const priority = row.priority === "batch" ? ("batch" as const) : ("interactive" as const);
  const entry = entryOf({ ...row, priority }, resolved, rendered);
  const limits = await limitsOf(store, row.workspace);
  const [answer] = await schedulerOf(env, row.object).enqueue(row.object, resolved.envelope, limits, [entry]);
  if (answer && !answer.ok)
    throw new EverdictError(answer.code === "QUEUE_FULL" ? "RATE_LIMITED" : "PAYLOAD_TOO_LARGE", answer.detail);
}

async function beginAgain(env: Env, now: number): Promise<void> {
  const store = storeOf(env);
  const rows = await store
    .select()
    .from(scorecards)
    .where(and(eq(scorecards.acknowledged, false), lt(scorecards.createdAt, iso(now - SETTLING_MS))))
    .limit(BATCH)
    .all();
  for (const row of rows) {
    try {
      if (row.complete) await beginStored(systemContext(env, row.workspace), row);
      else if (row.createdAt < iso(now - ABANDONED_MS)) await withdrawScorecard(store.d1, row.id);
    } catch (error) {
      logEvent("sweep.begin-failed", { scorecardId: row.id, error: worded(error) });
    }
  }
}

function systemContext(env: Env, workspace: string): Context {
  const now = () => Date.now();
  return {
    env,
    config: configOf(env),
    principal: {
      kind: "key",
      subject: "system",
      person: null,
      issuer: "system",
      workspace,
      role: "admin",
      scope: "admin",
      operator: false,
    },
    requestId: "sweep",
    store: storeOf(env),
    origin: "",
    now,
    newId: randomIds(now),
    waitUntil: () => undefined,
  };
}
