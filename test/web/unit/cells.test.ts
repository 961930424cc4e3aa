import { expect, test } from "vitest";
import {
  type Cell,
  cellsOf,
  failureGroups,
  type GridCell,
  histogram,
  selectCells,
} from "../../../web/pages/scorecards/cells.ts";

const row = (runId: string, change: Partial<GridCell> = {}): GridCell => ({
  runId,
  caseId: `case-${runId}`,
  trial: 1,
  status: "queued",
  score: null,
  pass: null,
  durationMs: null,
  attempts: 0,
  failure: null,
  ...change,
});
const failure = (code: string, message: string, retryable = false) => ({
  class: "infra" as const,
  code,
  message,
  retryable,
});
const failed = (runId: string, code: string, message: string): Cell => ({
  ...row(runId, { status: "failed", failure: failure(code, message) }),
  shown: "failed",
});

test("the stream's word counts until the stored row has ended", () => {
  const live = new Map([
    ["a", { status: "running" as const, score: null }],
    ["b", { status: "succeeded" as const, score: 0.5 }],
    ["c", { status: "running" as const, score: null }],
  ]);
  const cells = cellsOf([row("a"), row("b"), row("c", { status: "failed" }), row("d")], live);
  expect(cells.map(({ shown }) => shown)).toEqual(["running", "not-passed", "failed", "queued"]);
  expect(cells[1]?.score).toBe(0.5);
});

test("a search looks for every word in name and cause", () => {
  const cells = [
    failed("1", "OOM_KILLED", "memory of 512 MB was not enough"),
    failed("2", "TIMEOUT", "not done in time"),
  ];
  const found = (q: string, more = {}) => selectCells(cells, { q, ...more }).map(({ runId }) => runId);
  expect(found("memory oom")).toEqual(["1"]);
  expect(found("case-2 memory")).toEqual([]);
  expect(found("", { failureClass: "agent" })).toEqual([]);
  expect(found("", { status: "failed" })).toEqual(["1", "2"]);
});

test("failures are grouped by cause, whatever figures and ids their words carry; the largest first", () => {
  const groups = failureGroups([
    failed("1", "RUNNER_LOST", "runner rnr-01abc was not heard for 120 s"),
    failed("2", "TIMEOUT", "not done"),
    failed("3", "RUNNER_LOST", "runner rnr-09xyz was not heard for 121 s"),
    failed("4", "RUNNER_LOST", "the machine said goodbye"),
  ]);
  expect(groups.map(({ class: name, cells }) => [name, cells.length])).toEqual([["infra", 4]]);
  expect(groups[0]?.causes.map(({ code, cells, variants }) => [code, cells.length, variants])).toEqual([
    ["RUNNER_LOST", 3, 2],
    ["TIMEOUT", 1, 1],
  ]);
  expect(groups[0]?.causes[0]?.message).toContain("was not heard");
});

test("a histogram has bins of a round width, holds every value, and one outlier does not flatten it", () => {
  const values = [...Array.from({ length: 200 }, (_, at) => at * 5), 1_000_000];
  const bins = histogram(values);
  expect(bins.reduce((sum, { count }) => sum + count, 0)).toBe(values.length);
  expect(bins[0]).toMatchObject({ from: 0, to: 50 });
  expect(bins.length).toBeLessThanOrEqual(24);
  expect(histogram([])).toEqual([]);
  expect(histogram([7]).reduce((sum, { count }) => sum + count, 0)).toBe(1);
  expect(histogram([0, 0]).reduce((sum, { count }) => sum + count, 0)).toBe(2);
});
