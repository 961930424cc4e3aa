import type { RunDigest, ScorecardSummary } from "./scorecard-rpc.ts";

/** 97.5 % quantile of the standard normal distribution: two-sided 95 %. */
const Z95 = 1.959963984540054;

/**
 * 95 % interval of a proportion by Wilson's score method (1927): it keeps its coverage for small samples and for rates
 * near 0 and 1, where the usual p ± z·√(p(1−p)/n) collapses to a point or leaves [0, 1].
 * @param successes may be fractional, as an effective sample size makes it
 * @param trials above 0
 */
export function wilsonInterval(successes: number, trials: number): [number, number] {
  const p = successes / trials;
  const z2 = Z95 * Z95;
  const denominator = 1 + z2 / trials;
  const centre = (p + z2 / (2 * trials)) / denominator;
  const half = (Z95 / denominator) * Math.sqrt((p * (1 - p)) / trials + z2 / (4 * trials * trials));
  return [p === 0 ? 0 : Math.max(0, centre - half), p === 1 ? 1 : Math.min(1, centre + half)];
}

/** Passes among the measured runs of one case. */
export interface CaseTally {
  passed: number;
  measured: number;
}

/**
 * How many independent runs the measured ones are worth. Trials of one case resemble each other, so n runs of k cases
 * know less than n runs of n cases: n is divided by the design effect, the variance between case totals over that of
 * independent runs (Kish 1965). It is never above n, and never below k, which identical trials would give. Where all runs
 * agree the likeness cannot be seen and k is taken; a single case is itself the population, so there n stands.
 */
export function effectiveRuns(cases: readonly CaseTally[]): number {
  const seen = cases.filter(({ measured }) => measured > 0);
  const k = seen.length;
  const n = seen.reduce((sum, { measured }) => sum + measured, 0);
  if (k <= 1 || n === k) return n;
  const p = seen.reduce((sum, { passed }) => sum + passed, 0) / n;
  const independent = (p * (1 - p)) / n;
  if (independent === 0) return k;
  const squares = seen.reduce((sum, { passed, measured }) => sum + (passed - measured * p) ** 2, 0);
  const clustered = (squares / (n * n)) * (k / (k - 1));
  const designEffect = clustered / independent;
  return Math.min(n, Math.max(k, n / designEffect));
}

/** 95 % interval of the pass rate over cases: Wilson's, on the effective number of runs; null without a measured run. */
export function passRateInterval(cases: readonly CaseTally[]): [number, number] | null {
  const measured = cases.reduce((sum, tally) => sum + tally.measured, 0);
  if (measured === 0) return null;
  const rate = cases.reduce((sum, tally) => sum + tally.passed, 0) / measured;
  const runs = effectiveRuns(cases);
  return wilsonInterval(rate * runs, runs);
}

/**
 * Percentile by nearest rank: always one of the values.
 * @param sorted ascending
 * @param percent above 0, at most 100
 */
export function percentile(sorted: readonly number[], percent: number): number | null {
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? null;
}

/**
 * A scorecard's result from its ended runs. Rates, scores and durations are of measured (succeeded) runs only; what was
 * not measured is counted by whose fault it was.
 */
export function summarise(
  digests: Iterable<Omit<RunDigest, "runId" | "failureCode" | "failureStage"> & { caseId: string }>,
): ScorecardSummary {
  const tallies = new Map<string, CaseTally>();
  const failedByClass = { infra: 0, config: 0, harness: 0, agent: 0 };
  const durations: number[] = [];
  let measured = 0;
  let passed = 0;
  let scores = 0;
  for (const digest of digests) {
    if (digest.status === "failed") failedByClass[digest.failureClass ?? "infra"] += 1;
    if (digest.status !== "succeeded") continue;
    const tally = tallies.get(digest.caseId) ?? { passed: 0, measured: 0 };
    tallies.set(digest.caseId, tally);
    tally.measured += 1;
    measured += 1;
    scores += digest.score ?? 0;
    if (digest.pass === true) {
      tally.passed += 1;
      passed += 1;
    }
    if (digest.durationMs !== null) durations.push(digest.durationMs);
  }
  durations.sort((a, b) => a - b);
  return {
    passRate: measured === 0 ? null : passed / measured,
    passRateInterval: passRateInterval([...tallies.values()]),
    meanScore: measured === 0 ? null : scores / measured,
    measured,
    failedByClass,
    durationMs: { p50: percentile(durations, 50), p95: percentile(durations, 95) },
  };
}
