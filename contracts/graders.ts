import * as z from "zod";
import type { Issue } from "./errors.ts";
import { between, whole } from "./numbers.ts";

/** Bounds of one grader; together with LIMITS.gradersPerCase they bound what grading a run can cost. */
export const GRADER_LIMITS = {
  nameChars: 100,
  valueChars: 65_536,
  patternChars: 1_000,
  pathChars: 500,
  jsonPathChars: 500,
  jsonEqualsChars: 16_384,
  commandChars: 16_384,
  /** A pattern may cost a second of CPU on 64 KiB of hostile text; a Worker has 30 for the whole request. */
  regexPerCase: 10,
  weightMax: 1_000,
} as const;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
const CONTROL = /[\u0000-\u001f\u007f]/;

const GraderName = z
  .string()
  .min(1)
  .max(GRADER_LIMITS.nameChars)
  .refine((name) => !CONTROL.test(name) && name.trim() === name, "must be printable text without spaces at its ends")
  .describe("Name of the score, unique in the case; default: the kind, then kind-2, kind-3");

const weight = between(0, GRADER_LIMITS.weightMax)
  .default(1)
  .describe(
    "Share in the weighted mean of the scores; a case passes only when every grader scores 1, whatever its weight",
  );

/** A path inside the work dir: relative, no "..", no empty segment. */
export const GradedPath = z
  .string()
  .min(1)
  .max(GRADER_LIMITS.pathChars)
  .refine((path) => !CONTROL.test(path), "must not hold control characters")
  .refine(
    (path) => !path.startsWith("/") && path.split("/").every((part) => part !== "" && part !== "." && part !== ".."),
    "must be a relative path inside the work dir, without '.', '..' or empty segments",
  )
  .describe("File to look at, relative to the work dir");

const source = z
  .enum(["stdout", "stderr", "file"])
  .default("stdout")
  .describe("Where to look; 'file' needs path. Of a stream, the last 64 KiB are graded");

const common = { name: GraderName.optional(), weight };

/** Any JSON value of bounded size; kept out of a recursive schema, which breaks the OpenAPI 3.1 document. */
const jsonValue = z.unknown().refine((value) => {
  if (value === undefined) return true;
  try {
    return JSON.stringify(value).length <= GRADER_LIMITS.jsonEqualsChars;
  } catch {
    return false;
  }
}, `must be JSON of at most ${GRADER_LIMITS.jsonEqualsChars} characters`);

export const ExitCodeGrader = z
  .strictObject({
    kind: z.literal("exit-code"),
    equals: whole(0, 255).default(0).describe("Exit status the agent must end with"),
    ...common,
  })
  .describe("The agent's exit status equals a number");

export const ContainsGrader = z
  .strictObject({
    kind: z.literal("contains"),
    value: z
      .string()
      .min(1)
      .max(GRADER_LIMITS.valueChars)
      .optional()
      .describe("Text to find, exactly; default: the case's expected"),
    in: source,
    path: GradedPath.optional(),
    ...common,
  })
  .describe("Output or a file contains a text");

export const RegexGrader = z
  .strictObject({
    kind: z.literal("regex"),
    pattern: z.string().min(1).max(GRADER_LIMITS.patternChars).describe("RE2 pattern, found anywhere in the text"),
    flags: z
      .string()
      .max(3)
      .regex(/^(?!.*(.).*\1)[ims]*$/, "must be made of i, m and s, each at most once")
      .optional()
      .describe("i ignores case, m lets ^ and $ match at lines, s lets . match a newline"),
    in: source,
    path: GradedPath.optional(),
    ...common,
  })
  .describe("Output or a file matches a regular expression of the RE2 class (no backreferences, no look-around)");

const JSON_PATH = /^\$(?:\.[A-Za-z_][A-Za-z0-9_-]*|\[(?:0|[1-9][0-9]{0,8})\]|\['[^']*'\])*$/;

export const JsonMatchGrader = z
  .strictObject({
    kind: z.literal("json-match"),
    path: z
      .string()
      .max(GRADER_LIMITS.jsonPathChars)
      .regex(JSON_PATH, "must be '$' followed by .name, [0] or ['any name'], for example $.items[0].id")
      .describe("Where in the document, for example $.a.b[0]; '$' is the whole of it"),
    equals: jsonValue.optional().describe("JSON value that must stand there; default: the case's expected"),
    in: source.describe(
      "Where to look; 'file' needs file. A stream is read as one document, else by its last non-empty line",
    ),
    file: GradedPath.optional(),
    ...common,
  })
  .describe("A JSON document holds a value at a path; objects compare without regard to the order of keys");

export const FileEqualsGrader = z
  .strictObject({
    kind: z.literal("file-equals"),
    path: GradedPath,
    value: z
      .string()
      .max(GRADER_LIMITS.valueChars)
      .optional()
      .describe("Whole content, to the byte; default: the case's expected"),
    ...common,
  })
  .describe("A file's content equals a text");

export const CommandGrader = z
  .strictObject({
    kind: z.literal("command"),
    command: z
      .string()
      .min(1)
      .max(GRADER_LIMITS.commandChars)
      .refine((command) => command.trim() !== "", "must not be blank")
      .describe("POSIX sh run after the agent in its container; exit status 0 passes; 60 s each, 300 s together"),
    ...common,
  })
  .describe("A command run after the agent in the same container exits with 0");

export const Grader = z
  .discriminatedUnion("kind", [
    ExitCodeGrader,
    ContainsGrader,
    RegexGrader,
    JsonMatchGrader,
    FileEqualsGrader,
    CommandGrader,
  ])
  .describe("One rule that scores a run from 0 to 1");
export type Grader = z.infer<typeof Grader>;
export type GraderKind = Grader["kind"];
/** A grader as a user writes it: defaults may be absent. */
export type GraderInput = z.input<typeof Grader>;

/** What judging one run needs beside its Outcome: the GradingSpec that travels with an entry. Other keys are left alone. */
export const Rubric = z.object({
  graders: z.array(Grader).max(64),
  expected: z.string().max(524_288).nullable().optional(),
});
export type Rubric = z.infer<typeof Rubric>;

/** The graders that judge a case: its own, or the exit status alone, so that a case without graders can fail too. */
export function effectiveGraders(graders: readonly Grader[]): Grader[] {
  return graders.length > 0 ? [...graders] : [{ kind: "exit-code", equals: 0, weight: 1 }];
}

/**
 * The unique name of each grader, in order: its own, or its kind with -2, -3… where that is taken. Explicit names keep
 * their place, so a default never takes one that stands further down.
 */
export function graderNames(graders: readonly Grader[]): string[] {
  const taken = new Set(graders.flatMap((grader) => (grader.name === undefined ? [] : [grader.name])));
  return graders.map((grader) => {
    if (grader.name !== undefined) return grader.name;
    let name: string = grader.kind;
    for (let n = 2; taken.has(name); n++) name = `${grader.kind}-${n}`;
    taken.add(name);
    return name;
  });
}

/** The file a grader looks at, or null. */
export function gradedPath(grader: Grader): string | null {
  switch (grader.kind) {
    case "file-equals":
      return grader.path;
    case "contains":
    case "regex":
      return grader.in === "file" ? (grader.path ?? null) : null;
    case "json-match":
      return grader.in === "file" ? (grader.file ?? null) : null;
    default:
      return null;
  }
}

/** Every file the graders look at, once each, in order of first mention: what the program must collect. */
export function gradedPaths(graders: readonly Grader[]): string[] {
  return [...new Set(graders.map(gradedPath).filter((path) => path !== null))];
}

/** The command graders by name: what the program must run after the agent. */
export function graderCommands(graders: readonly Grader[]): { name: string; command: string }[] {
  const names = graderNames(graders);
  return graders.flatMap((grader, i) =>
    grader.kind === "command" ? [{ name: names[i] ?? grader.kind, command: grader.command }] : [],
  );
}

/**
 * What is wrong with a case's graders taken together; empty when nothing is.
 * @param expected the case's expected answer, if it has one
 * @param prefix dotted path of the list in the request
 */
export function graderIssues(
  graders: readonly Grader[],
  expected: string | null | undefined,
  prefix = "graders",
): Issue[] {
  const issues: Issue[] = [];
  const named = new Map<string, number>();
  graders.forEach((grader, i) => {
    const at = `${prefix}.${i}`;
    if (grader.name !== undefined) {
      const first = named.get(grader.name);
      if (first === undefined) named.set(grader.name, i);
      else issues.push({ path: `${at}.name`, message: `'${grader.name}' is already the name of ${prefix}.${first}` });
    }
    issues.push(...sourceIssues(grader, at), ...valueIssues(grader, expected, at));
  });
  if (graders.filter((grader) => grader.kind === "regex").length > GRADER_LIMITS.regexPerCase) {
    issues.push({
      path: prefix,
      message: `at most ${GRADER_LIMITS.regexPerCase} regex graders; join patterns with '|'`,
    });
  }
  if (graders.length > 0 && graders.every((grader) => grader.weight === 0)) {
    issues.push({ path: prefix, message: "at least one grader needs a weight above 0" });
  }
  return issues;
}

function sourceIssues(grader: Grader, at: string): Issue[] {
  if (grader.kind !== "contains" && grader.kind !== "regex" && grader.kind !== "json-match") return [];
  const key = grader.kind === "json-match" ? "file" : "path";
  const named = grader.kind === "json-match" ? grader.file : grader.path;
  if (grader.in === "file" && named === undefined) {
    return [{ path: `${at}.${key}`, message: `is needed with "in": "file": the file to look at` }];
  }
  if (grader.in !== "file" && named !== undefined) {
    return [{ path: `${at}.in`, message: `must be "file" when ${key} is given` }];
  }
  return [];
}

function valueIssues(grader: Grader, expected: string | null | undefined, at: string): Issue[] {
  const absent = expected === undefined || expected === null;
  if (grader.kind === "contains" && grader.value === undefined && !expected) {
    return [{ path: `${at}.value`, message: "is needed when the case has no expected text" }];
  }
  if (grader.kind === "file-equals" && grader.value === undefined && absent) {
    return [{ path: `${at}.value`, message: "is needed when the case has no expected" }];
  }
  if (grader.kind === "json-match" && grader.equals === undefined && absent) {
    return [{ path: `${at}.equals`, message: "is needed when the case has no expected" }];
  }
  return [];
}
