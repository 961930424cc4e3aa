import { expect, test } from "vitest";
import { firstError, LogBuffer, type LogChunk, pieces, plainText } from "../../../web/pages/runs/log-lines.ts";

const chunk = (text: string, offset: number | null = null, stream: LogChunk["stream"] = "stdout", epoch = 1) => ({
  epoch,
  stream,
  offset,
  text,
});
const texts = (buffer: LogBuffer) => buffer.lines.map(({ plain }) => plain);

test("a line that comes in pieces is one line, and streams do not mix within one", () => {
  const buffer = new LogBuffer();
  buffer.add([
    chunk("he", 0),
    chunk("warn", 0, "stderr"),
    chunk("llo\nwor", 2),
    chunk("ing\n", 4, "stderr"),
    chunk("ld\n", 9),
  ]);
  expect(texts(buffer)).toEqual(["hello", "warning", "world"]);
  expect(buffer.lines.map(({ number }) => number)).toEqual([1, 2, 3]);
});

test("what is missing is said, and what is repeated is not shown twice", () => {
  const buffer = new LogBuffer();
  buffer.add([chunk("a\n", 10)]);
  buffer.add([chunk("c\n", 20), chunk("a\n", 10)]);
  expect(texts(buffer)).toEqual([
    "[10 bytes before this were dropped]",
    "a",
    "[8 bytes of stdout are missing here]",
    "c",
  ]);
});

test("offsets count bytes, not characters", () => {
  const buffer = new LogBuffer();
  buffer.add([chunk("é\n", 0), chunk("x\n", 3)]);
  expect(texts(buffer)).toEqual(["é", "x"]);
});

test("a progress bar shows its last state", () => {
  const buffer = new LogBuffer();
  buffer.add([chunk("10 %\r50 %", 0), chunk("\r100 %\n", 9)]);
  expect(texts(buffer)).toEqual(["100 %"]);
});

test("a new attempt starts anew, and a late word of the old one is ignored", () => {
  const buffer = new LogBuffer();
  buffer.add([chunk("old\n", 0), chunk("new\n", 0, "stdout", 2), chunk("late\n", 4)]);
  expect(texts(buffer)).toEqual(["new"]);
  expect(buffer.epoch).toBe(2);
});

test("control sequences are colours or nothing", () => {
  expect(plainText("\u001b]0;title\u0007\u001b[31mred\u001b[0m\u0007!\ttab")).toBe("red!\ttab");
  expect(pieces("\u001b[1;31mbad\u001b[0m good").map(({ text, color, bold }) => [text, color, bold])).toEqual([
    ["bad", "ansi-red", true],
    [" good", null, false],
  ]);
});

test("the first error is the first line that speaks of one", () => {
  const buffer = new LogBuffer();
  buffer.add([chunk("fine\nmirrored\nTypeError: x\nError: y\n", 0)]);
  expect(firstError(buffer.lines)?.plain).toBe("TypeError: x");
});
