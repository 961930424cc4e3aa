import { expect, test } from "vitest";
import { sortRows } from "../../../web/ui/sort-rows.ts";

test("numbers in names count as numbers, equal keys keep their order, and what has no key comes last either way", () => {
  const rows = [
    { id: "case-10", score: 1 },
    { id: "case-2", score: null },
    { id: "case-1", score: 0.5 },
    { id: "case-3", score: 1 },
  ];
  const ids = (sorted: typeof rows) => sorted.map(({ id }) => id);
  expect(ids(sortRows(rows, ({ id }) => id, false))).toEqual(["case-1", "case-2", "case-3", "case-10"]);
  expect(ids(sortRows(rows, ({ score }) => score, false))).toEqual(["case-1", "case-10", "case-3", "case-2"]);
  expect(ids(sortRows(rows, ({ score }) => score, true))).toEqual(["case-10", "case-3", "case-1", "case-2"]);
  expect(ids(rows)).toEqual(["case-10", "case-2", "case-1", "case-3"]);
});
