import { type Grader, graderNames } from "../../contracts/graders.ts";
import type { Outcome } from "../../contracts/job.ts";
import type { FailureClass, Score } from "../../contracts/run.ts";
import { jsonEquals, parseJson, readJson, valueAt } from "./json-path.ts";
import { compileRegex, REGEX_TEXT_CHARS } from "./regex.ts";
import { fileSource, quote, quoteEnd, type Source, streamSource } from "./text.ts";

/** A score, or why there can be none: then nothing trustworthy was measured. */
export type Graded =
  | { kind: "scored"; score: number; detail: string | null }
  | { kind: "unscorable"; class: FailureClass; code: string; reason: string };

type Known = Extract<Source, { state: "known" }>;

const DETAIL_CHARS = 2_000;
const passed: Graded = { kind: "scored", score: 1, detail: null };
const missed = (detail: string): Graded => ({ kind: "scored", score: 0, detail: detail.slice(0, DETAIL_CHARS) });

/** The scores of all graders in order, or the first reason why there can be none. */
export function scoreAll(
  outcome: Outcome,
  graders: readonly Grader[],
  expected: string | null,
): { ok: true; scores: Score[] } | { ok: false; name: string; fault: Extract<Graded, { kind: "unscorable" }> } {
  const names = graderNames(graders);
  const scores: Score[] = [];
  for (const [i, grader] of graders.entries()) {
    const name = names[i] ?? grader.kind;
    const graded = grade(outcome, grader, name, expected);
    if (graded.kind === "unscorable") return { ok: false, name, fault: graded };
    const { score, detail } = graded;
    scores.push({ name, kind: grader.kind, score, pass: score === 1, weight: grader.weight, detail });
  }
  return { ok: true, scores };
}

function grade(outcome: Outcome, grader: Grader, name: string, expected: string | null): Graded {
  switch (grader.kind) {
    case "exit-code":
      return gradeExitCode(outcome, grader.equals);
    case "command":
      return gradeCommand(outcome, name);
    case "contains": {
      const value = grader.value ?? expected;
      if (!value) return withoutValue("value");
      return onSource(sourceOf(outcome, grader.in, grader.path), (known) => gradeContains(known, value));
    }
    case "regex":
      return onSource(sourceOf(outcome, grader.in, grader.path), (known) =>
        gradeRegex(known, grader.pattern, grader.flags),
      );
    case "json-match":
      return gradeJson(outcome, grader, expected);
    case "file-equals": {
      const value = grader.value ?? expected;
      if (value === null) return withoutValue("value");
      return onSource(fileSource(outcome, grader.path), (known) => gradeEquals(known, value));
    }
  }
}

function sourceOf(outcome: Outcome, where: "stdout" | "stderr" | "file", path: string | undefined): Source {
  return where === "file" ? fileSource(outcome, path ?? "") : streamSource(outcome, where);
}

function onSource(source: Source, judge: (known: Known) => Graded): Graded {
  if (source.state === "known") return judge(source);
  if (source.state === "absent") return missed(`${source.what} does not exist`);
  return {
    kind: "unscorable",
    class: "harness",
    code: "OUTPUT_TOO_LARGE",
    reason: `${source.what} was cut away to make the result fit; write less to the output and the graded files`,
  };
}

function withoutValue(key: string): Graded {
  return {
    kind: "unscorable",
    class: "config",
    code: "GRADER_INVALID",
    reason: `it names no ${key} and the case has no expected`,
  };
}

/** Exit statuses that a shell itself gives: https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_08_02 */
function exitHint(code: number, signal: number | null): string {
  if (code === 127) return " (command not found: check the command's name, its path and the image)";
  if (code === 126) return " (found but not executable)";
  if (signal !== null) return ` (ended by signal ${signal})`;
  return "";
}

function gradeExitCode(outcome: Outcome, equals: number): Graded {
  const found = outcome.exitCode ?? (outcome.signal === null ? null : 128 + outcome.signal);
  if (found === null) return missed(`expected exit status ${equals}, found none`);
  if (found === equals) return passed;
  return missed(`expected exit status ${equals}, found ${found}${exitHint(found, outcome.signal)}`);
}

function gradeCommand(outcome: Outcome, name: string): Graded {
  const found = Object.hasOwn(outcome.graderExits, name) ? outcome.graderExits[name] : undefined;
  if (found === undefined) {
    return {
      kind: "unscorable",
      class: "harness",
      code: "GRADER_NOT_RUN",
      reason: "its command did not run: command graders have 300 s together",
    };
  }
  if (found === 0) return passed;
  const hint = found === 124 || found === 137 ? " (perhaps its 60 s were over)" : exitHint(found, null);
  return missed(`expected the command to exit with 0, found ${found}${hint}`);
}

function gradeContains(source: Known, value: string): Graded {
  if (source.text.includes(value)) return passed;
  const where = source.part === null ? source.what : `${source.part} of ${source.what}, all that was kept,`;
  const found = source.totalBytes === 0 ? "it is empty" : `it ends with ${quoteEnd(source.text)}`;
  return missed(`expected ${where} to contain ${quote(value)}; ${found}`);
}

function gradeRegex(source: Known, pattern: string, flags: string | undefined): Graded {
  const compiled = compileRegex(pattern, flags);
  if (!compiled.ok) {
    return { kind: "unscorable", class: "config", code: "GRADER_INVALID", reason: `its pattern ${compiled.reason}` };
  }
  const fromEnd = source.what === "stdout" || source.what === "stderr";
  const text = fromEnd ? source.text.slice(-REGEX_TEXT_CHARS) : source.text.slice(0, REGEX_TEXT_CHARS);
  if (compiled.test(text)) return passed;
  const tried =
    text.length < source.text.length
      ? `the ${fromEnd ? "last" : "first"} ${REGEX_TEXT_CHARS} characters of ${source.what}`
      : source.part === null
        ? source.what
        : `${source.part} of ${source.what}, all that was kept,`;
  const found = source.totalBytes === 0 ? "it is empty" : `it ends with ${quoteEnd(source.text)}`;
  return missed(`expected ${tried} to match /${pattern.slice(0, 500)}/${flags ?? ""}; ${found}`);
}

function gradeJson(outcome: Outcome, grader: Extract<Grader, { kind: "json-match" }>, expected: string | null): Graded {
  const wanted = grader.equals !== undefined ? [grader.equals] : expected === null ? null : expectedAsJson(expected);
  if (wanted === null) return withoutValue("equals");
  return onSource(sourceOf(outcome, grader.in, grader.file), (source) => {
    const document = readJson(source.text);
    const known = source.part === null ? "" : ` (only ${source.part} were kept)`;
    if (document === undefined) {
      const found = source.totalBytes === 0 ? "it is empty" : `it ends with ${quoteEnd(source.text)}`;
      return missed(`expected ${source.what} to be JSON${known}; ${found}`);
    }
    const at = valueAt(document, grader.path);
    const shown = quoteJson(wanted[0]);
    if (!at.found)
      return missed(`expected ${shown} at ${grader.path} of ${source.what}${known}, found nothing at ${at.at}`);
    if (wanted.some((value) => jsonEquals(value, at.value))) return passed;
    return missed(`expected ${shown} at ${grader.path} of ${source.what}${known}, found ${quoteJson(at.value)}`);
  });
}

/** An expected text may be meant as a JSON value or as the string itself: either matches. */
function expectedAsJson(expected: string): unknown[] {
  const value = parseJson(expected);
  return value === undefined ? [expected] : [value, expected];
}

function quoteJson(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

function gradeEquals(source: Known, value: string): Graded {
  const wanted = new TextEncoder().encode(value);
  const differs = firstDifference(source.bytes, wanted);
  if (differs === null && source.totalBytes === wanted.length) {
    if (source.bytes.length === wanted.length) return passed;
    return missed(
      `${source.what} has the expected size, but only ${source.part} were kept: it cannot be told to be equal`,
    );
  }
  const sizes = `expected ${source.what} to hold ${wanted.length} bytes ${quote(value)}, found ${source.totalBytes} bytes`;
  if (differs === null) {
    const newline = source.text === `${value}\n` ? ": equal but for a newline at its end" : "";
    return missed(`${sizes}${newline || ` ${quote(source.text)}`}`);
  }
  const window = (text: Uint8Array): string =>
    quote(new TextDecoder().decode(text.subarray(differs, differs + 80)), 60);
  return missed(`${sizes}; from byte ${differs} on expected ${window(wanted)}, found ${window(source.bytes)}`);
}

/** Index of the first byte in which two contents differ within their common length; null when none does. */
function firstDifference(a: Uint8Array, b: Uint8Array): number | null {
  const common = Math.min(a.length, b.length);
  for (let i = 0; i < common; i++) if (a[i] !== b[i]) return i;
  return null;
}
