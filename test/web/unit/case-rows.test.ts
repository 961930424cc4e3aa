import { describe, expect, test } from "vitest";
import { placeOf, readCases } from "../../../web/pages/library/case-rows.ts";

const A = { id: "a", task: "say a" };
const B = { id: "b", task: "say b" };
const BOM = "\uFEFF";
const LINES = `${JSON.stringify(A)}\n\n${JSON.stringify(B)}\r\n`;
const ARRAY = JSON.stringify([A, B]);
const WHOLE = JSON.stringify({ id: "letters", version: "1.2.0", cases: [A, B] }, null, 2);

describe("cases of a pasted text", () => {
  test.each([
    ["", ""],
    ["behind a byte order mark ", BOM],
  ])("%sare read from lines, an array and a whole dataset", (_where, mark) => {
    expect(readCases(mark + LINES)).toEqual({ cases: [A, B], lines: [1, 3], problems: [], head: {} });
    expect(readCases(mark + ARRAY)).toEqual({ cases: [A, B], lines: [], problems: [], head: {} });
    expect(readCases(mark + WHOLE)).toEqual({
      cases: [A, B],
      lines: [],
      problems: [],
      head: { id: "letters", version: "1.2.0" },
    });
  });

  test("two files one behind the other keep no mark between them", () => {
    expect(readCases(BOM + LINES + BOM + LINES)).toMatchObject({
      cases: [A, B, A, B],
      lines: [1, 3, 4, 6],
      problems: [],
    });
  });

  test("a broken line is named by its number, and the others are read", () => {
    const { cases, lines, problems } = readCases(`${BOM}${JSON.stringify(A)}\n{"id":"x"\n${JSON.stringify(B)}`);
    expect(cases).toEqual([A, B]);
    expect(lines).toEqual([1, 3]);
    expect(problems).toEqual([{ line: 2, message: expect.stringContaining("JSON") }]);
  });

  test("a broken document is one problem, on the line where it breaks", () => {
    const { cases, problems } = readCases(`\n\n[\n  ${JSON.stringify(A)}\n  ${JSON.stringify(B)}\n]`);
    expect(cases).toEqual([]);
    expect(problems).toEqual([{ line: 5, message: expect.stringContaining("JSON") }]);
  });

  test("nothing is no cases", () => {
    for (const text of ["", " \n", BOM])
      expect(readCases(text)).toEqual({ cases: [], lines: [], problems: [], head: {} });
  });

  test("an error of the API is placed in what was pasted", () => {
    expect(placeOf(readCases(LINES), { path: "cases.1.task" })).toBe("case 2 'b', line 3: task");
    expect(placeOf(readCases(ARRAY), { path: "cases.0" })).toBe("case 1 'a'");
    expect(placeOf(readCases(ARRAY), { path: "" })).toBe("dataset");
  });
});
