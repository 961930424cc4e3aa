import type { Run, RunResult } from "../../../contracts/run.ts";
import type { Scorecard } from "../../../contracts/scorecard.ts";

export const RUN_ID = "run_01jdz8k3v4w5x6y7z8a9b0c1d2";
export const SCORECARD_ID = "sc_01jdz8k3v4w5x6y7z8a9b0c1d2";
const NOW = "2026-11-30T08:00:00.000Z";

export const result = (over: Partial<RunResult> = {}): RunResult => ({
  exitCode: 0,
  score: 1,
  pass: true,
  scores: [{ name: "exit-code", kind: "exit-code", score: 1, pass: true, weight: 1, detail: null }],
  durationMs: 412,
  stdoutTail: "hi",
  outputs: [],
  ...over,
});

export const run = (over: Partial<Run> = {}): Run => ({
  id: RUN_ID,
  workspace: "acme",
  status: "queued",
  target: "gpu",
  runtime: null,
  harness: { id: "echo", version: "1.0.0" },
  caseId: "c1",
  trial: 1,
  scorecardId: null,
  createdBy: "dev",
  createdAt: NOW,
  startedAt: null,
  finishedAt: null,
  epoch: 0,
  waiting: null,
  result: null,
  failure: null,
  provenance: null,
  attempts: [],
  ...over,
});

export const missed = result({
  score: 0,
  pass: false,
  scores: [
    {
      name: "exit-code",
      kind: "exit-code",
      score: 0,
      pass: false,
      weight: 1,
      detail: "expected exit status 0, found 1",
    },
  ],
});

export const lost = run({
  status: "failed",
  caseId: "c2",
  failure: { stage: "run", class: "infra", code: "NODE_LOST", message: "the node went away", retryable: true },
});

export const progress = (over: Partial<Scorecard["progress"]> = {}): Scorecard["progress"] => ({
  total: 3,
  queued: 0,
  running: 0,
  succeeded: 3,
  failed: 0,
  cancelled: 0,
  ...over,
});

export const scorecard = (over: Partial<Scorecard> = {}): Scorecard => ({
  id: SCORECARD_ID,
  workspace: "acme",
  status: "succeeded",
  dataset: { id: "smoke", version: "1.0.0" },
  harness: { id: "echo", version: "1.0.0" },
  targets: ["gpu"],
  concurrency: 4,
  retries: 1,
  trials: 1,
  createdBy: "dev",
  createdAt: NOW,
  finishedAt: NOW,
  progress: progress(),
  summary: {
    passRate: 1,
    passRateInterval: [0.44, 1],
    meanScore: 1,
    measured: 3,
    failedByClass: { infra: 0, config: 0, harness: 0, agent: 0 },
    durationMs: { p50: 400, p95: 900 },
  },
  ...over,
});
