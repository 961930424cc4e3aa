import type { Issue } from "../../../contracts/errors.ts";

/** Cases read from a text, each with the line it begins on. */
export interface CaseRows {
  cases: unknown[];
  /** First line of each case, from 1. */
  lines: number[];
  /** What could not be read at all. */
  problems: { line: number; message: string }[];
  /** Id and version, where the text is a whole dataset. */
  head: { id?: string; version?: string };
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Reads a dataset document, an array of cases, or one case a line (JSON Lines); a byte order mark is no part of it. */
export function readCases(text: string): CaseRows {
  // Trimming takes a byte order mark too, at the head of a text and at the head of a file that was pasted behind another.
  const trimmed = text.trim();
  if (trimmed === "") return { cases: [], lines: [], problems: [], head: {} };
  const whole = tryJson(trimmed);
  if (whole.ok && Array.isArray(whole.value)) return { cases: whole.value, lines: [], problems: [], head: {} };
  if (whole.ok && isRecord(whole.value) && Array.isArray(whole.value.cases)) {
    const { id, version, cases } = whole.value;
    const head = {
      ...(typeof id === "string" ? { id } : {}),
      ...(typeof version === "string" ? { version } : {}),
    };
    return { cases, lines: [], problems: [], head };
  }
  const looksWhole = /^[[{]\s*(\n|$)/.test(trimmed);
  if (!whole.ok && looksWhole)
    return {
      cases: [],
      lines: [],
      problems: [{ line: lineOf(text, text.length - text.trimStart().length + whole.at), message: whole.message }],
      head: {},
    };
  const rows: CaseRows = { cases: [], lines: [], problems: [], head: {} };
  for (const [index, line] of text.split("\n").entries()) {
    const row = line.trim();
    if (row === "") continue;
    const read = tryJson(row);
    if (read.ok) {
      rows.cases.push(read.value);
      rows.lines.push(index + 1);
    } else rows.problems.push({ line: index + 1, message: read.message });
  }
  return rows;
}

function tryJson(text: string): { ok: true; value: unknown } | { ok: false; message: string; at: number } {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch (error) {
    const message = error instanceof Error ? error.message : "not JSON";
    return { ok: false, message, at: Number(/position (\d+)/.exec(message)?.[1] ?? 0) };
  }
}

const lineOf = (text: string, at: number): number => text.slice(0, at).split("\n").length;

/** An error of the API, as a row of what was pasted: "case 3 (line 3)" or the case's id. */
export function placeOf(rows: CaseRows, { path }: Pick<Issue, "path">): string {
  const [, index, rest] = /^cases\.(\d+)\.?(.*)$/.exec(path) ?? [];
  if (index === undefined) return path || "dataset";
  const at = Number(index);
  const one = rows.cases[at];
  const id = isRecord(one) && typeof one.id === "string" ? ` '${one.id}'` : "";
  const line = rows.lines[at] === undefined ? "" : `, line ${rows.lines[at]}`;
  return `case ${at + 1}${id}${line}${rest ? `: ${rest}` : ""}`;
}
