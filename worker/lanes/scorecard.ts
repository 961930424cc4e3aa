import { and, asc, eq, inArray, sql } from "drizzle-orm";
import { functionalGate } from "../../contracts/capabilities.ts";
import { EvalCase } from "../../contracts/case.ts";
import { EverdictError } from "../../contracts/errors.ts";
import type { CommandBody } from "../../contracts/harness.ts";
import { payloadIssues, requiredCapabilities, resolveAsk } from "../../contracts/requirements.ts";
import { RuntimeSpec } from "../../contracts/runtime-spec.ts";
import { SCORECARD_MAX_RUNS, type ScorecardRequest } from "../../contracts/scorecard.ts";
import { defaultTarget, type ResolvedTarget, resolveTarget } from "../compute/resolve.ts";
import type { Context, Store } from "../context.ts";
import { list } from "../registry/registry.ts";
import { datasetCases } from "../store/schema.ts";
import { checkFits, gate } from "./submit.ts";

export interface StoredCase {
  seq: number;
  case: EvalCase;
}

/** Cases of a dataset version in order. */
export async function loadCases(store: Store, owner: string, id: string, version: string): Promise<StoredCase[]> {
  const out: StoredCase[] = [];
  for (let after = -1; ; ) {
    const rows = await store
      .select({ seq: datasetCases.seq, body: datasetCases.body })
      .from(datasetCases)
      .where(
        and(
          eq(datasetCases.owner, owner),
          eq(datasetCases.dataset, id),
          eq(datasetCases.version, version),
          sql`${datasetCases.seq} > ${after}`,
        ),
      )
      .orderBy(asc(datasetCases.seq))
      .limit(1_000)
      .all();
    for (const row of rows) out.push({ seq: row.seq, case: EvalCase.parse(JSON.parse(row.body)) });
    const last = rows.at(-1);
    if (!last || rows.length < 1_000) return out;
    after = last.seq;
  }
}

/** Cases of a dataset by id. */
export async function casesById(
  store: Store,
  owner: string,
  id: string,
  version: string,
  caseIds: readonly string[],
): Promise<Map<string, EvalCase>> {
  const out = new Map<string, EvalCase>();
  for (let i = 0; i < caseIds.length; i += 80) {
    const rows = await store
      .select({ caseId: datasetCases.caseId, body: datasetCases.body })
      .from(datasetCases)
      .where(
        and(
          eq(datasetCases.owner, owner),
          eq(datasetCases.dataset, id),
          eq(datasetCases.version, version),
          inArray(datasetCases.caseId, caseIds.slice(i, i + 80)),
        ),
      )
      .all();
    for (const row of rows) out.set(row.caseId, EvalCase.parse(JSON.parse(row.body)));
  }
  return out;
}

/** The cases a request selects, in dataset order. @throws EverdictError BAD_REQUEST for an unknown id or an empty choice */
export function selectCases(cases: readonly StoredCase[], filter: ScorecardRequest["cases"]): StoredCase[] {
  const ids = filter?.ids === undefined || filter.ids.length === 0 ? null : new Set(filter.ids);
  if (ids) {
    const known = new Set(cases.map((item) => item.case.id));
    const missing = [...ids].filter((id) => !known.has(id));
    if (missing.length > 0) {
      throw new EverdictError(
        "BAD_REQUEST",
        `the dataset has no case ${missing
          .slice(0, 10)
          .map((id) => `'${id}'`)
          .join(", ")}`,
        {
          issues: missing
            .slice(0, 100)
            .map((id) => ({ path: "cases.ids", message: `'${id}' is not a case of the dataset` })),
        },
      );
    }
  }
  const tags = filter?.tags === undefined || filter.tags.length === 0 ? null : new Set(filter.tags);
  const chosen = cases.filter(
    (item) => (ids === null || ids.has(item.case.id)) && (tags === null || item.case.tags.some((tag) => tags.has(tag))),
  );
  if (chosen.length === 0)
    throw new EverdictError("BAD_REQUEST", "no case of the dataset matches the filter", {
      issues: [{ path: "cases", message: "matches nothing" }],
    });
  return filter?.limit === undefined ? chosen : chosen.slice(0, filter.limit);
}

export function checkSize(runCount: number): void {
  if (runCount <= SCORECARD_MAX_RUNS) return;
  throw new EverdictError(
    "BAD_REQUEST",
    `cases × trials are ${runCount} runs, at most ${SCORECARD_MAX_RUNS} in one scorecard; split it`,
    {
      issues: [{ path: "trials", message: `cases × trials must be at most ${SCORECARD_MAX_RUNS}` }],
    },
  );
}

/** Capable runtimes of the workspace, own before shared, for `auto`. @throws EverdictError BAD_REQUEST naming what is missing */
async function autoTargets(
  ctx: Context,
  command: CommandBody,
  cases: readonly StoredCase[],
): Promise<ResolvedTarget[]> {
  const need = new Set(cases.flatMap((item) => requiredCapabilities(command, item.case)));
  const capable: ResolvedTarget[] = [];
  const rejected: { runtime: string; missing: string[] }[] = [];
  const seen = new Set<string>();
  let cursor: string | undefined;
  do {
    const page = await list(ctx, "runtime", { limit: 100, cursor });
    for (const item of page.items) {
      if (seen.has(item.id)) continue;
      seen.add(item.id);
      if (RuntimeSpec.parse(JSON.parse(item.row.spec)).kind === "local" && !ctx.config.dev) continue;
      const resolved = await resolveTarget(ctx.store, ctx.config, ctx.principal, item.id);
      const verdict = functionalGate(need, resolved.advertised ?? []);
      if (verdict.ok) capable.push(resolved);
      else rejected.push({ runtime: item.id, missing: verdict.missing });
    }
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined && seen.size < 500);
  if (capable.length > 0) return capable.slice(0, 32);
  throw new EverdictError("BAD_REQUEST", "no registered runtime can run all these cases", {
    data: { need: [...need].sort(), rejected: rejected.slice(0, 50) },
  });
}

/**
 * The targets of a scorecard, each able to run each case.
 * @throws EverdictError NOT_FOUND naming an unknown target; BAD_REQUEST when a target can never run a case
 */
export async function scorecardTargets(
  ctx: Context,
  request: ScorecardRequest,
  command: CommandBody,
  cases: readonly StoredCase[],
): Promise<string[]> {
  const { store, config, principal } = ctx;
  const named = request.runtime ?? [...new Set(cases.map((item) => item.case.placement?.target))];
  const wanted =
    typeof named === "string" ? [named] : named.map((target) => target ?? defaultTarget(config, principal.workspace));
  const names = [...new Set(wanted)];
  const issues = cases.flatMap((item) => payloadIssues(command, item.case, item.case.id)).slice(0, 100);
  if (issues.length > 0)
    throw new EverdictError("BAD_REQUEST", "some cases cannot be run with this harness", { issues });
  if (names.includes("auto")) {
    if (names.length > 1)
      throw new EverdictError("BAD_REQUEST", "'auto' stands alone", {
        issues: [{ path: "runtime", message: "give 'auto', or a list of targets" }],
      });
    return (await autoTargets(ctx, command, cases)).map(({ target }) => target);
  }
  for (const name of names) {
    const resolved = await resolveTarget(store, config, principal, name);
    for (const item of cases) {
      if (request.runtime === undefined && (item.case.placement?.target ?? name) !== name) continue;
      gate(resolved, command, item.case);
      checkFits(resolved, resolveAsk(command, item.case, resolved.runtime?.spec ?? null), item.case.id);
    }
  }
  return names;
}
