import type { OutputOf } from "../../../contracts/operations/operation.ts";
import type { SCORECARD_OPERATIONS } from "../../../contracts/operations/runs.ts";
import { FAILURE_CLASSES, type Run } from "../../../contracts/run.ts";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { runRow } from "./results.ts";
import { duration, percent, plain, table } from "./text.ts";

/** 0: all passed; 1: some grade failed; 2: some were not measured, which weighs more. */
export function exitOfScorecard({ progress, summary }: Scorecard): number {
  if (!summary || summary.measured < progress.total) return 2;
  return summary.passRate === 1 ? 0 : 1;
}

const nameOf = ({ id, version }: { id: string; version: string }): string => `${id}@${version}`;

/** A scorecard in a table. */
export function scorecardRow(card: Scorecard): string[] {
  const { progress, summary } = card;
  const ended = progress.succeeded + progress.failed + progress.cancelled;
  const rate = summary?.passRate ?? null;
  return [
    card.id,
    card.status,
    nameOf(card.dataset),
    nameOf(card.harness),
    `${ended}/${progress.total}`,
    rate === null ? "–" : percent(rate),
    card.createdAt,
  ];
}

/** A scorecard's result for people, with the runs worth naming. */
export function scorecardWords(card: Scorecard, named: readonly Run[] = [], columns = 120): string {
  const { summary, progress } = card;
  const lines = [
    `${card.id}  ${card.status}  ${plain(nameOf(card.dataset))} × ${plain(nameOf(card.harness))} on ${plain(card.targets.join(", "))}`,
  ];
  if (named.length > 0)
    lines.push(table(["CASE", "TRIAL", "RESULT", "SCORE", "WHY", "RUN"], named.map(runRow), columns).trimEnd());
  if (!summary) {
    lines.push(`  ${progress.total} runs: ${progress.running} running, ${progress.queued} queued`);
    return `${lines.join("\n")}\n`;
  }
  lines.push(`  pass rate   ${rateWords(summary)}`);
  if (summary.meanScore !== null) lines.push(`  mean score  ${percent(summary.meanScore)}`);
  lines.push(`  measured    ${summary.measured} of ${progress.total}`);
  const failed = FAILURE_CLASSES.filter((name) => summary.failedByClass[name] > 0);
  if (failed.length > 0) {
    lines.push(`  failed      ${failed.map((name) => `${summary.failedByClass[name]} ${name}`).join(", ")}`);
  }
  if (progress.cancelled > 0) lines.push(`  cancelled   ${progress.cancelled}`);
  const { p50, p95 } = summary.durationMs;
  if (p50 !== null && p95 !== null) lines.push(`  duration    p50 ${duration(p50)}, p95 ${duration(p95)}`);
  return `${lines.join("\n")}\n`;
}

function rateWords({ passRate, passRateInterval }: NonNullable<Scorecard["summary"]>): string {
  if (passRate === null) return "– (nothing was measured)";
  if (!passRateInterval) return percent(passRate);
  const [low, high] = passRateInterval;
  return `${percent(passRate)} (95 % interval ${percent(low)} to ${percent(high)})`;
}

type Comparison = OutputOf<(typeof SCORECARD_OPERATIONS)["compare_scorecards"]>;

/** Two scorecards side by side: the cases whose mean score differs. */
export function comparisonWords(comparison: Comparison, columns: number): string {
  const score = (side: Comparison["cases"][number]["a"]): string =>
    side === null ? "absent" : side.score === null ? side.status : percent(side.score);
  const changed = comparison.cases.filter(({ difference }) => difference !== 0);
  const rows = changed
    .slice(0, 200)
    .map(({ caseId, a, b, difference }) => [
      caseId,
      score(a),
      score(b),
      difference === null ? "–" : signed(difference),
    ]);
  const difference = comparison.passRateDifference;
  return [
    rows.length > 0 ? table(["CASE", "A", "B", "B − A"], rows, columns) : "",
    `improved ${comparison.improved}, regressed ${comparison.regressed}, unchanged ${comparison.unchanged}`,
    difference === null ? "" : `; pass rate ${signed(difference)}`,
    "\n",
  ].join("");
}

const signed = (share: number): string => `${share > 0 ? "+" : ""}${percent(share)}`;
