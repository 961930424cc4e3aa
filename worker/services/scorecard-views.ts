import { and, asc, eq, gt, sql } from "drizzle-orm";
import { type Capability, functionalGate } from "../../contracts/capabilities.ts";
import { EverdictError, type Issue } from "../../contracts/errors.ts";
import type { CommandBody } from "../../contracts/harness.ts";
import { LIMITS, SHARED_OWNER } from "../../contracts/names.ts";
import type { BodyOf, OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import { GRID_PAGE_MAX, type SCORECARD_VIEW_OPERATIONS } from "../../contracts/operations/scorecard-views.ts";
import { payloadIssues, requiredCapabilities, resolveAsk } from "../../contracts/requirements.ts";
import { FailureClass, RunStatus } from "../../contracts/run.ts";
import { isTerminal } from "../../contracts/run-states.ts";
import { SCORECARD_MAX_RUNS } from "../../contracts/scorecard.ts";
import { defaultTarget, type ResolvedTarget, resolveTarget } from "../compute/resolve.ts";
import type { Context } from "../context.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { loadCases, type StoredCase, selectCases } from "../lanes/scorecard.ts";
import { checkFits, checkJobSecrets, commandBody, loadHarness } from "../lanes/submit.ts";
import { find, list } from "../registry/registry.ts";
import { runs } from "../store/schema.ts";
import { getQueue } from "./queue.ts";
import { listRunners } from "./runners.ts";
import { findScorecard } from "./scorecards.ts";

type Ops = typeof SCORECARD_VIEW_OPERATIONS;
type Grid = OutputOf<Ops["get_scorecard_grid"]>;
type Preview = OutputOf<Ops["preview_scorecard"]>;
type Choice = Preview["targets"][number];

const GRID_PAGE_DEFAULT = 1_000;
/** Runtimes that are offered; a workspace with more names one by hand. */
const MAX_RUNTIMES = 500;

/** GET /scorecards/{id}/grid */
export async function getScorecardGrid(
  ctx: Context,
  { params, query }: { params: ParamsOf<Ops["get_scorecard_grid"]>; query: QueryOf<Ops["get_scorecard_grid"]> },
): Promise<Grid> {
  const card = await findScorecard(ctx, params.id);
  const limit = Math.min(query.limit ?? GRID_PAGE_DEFAULT, GRID_PAGE_MAX);
  const scope = `scorecard-grid:${card.id}:${query.status ?? ""}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const rows = await ctx.store
    .select({
      runId: runs.id,
      caseId: runs.caseId,
      trial: runs.trial,
      status: runs.status,
      score: runs.score,
      pass: runs.pass,
      seq: runs.seq,
      epoch: runs.epoch,
      durationMs: sql<number | null>`${runs.result} ->> '$.durationMs'`,
      failureClass: runs.failureClass,
      code: sql<string | null>`${runs.failure} ->> '$.code'`,
      message: sql<string | null>`substr(${runs.failure} ->> '$.message', 1, 300)`,
      retryable: sql<number | null>`${runs.failure} ->> '$.retryable'`,
    })
    .from(runs)
    .where(
      and(
        eq(runs.scorecardId, card.id),
        eq(runs.replaced, false),
        query.status === undefined ? undefined : eq(runs.status, isTerminal(query.status) ? query.status : "queued"),
        after ? gt(runs.seq, Number(after[0])) : undefined,
      ),
    )
    .orderBy(asc(runs.seq))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map(({ seq, epoch, failureClass, code, message, retryable, status, ...row }) => ({
      ...row,
      status: RunStatus.parse(status),
      attempts: epoch,
      failure:
        failureClass === null
          ? null
          : {
              class: FailureClass.parse(failureClass),
              code: code ?? "",
              message: message ?? "",
              retryable: !!retryable,
            },
    })),
    nextCursor: rows.length > limit && last ? await writeCursor(ctx, scope, [last.seq ?? 0]) : null,
  };
}

/** What an error would say, as problems of fields. */
function issuesOfError(error: unknown): Issue[] {
  if (!(error instanceof EverdictError) || error.code !== "BAD_REQUEST") throw error;
  return error.issues ?? [{ path: "(body)", message: error.message }];
}

/** POST /scorecards/preview: the same checks as a submit, told as a choice instead of a refusal. */
export async function previewScorecard(
  ctx: Context,
  { body }: { body: BodyOf<Ops["preview_scorecard"]> },
): Promise<Preview> {
  const { store, config, env, principal } = ctx;
  const [dataset, harness] = await Promise.all([
    find(store, "dataset", principal.workspace, body.dataset.id, body.dataset.version),
    loadHarness(store, principal.workspace, body.harness),
  ]);
  const command = commandBody(harness);
  const chosen = selectCases(await loadCases(store, dataset.owner, dataset.id, dataset.version), body.cases);
  const cases = chosen.map((item) => item.case);
  const needs = [...new Set(cases.flatMap((item) => requiredCapabilities(command, item)))].sort();
  const runCount = cases.length * body.trials;
  const problems = cases.flatMap((item) => payloadIssues(command, item, item.id));
  if (runCount > SCORECARD_MAX_RUNS)
    problems.push({ path: "trials", message: `cases × trials are ${runCount} runs, at most ${SCORECARD_MAX_RUNS}` });
  await checkJobSecrets(env, config, store, principal.workspace, command, cases).catch((error: unknown) => {
    problems.push(...issuesOfError(error));
  });
  const { lanes } = await getQueue(ctx, { query: { limit: 1 } });
  const laneOf = (target: string, kind: "runtime" | "runner") =>
    lanes.find((lane) => lane.target === target && lane.lane.startsWith("runners:") === (kind === "runner"));
  const targets = [
    ...(await runtimeChoices(ctx, command, chosen, needs)),
    ...(await runnerChoices(ctx, "own", needs)),
    ...(await runnerChoices(ctx, "workspace", needs)),
  ].map((choice) => {
    const lane = laneOf(choice.target, choice.group === "runtime" ? "runtime" : "runner");
    if (!lane) return choice;
    const online =
      choice.group === "runtime" && choice.online === null && lane.health.state === "open" ? false : choice.online;
    return { ...choice, online, slots: lane.slots, queued: lane.queued };
  });
  return {
    cases: cases.length,
    runs: runCount,
    needs,
    problems: problems.slice(0, 100),
    default: deploymentTarget(ctx),
    placed: [...new Set(cases.flatMap((item) => item.placement?.target ?? []))].sort(),
    targets,
  };
}

function deploymentTarget(ctx: Context): string | null {
  try {
    return defaultTarget(ctx.config, ctx.principal.workspace);
  } catch (error) {
    issuesOfError(error);
    return null;
  }
}

const BLANK = { slots: null, queued: 0 } as const;

async function runtimeChoices(
  ctx: Context,
  command: CommandBody,
  chosen: readonly StoredCase[],
  needs: readonly Capability[],
): Promise<Choice[]> {
  const choices = new Map<string, Choice>();
  let cursor: string | undefined;
  do {
    const page = await list(ctx, "runtime", { limit: LIMITS.pageMax, cursor });
    for (const { id } of page.items) {
      if (choices.has(id)) continue;
      const resolved = await usableTarget(ctx, id);
      if (!resolved?.runtime) continue;
      const { owner, spec } = resolved.runtime;
      const verdict = functionalGate(needs, resolved.advertised ?? []);
      const missing = verdict.ok ? [] : verdict.missing;
      const reason = verdict.ok ? firstMisfit(resolved, command, chosen) : `needs ${missing.join(", ")}`;
      choices.set(id, {
        target: id,
        group: "runtime",
        kind: spec.kind,
        label: id,
        shared: owner === SHARED_OWNER,
        ok: reason === null,
        missing,
        reason,
        online: spec.kind === "local" ? true : null,
        ...BLANK,
      });
    }
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined && choices.size < MAX_RUNTIMES);
  return [...choices.values()];
}

/** What a name means to this caller, an own runtime before a shared one; null for one that nobody can use here. */
async function usableTarget(ctx: Context, id: string): Promise<ResolvedTarget | null> {
  try {
    return await resolveTarget(ctx.store, ctx.config, ctx.principal, id);
  } catch (error) {
    issuesOfError(error);
    return null;
  }
}

/** Why the first case that can never start there cannot; null when all can. */
function firstMisfit(resolved: ResolvedTarget, command: CommandBody, chosen: readonly StoredCase[]): string | null {
  for (const item of chosen) {
    try {
      checkFits(resolved, resolveAsk(command, item.case, resolved.runtime?.spec ?? null), item.case.id);
    } catch (error) {
      issuesOfError(error);
      return error instanceof Error ? error.message : String(error);
    }
  }
  return null;
}

/** The pool of somebody's runners, and each of them. A machine that is off may come back: being offline is no refusal. */
async function runnerChoices(
  ctx: Context,
  whose: "own" | "workspace",
  needs: readonly Capability[],
): Promise<Choice[]> {
  if (whose === "own" && ctx.principal.person === null) return [];
  const { items } = await listRunners(whose)(ctx, { query: { limit: LIMITS.pageMax } });
  if (items.length === 0) return [];
  const pool = whose === "own" ? "self" : "self:ws";
  const group = whose === "own" ? ("own-runners" as const) : ("workspace-runners" as const);
  const machines = items.map((runner): Choice => {
    const verdict = functionalGate(needs, runner.capabilities);
    const missing = verdict.ok ? [] : verdict.missing;
    const unseen = runner.lastSeenAt === null;
    return {
      target: `${pool}:${runner.id}`,
      group,
      kind: "runner",
      label: runner.label,
      shared: false,
      ok: verdict.ok && !unseen,
      missing: unseen ? [] : missing,
      reason: unseen ? "has never connected" : verdict.ok ? null : `needs ${missing.join(", ")}`,
      online: runner.online,
      ...BLANK,
    };
  });
  const able = machines.filter(({ ok }) => ok);
  const nearest = machines
    .filter(({ reason }) => reason !== "has never connected")
    .sort((a, b) => a.missing.length - b.missing.length)[0];
  return [
    {
      target: pool,
      group,
      kind: "pool",
      label: whose === "own" ? "Any of my machines" : "Any of the workspace's machines",
      shared: false,
      ok: able.length > 0,
      missing: able.length > 0 ? [] : (nearest?.missing ?? []),
      reason: able.length > 0 ? null : (nearest?.reason ?? "no machine has ever connected"),
      online: (able.length > 0 ? able : machines).some(({ online }) => online === true),
      ...BLANK,
    },
    ...machines,
  ];
}
