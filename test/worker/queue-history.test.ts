import { expect, test } from "vitest";
import { countOver } from "../../worker/services/queue-history.ts";

const span = (
  createdAt: number,
  startedAt: number | null,
  finishedAt: number | null,
  target = "gpu",
  memoryMb: number | null = null,
) => ({
  target,
  memoryMb,
  createdAt,
  startedAt,
  finishedAt,
});

test("a run waits from its submit to its start, and runs from there to its end", () => {
  // Spans that end at 100, 110, … 150.
  expect(countOver([span(105, 115, 135)], 100, 10, 6)).toEqual([
    { target: "gpu", waiting: [0, 1, 1, 0, 0, 0], inFlight: [0, 0, 1, 1, 1, 0], memoryMb: [0, 0, 0, 0, 0, 0] },
  ]);
});

test("what began before is counted from the first time, what has not ended to the last", () => {
  expect(countOver([span(0, 50, null), span(0, null, null), span(0, null, 125)], 100, 10, 4)).toEqual([
    { target: "gpu", waiting: [2, 2, 2, 2], inFlight: [1, 1, 1, 1], memoryMb: [0, 0, 0, 0] },
  ]);
});

test("what was over before, or begins later, is not counted; what came and went between two looks is", () => {
  expect(countOver([span(0, 10, 90), span(200, 210, null)], 100, 10, 4)).toEqual([]);
  expect(countOver([span(101, 102, 103)], 100, 10, 4)).toEqual([
    { target: "gpu", waiting: [0, 1, 0, 0], inFlight: [0, 1, 0, 0], memoryMb: [0, 0, 0, 0] },
  ]);
});

test("of many short runs one after the other no more are counted than ran at once", () => {
  const row = Array.from({ length: 8 }, (_, at) => span(101, 101 + at, 102 + at));
  expect(countOver(row, 100, 10, 2)).toEqual([{ target: "gpu", waiting: [0, 7], inFlight: [0, 1], memoryMb: [0, 0] }]);
});

test("targets stand apart, in order", () => {
  const counted = countOver([span(0, 0, null, "pool"), span(0, 0, null, "gpu"), span(0, 0, null, "gpu")], 100, 10, 1);
  expect(counted.map(({ target, inFlight }) => [target, inFlight])).toEqual([
    ["gpu", [2]],
    ["pool", [1]],
  ]);
});

test("memory is what those in flight declared; who declares none is not in it", () => {
  const runs = [
    span(0, 101, 125, "gpu", 512),
    span(0, 105, 108, "gpu", 1_024),
    span(0, 115, null, "gpu", 256),
    span(0, 101, null, "gpu"),
    span(0, null, null, "gpu", 4_096),
  ];
  expect(countOver(runs, 100, 10, 4)[0]?.memoryMb).toEqual([0, 1_536, 768, 768]);
});
