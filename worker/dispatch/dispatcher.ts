import { and, eq, isNull, sql } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import type {
  DispatcherRpc,
  FeedAnswer,
  FeedItem,
  Grant,
  ScorecardEnd,
  Settlement,
  StartAnswer,
} from "../../contracts/rpc.ts";
import { sha256 } from "../auth/digest.ts";
import { type ResolvedTarget, resolveTarget } from "../compute/resolve.ts";
import { iso, storeOf } from "../context.ts";
import { configOf, type Env, schedulerOf } from "../environment.ts";
import { activeObjects, runs, scorecards } from "../store/schema.ts";
import { feed } from "./feed.ts";
import { forgetLocal, observeLocal, startLocal, stopLocal } from "./local.ts";
import { settle } from "./settle.ts";

type Units = Parameters<DispatcherRpc["observe"]>[1];

const isLocal = (object: string): boolean => object.startsWith("local:");

async function versionsOf(env: Env, grants: readonly Grant[]): Promise<Map<Grant, ResolvedTarget | EverdictError>> {
  const store = storeOf(env);
  const out = new Map<Grant, ResolvedTarget | EverdictError>();
  for (const grant of grants) {
    try {
      out.set(
        grant,
        await resolveTarget(store, configOf(env), { workspace: grant.workspace, person: null }, grant.target),
      );
    } catch (error) {
      if (!(error instanceof EverdictError) || error.status >= 500) throw error;
      out.set(grant, error);
    }
  }
  return out;
}

/** Starts granted attempts: the runtime's spec, version and credential are read now, so that what was registered or rotated counts. */
export async function start(env: Env, object: string, grants: Grant[]): Promise<StartAnswer[]> {
  const resolved = await versionsOf(env, grants);
  const startable = grants.filter((grant) => !(resolved.get(grant) instanceof EverdictError));
  const answers: StartAnswer[] = [];
  for (const grant of grants) {
    const found = resolved.get(grant);
    if (!(found instanceof EverdictError)) continue;
    const failure = {
      stage: "dispatch" as const,
      class: "config" as const,
      code: "RUNTIME_GONE",
      message: found.message,
      retryable: false,
    };
    answers.push({ kind: "failed", runId: grant.runId, epoch: grant.epoch, failure });
  }
  if (startable.length === 0) return answers;
  if (!isLocal(object)) {
    const failure = {
      stage: "dispatch" as const,
      class: "config" as const,
      code: "NO_BACKEND",
      message: "this version runs jobs on runners and local runtimes only",
      retryable: false,
    };
    return [...answers, ...startable.map(({ runId, epoch }) => ({ kind: "failed" as const, runId, epoch, failure }))];
  }
  const version = (grant: Grant): string => {
    const found = resolved.get(grant);
    return found instanceof EverdictError || !found?.runtime ? "0.0.0" : found.runtime.version;
  };
  return [...answers, ...(await startLocal(env, startable, version))];
}

/** One observe pass: one listing for all units, then the answer goes back to the object. */
export async function observe(env: Env, object: string, units: Units): Promise<void> {
  if (!isLocal(object)) return;
  const observation = await observeLocal(env, (await sha256(object)).slice(0, 8), units);
  await schedulerOf(env, object).observed(observation);
  // Only now is the result durable in the object.
  await forgetLocal(
    env,
    observation.units.filter(({ state }) => state === "finished" || state === "stopped").map(({ name }) => name),
  );
}

export async function stop(env: Env, object: string, units: { name: string }[]): Promise<void> {
  if (isLocal(object))
    await stopLocal(
      env,
      units.map(({ name }) => name),
    );
}

export async function markActive(
  env: Env,
  kind: "scheduler" | "scorecard",
  name: string,
  active: boolean,
): Promise<void> {
  const store = storeOf(env);
  if (active)
    await store
      .insert(activeObjects)
      .values({ kind, name, since: iso(Date.now()) })
      .onConflictDoNothing()
      .run();
  else
    await store
      .delete(activeObjects)
      .where(and(eq(activeObjects.kind, kind), eq(activeObjects.name, name)))
      .run();
}

/** Ends runs of a scorecard: where they stand for those that were fed, in D1 for the others. */
export async function cancelRuns(env: Env, scorecardId: string, runIds: readonly string[]): Promise<void> {
  const store = storeOf(env);
  const ids = JSON.stringify(runIds);
  const mine = sql`${runs.id} in (select value from json_each(${ids})) and ${runs.scorecardId} = ${scorecardId} and ${runs.status} = 'queued'`;
  await store
    .update(runs)
    .set({ status: "cancelled", finishedAt: iso(Date.now()) })
    .where(and(mine, isNull(runs.object)))
    .run();
  const fed = new Map<string, string[]>();
  for (const { id, object } of await store.select({ id: runs.id, object: runs.object }).from(runs).where(mine).all()) {
    if (object !== null) fed.set(object, [...(fed.get(object) ?? []), id]);
  }
  for (const [object, held] of fed) await schedulerOf(env, object).cancel(held, "its scorecard was cancelled");
}

/** The end of a scorecard, once: a repeat, or one that comes after a retry reopened it, changes nothing. */
export async function finishScorecard(env: Env, scorecardId: string, end: ScorecardEnd): Promise<boolean> {
  await storeOf(env)
    .update(scorecards)
    .set({ status: end.status, progress: end.progress, summary: end.summary, finishedAt: end.finishedAt })
    .where(eq(scorecards.id, scorecardId))
    .run();
  return true;
}

export const dispatch = {
  start,
  observe,
  stop,
  markActive,
  cancelRuns,
  finishScorecard,
  settle: (env: Env, settlements: Settlement[]): Promise<string[]> => settle(env, settlements),
  feed: (env: Env, scorecardId: string, items: FeedItem[]): Promise<FeedAnswer[]> => feed(env, scorecardId, items),
};
