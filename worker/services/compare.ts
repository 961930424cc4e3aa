import { and, eq } from "drizzle-orm";
import type { OutputOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { SCORECARD_OPERATIONS } from "../../contracts/operations/runs.ts";
import type { Context } from "../context.ts";
import { runs } from "../store/schema.ts";
import { getScorecard } from "./scorecards.ts";

type Ops = typeof SCORECARD_OPERATIONS;
type Comparison = OutputOf<Ops["compare_scorecards"]>;
type Side = NonNullable<Comparison["cases"][number]["a"]>;

/** Differences below this are rounding. */
const EPSILON = 1e-9;

/** GET /scorecards/compare: case by case, over the mean of each case's trials. */
export async function compareScorecards(
  ctx: Context,
  { query }: { query: QueryOf<Ops["compare_scorecards"]> },
): Promise<Comparison> {
  const [a, b] = await Promise.all([
    getScorecard(ctx, { params: { id: query.a } }),
    getScorecard(ctx, { params: { id: query.b } }),
  ]);
  const [left, right] = await Promise.all([sides(ctx, query.a), sides(ctx, query.b)]);
  const ids = [...new Set([...left.keys(), ...right.keys()])];
  const cases = ids.slice(0, 10_000).map((caseId) => {
    const from = left.get(caseId) ?? null;
    const to = right.get(caseId) ?? null;
    const difference = from?.score == null || to?.score == null ? null : to.score - from.score;
    return { caseId, a: from, b: to, difference };
  });
  const count = (test: (difference: number) => boolean) =>
    cases.filter(({ difference }) => difference !== null && test(difference)).length;
  const rates = [a.summary?.passRate ?? null, b.summary?.passRate ?? null] as const;
  return {
    a,
    b,
    passRateDifference: rates[0] === null || rates[1] === null ? null : rates[1] - rates[0],
    improved: count((d) => d > EPSILON),
    regressed: count((d) => d < -EPSILON),
    unchanged: count((d) => Math.abs(d) <= EPSILON),
    cases,
  };
}

async function sides(ctx: Context, scorecardId: string): Promise<Map<string, Side>> {
  const rows = await ctx.store
    .select({ caseId: runs.caseId, status: runs.status, score: runs.score, pass: runs.pass })
    .from(runs)
    .where(
      and(eq(runs.scorecardId, scorecardId), eq(runs.workspace, ctx.principal.workspace), eq(runs.replaced, false)),
    )
    .orderBy(runs.seq)
    .all();
  const grouped = new Map<string, typeof rows>();
  for (const row of rows) {
    const group = grouped.get(row.caseId);
    if (group) group.push(row);
    else grouped.set(row.caseId, [row]);
  }
  const out = new Map<string, Side>();
  for (const [caseId, group] of grouped) {
    const scores = group.flatMap(({ score }) => (score === null ? [] : [score]));
    out.set(caseId, {
      score: scores.length === 0 ? null : scores.reduce((sum, score) => sum + score, 0) / scores.length,
      pass: scores.length === 0 ? null : group.every(({ pass }) => pass !== false),
      status: group.every(({ status }) => status === group[0]?.status) ? (group[0]?.status ?? "mixed") : "mixed",
      runs: group.length,
    });
  }
  return out;
}
