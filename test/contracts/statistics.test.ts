import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { effectiveRuns, passRateInterval, percentile, summarise, wilsonInterval } from "../../contracts/statistics.ts";

const tally = fc
  .record({ measured: fc.integer({ min: 1, max: 30 }), share: fc.double({ min: 0, max: 1, noNaN: true }) })
  .map(({ measured, share }) => ({ measured, passed: Math.round(measured * share) }));

describe("wilsonInterval", () => {
  // Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
  it.each([
    [81, 263, 0.2553, 0.3662],
    [15, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1, 29, 0.0061, 0.1718],
  ])("of %i in %i is the published one", (successes, trials, low, high) => {
    const [from, to] = wilsonInterval(successes, trials);
    expect(from).toBeCloseTo(low, 4);
    expect(to).toBeCloseTo(high, 4);
  });

  it("holds the rate, stays within [0, 1], mirrors, and narrows with more trials", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), fc.double({ min: 0, max: 1, noNaN: true }), (n, share) => {
        const successes = Math.round(n * share);
        const [low, high] = wilsonInterval(successes, n);
        expect(low).toBeGreaterThanOrEqual(0);
        expect(high).toBeLessThanOrEqual(1);
        expect(low).toBeLessThanOrEqual(successes / n + 1e-12);
        expect(high).toBeGreaterThanOrEqual(successes / n - 1e-12);
        const [mirroredLow, mirroredHigh] = wilsonInterval(n - successes, n);
        expect(mirroredLow).toBeCloseTo(1 - high, 9);
        expect(mirroredHigh).toBeCloseTo(1 - low, 9);
        const [tighterLow, tighterHigh] = wilsonInterval(successes * 4, n * 4);
        expect(tighterHigh - tighterLow).toBeLessThan(high - low);
      }),
    );
  });
});

describe("effectiveRuns", () => {
  it("is the number of runs when every case ran once", () => {
    expect(effectiveRuns(Array.from({ length: 40 }, (_, i) => ({ measured: 1, passed: i % 3 === 0 ? 1 : 0 })))).toBe(
      40,
    );
  });

  it("is the number of cases when all trials of a case agree", () => {
    const cases = Array.from({ length: 50 }, (_, i) => ({ measured: 10, passed: i % 2 === 0 ? 10 : 0 }));
    expect(effectiveRuns(cases)).toBeCloseTo(50, 6);
  });

  it("is the number of runs when the trials of a case tell nothing of each other", () => {
    // Binomial(4, 1/2) shares over 16 cases: exactly what independent coin tosses give.
    const passes = [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4];
    expect(effectiveRuns(passes.map((passed) => ({ measured: 4, passed })))).toBeCloseTo(60, 0);
  });

  it("takes the cases for the sample when all runs agree, and the runs when there is one case", () => {
    expect(effectiveRuns(Array.from({ length: 5 }, () => ({ measured: 20, passed: 20 })))).toBe(5);
    expect(effectiveRuns([{ measured: 20, passed: 20 }])).toBe(20);
  });

  it("lies between the number of cases and that of runs", () => {
    fc.assert(
      fc.property(fc.array(tally, { minLength: 1, maxLength: 60 }), (cases) => {
        const runs = cases.reduce((sum, { measured }) => sum + measured, 0);
        expect(effectiveRuns(cases)).toBeGreaterThanOrEqual(Math.min(cases.length, runs));
        expect(effectiveRuns(cases)).toBeLessThanOrEqual(runs);
      }),
    );
  });
});

describe("passRateInterval", () => {
  it("covers the true rate in about 95 of 100 scorecards whose trials resemble each other", () => {
    // A fixed linear congruential generator: the same 2 000 scorecards on every machine.
    let seed = 42;
    const random = (): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed / 2 ** 32;
    };
    let covered = 0;
    for (let round = 0; round < 2_000; round++) {
      // Each case has its own rate, uniform on [0.4, 1]: 0.7 over all cases.
      const cases = Array.from({ length: 60 }, () => {
        const rate = 0.4 + 0.6 * random();
        let passed = 0;
        for (let trial = 0; trial < 8; trial++) if (random() < rate) passed += 1;
        return { passed, measured: 8 };
      });
      const interval = passRateInterval(cases);
      if (interval && interval[0] <= 0.7 && 0.7 <= interval[1]) covered += 1;
    }
    expect(covered / 2_000).toBeGreaterThan(0.93);
    expect(covered / 2_000).toBeLessThan(0.97);
  });

  it("is absent without a measured run", () => {
    expect(passRateInterval([])).toBeNull();
  });
});

describe("percentile", () => {
  it("is the nearest rank", () => {
    expect([5, 30, 40, 50, 100].map((p) => percentile([15, 20, 35, 40, 50], p))).toEqual([15, 20, 20, 35, 50]);
    expect(percentile([], 50)).toBeNull();
  });

  it("is a value that at least so many per cent do not exceed", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { minLength: 1 }), fc.integer({ min: 1, max: 100 }), (values, percent) => {
        const sorted = [...values].sort((a, b) => a - b);
        const found = percentile(sorted, percent);
        expect(sorted).toContain(found);
        const below = sorted.filter((value) => value <= (found ?? -1)).length;
        expect(below / sorted.length).toBeGreaterThanOrEqual(percent / 100 - 1e-9);
      }),
    );
  });
});

describe("summarise", () => {
  const run = (caseId: string, over: object = {}) => ({
    caseId,
    status: "succeeded" as const,
    score: 1,
    pass: true,
    durationMs: 100,
    failureClass: null,
    ...over,
  });

  it("rates measured runs only, and counts the others by class", () => {
    const summary = summarise([
      run("a"),
      run("b", { score: 0.5, pass: false, durationMs: 300 }),
      run("c", { status: "failed", score: null, pass: null, durationMs: 900, failureClass: "infra" }),
      run("d", { status: "cancelled", score: null, pass: null, durationMs: null }),
    ]);
    expect(summary).toMatchObject({
      passRate: 0.5,
      meanScore: 0.75,
      measured: 2,
      failedByClass: { infra: 1, config: 0, harness: 0, agent: 0 },
      durationMs: { p50: 100, p95: 300 },
    });
    expect(summary.passRateInterval).toEqual(wilsonInterval(1, 2));
  });

  it("says nothing of what was not measured", () => {
    expect(summarise([])).toEqual({
      passRate: null,
      passRateInterval: null,
      meanScore: null,
      measured: 0,
      failedByClass: { infra: 0, config: 0, harness: 0, agent: 0 },
      durationMs: { p50: null, p95: null },
    });
  });

  it("widens the interval when the runs are trials of fewer cases", () => {
    const width = (cases: number): number => {
      const runs = Array.from({ length: 100 }, (_, i) =>
        run(`c${i % cases}`, { pass: (i % cases) % 2 === 0, score: (i % cases) % 2 === 0 ? 1 : 0 }),
      );
      const [low, high] = summarise(runs).passRateInterval ?? [0, 0];
      return high - low;
    };
    expect(width(10)).toBeGreaterThan(width(100) * 2);
  });
});
