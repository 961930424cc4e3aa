import { and, eq, isNull, sql } from "drizzle-orm";
import type { Inspection } from "../../contracts/inspection.ts";
import type {
  DispatcherRpc,
  FeedAnswer,
  FeedItem,
  Grant,
  RuntimeRef,
  Settlement,
  StartAnswer,
} from "../../contracts/rpc.ts";
import type { ScorecardEnd } from "../../contracts/scorecard-rpc.ts";
import { iso, storeOf } from "../context.ts";
import { type Env, schedulerOf } from "../environment.ts";
import { activeObjects, runs, scorecards } from "../store/schema.ts";
import { askingOf, observeClusters, startOnClusters, stopOnClusters } from "./cluster.ts";
import { feed } from "./feed.ts";
import { inspectRuntime } from "./inspect.ts";
import { inspectLocal, observeLocal, startLocal, stopLocal } from "./local.ts";
import { settle } from "./settle.ts";

type Units = Parameters<DispatcherRpc["observe"]>[1];

const isLocal = (object: string): boolean => object.startsWith("local:");

/** Starts granted attempts: the runtime's spec, version and credential are read now, so that what was registered or rotated counts. */
export async function start(env: Env, object: string, grants: Grant[]): Promise<StartAnswer[]> {
  return isLocal(object) ? startLocal(env, grants) : startOnClusters(env, await askingOf(object), grants);
}

/** One observe pass: one listing for all units, then the answer goes back to the object. */
export async function observe(env: Env, object: string, units: Units): Promise<void> {
  const asking = await askingOf(object);
  const { observation, collect } = isLocal(object)
    ? await observeLocal(env, asking.hash, units)
    : await observeClusters(env, asking, units);
  const { followed } = await schedulerOf(env, object).observed(observation);
  // Only now are the ends durable in the object.
  await collect(new Set(followed));
}

export async function stop(env: Env, object: string, units: Parameters<DispatcherRpc["stop"]>[1]): Promise<void> {
  if (isLocal(object))
    await stopLocal(
      env,
      units.map(({ name }) => name),
    );
  else await stopOnClusters(env, await askingOf(object), units);
}

/** A look at the cluster of one registered version, with the credential as it is stored now. */
export async function inspect(env: Env, object: string, runtime: RuntimeRef): Promise<Inspection> {
  const { hash } = await askingOf(object);
  return isLocal(object) ? inspectLocal(env, hash) : inspectRuntime(env, hash, runtime);
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
  inspect,
  markActive,
  cancelRuns,
  finishScorecard,
  settle: (env: Env, settlements: Settlement[]): Promise<string[]> => settle(env, settlements),
  feed: (env: Env, scorecardId: string, items: FeedItem[]): Promise<FeedAnswer[]> => feed(env, scorecardId, items),
};
