import { and, eq, inArray, sql } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { HarnessSpec } from "../../contracts/harness.ts";
import type { EnqueueEntry, FeedAnswer, FeedItem } from "../../contracts/rpc.ts";
import { isTerminal } from "../../contracts/run.ts";
import { type ResolvedTarget, resolveTarget } from "../compute/resolve.ts";
import { type Store, storeOf } from "../context.ts";
import { configOf, type Env, schedulerOf } from "../environment.ts";
import { renderCase } from "../lanes/job.ts";
import { casesById } from "../lanes/scorecard.ts";
import { commandBody, declaredMemory, entryOf, limitsOf } from "../lanes/submit.ts";
import { digestOfRow, type RunRow } from "../store/run-rows.ts";
import { registry, runs, scorecards } from "../store/schema.ts";
import type { ScorecardRow } from "../store/scorecard-rows.ts";
import { settleUnfed } from "./settle-unfed.ts";

interface Ready {
  row: RunRow;
  resolved: ResolvedTarget;
  entry: EnqueueEntry;
}

/**
 * Renders cases of a scorecard and hands them to their Schedulers. Safe to repeat: a run is claimed once in D1, and a
 * Scheduler takes a run id once.
 */
export async function feed(env: Env, scorecardId: string, items: readonly FeedItem[]): Promise<FeedAnswer[]> {
  const store = storeOf(env);
  const card = await store.select().from(scorecards).where(eq(scorecards.id, scorecardId)).get();
  if (!card)
    return items.map(({ runId }) => ({
      runId,
      ok: false,
      retryAfterSec: 5,
      detail: "the scorecard is not stored yet",
    }));
  const rows = await rowsOf(store, items);
  const harness = await storedHarness(store, card);
  const answers = new Map<string, FeedAnswer>();
  const targetOf = new Map(items.map(({ runId, target }) => [runId, target]));
  for (const { runId } of items) {
    const row = rows.get(runId);
    if (!row) answers.set(runId, { runId, ok: false, retryAfterSec: 5, detail: "the run is not stored yet" });
    else if (isTerminal(row.status)) answers.set(runId, { runId, ok: false, settled: digestOfRow(row) });
  }
  const open = [...rows.values()].filter((row) => !answers.has(row.id));
  const cases = await casesById(store, card.datasetOwner, card.datasetId, card.datasetVersion, [
    ...new Set(open.map(({ caseId }) => caseId)),
  ]);
  const ready: Ready[] = [];
  const targets = new Map<string, Promise<ResolvedTarget>>();
  for (const row of open) {
    const evalCase = cases.get(row.caseId);
    const suggested = targetOf.get(row.id) ?? card.targets[0] ?? "self";
    const target =
      row.object !== null ? row.target : card.explicitTargets ? suggested : (evalCase?.placement?.target ?? suggested);
    try {
      if (!evalCase) throw new EverdictError("NOT_FOUND", `case '${row.caseId}' is no longer in the dataset`);
      const subject = { workspace: card.workspace, person: card.principal.person };
      const known = targets.get(target) ?? resolveTarget(store, configOf(env), subject, target);
      targets.set(target, known);
      const resolved = await known;
      const rendered = await renderCase(harness, evalCase, resolved.runtime?.spec ?? null);
      const priority = card.priority === "interactive" ? ("interactive" as const) : ("batch" as const);
      ready.push({ row, resolved, entry: entryOf({ ...row, priority }, resolved, rendered) });
    } catch (error) {
      if (!(error instanceof EverdictError) || error.status >= 500) throw error;
      answers.set(row.id, { runId: row.id, ok: false, settled: await settleUnfed(env, row, error) });
    }
  }
  for (const answer of await handOver(env, store, card, ready)) answers.set(answer.runId, answer);
  return items.map(
    ({ runId }) => answers.get(runId) ?? { runId, ok: false, retryAfterSec: 5, detail: "not handed over" },
  );
}

async function rowsOf(store: Store, items: readonly FeedItem[]): Promise<Map<string, RunRow>> {
  const out = new Map<string, RunRow>();
  for (let i = 0; i < items.length; i += 90) {
    const ids = items.slice(i, i + 90).map(({ runId }) => runId);
    for (const row of await store.select().from(runs).where(inArray(runs.id, ids)).all()) out.set(row.id, row);
  }
  return out;
}

async function storedHarness(store: Store, card: ScorecardRow) {
  const row = await store
    .select({ spec: registry.spec })
    .from(registry)
    .where(
      and(
        eq(registry.kind, "harness"),
        eq(registry.owner, card.harnessOwner),
        eq(registry.id, card.harnessId),
        eq(registry.version, card.harnessVersion),
      ),
    )
    .get();
  if (!row)
    throw new EverdictError("UNAVAILABLE", "the harness of the scorecard is not readable", { retryAfterSec: 5 });
  const spec = HarnessSpec.parse(JSON.parse(row.spec));
  return commandBody({ owner: card.harnessOwner, id: card.harnessId, version: card.harnessVersion, spec });
}

async function handOver(env: Env, store: Store, card: ScorecardRow, ready: readonly Ready[]): Promise<FeedAnswer[]> {
  const groups = new Map<string, Ready[]>();
  for (const item of ready) {
    const group = groups.get(item.resolved.object);
    if (group) group.push(item);
    else groups.set(item.resolved.object, [item]);
  }
  const limits = groups.size > 0 ? await limitsOf(store, card.workspace) : null;
  const answers: FeedAnswer[] = [];
  for (const [object, group] of groups) {
    const first = group[0];
    if (!first || limits === null) continue;
    const claimed = await claim(store, group);
    const entries = group.filter(({ row }) => claimed.has(row.id)).map(({ entry }) => entry);
    const passed = group
      .filter(({ row }) => !claimed.has(row.id))
      .map(({ row }) => ({ runId: row.id, target: row.target }));
    for (const row of (await rowsOf(store, passed)).values()) {
      if (isTerminal(row.status)) answers.push({ runId: row.id, ok: false, settled: digestOfRow(row) });
      else answers.push({ runId: row.id, ok: false, retryAfterSec: 5, detail: "the run is bound to other compute" });
    }
    if (entries.length === 0) continue;
    const enqueued = await schedulerOf(env, object).enqueue(object, first.resolved.envelope, limits, entries);
    for (const answer of enqueued) {
      answers.push(
        answer.ok
          ? { runId: answer.runId, ok: true }
          : { runId: answer.runId, ok: false, retryAfterSec: answer.retryAfterSec, detail: answer.detail },
      );
    }
  }
  return answers;
}

/** Binds runs to their object unless somebody ended them first; answers those that are bound. */
async function claim(store: Store, group: readonly Ready[]): Promise<Set<string>> {
  const bound = JSON.stringify(
    group.map(({ row, resolved, entry }) => [
      row.id,
      resolved.object,
      resolved.target,
      resolved.runtime?.id ?? null,
      resolved.runtime?.version ?? null,
      resolved.pinnedVersion,
      declaredMemory(entry.ask),
    ]),
  );
  const rows = await store.all<{ id: string }>(sql`
    update runs set object = claim.value ->> 1, target = claim.value ->> 2, runtime_id = claim.value ->> 3,
      runtime_version = claim.value ->> 4, pinned_version = claim.value ->> 5, memory_mb = claim.value ->> 6
    from json_each(${bound}) as claim
    where runs.id = claim.value ->> 0 and runs.status = 'queued' and (runs.object is null or runs.object = claim.value ->> 1)
    returning runs.id as id`);
  return new Set(rows.map(({ id }) => id));
}
