import { LIMITS } from "../../contracts/names.ts";
import { expandPlaceholders, paramVariable } from "../../contracts/placeholders.ts";
import { DELIVER, GRADE, PRELUDE, RUN } from "./script.ts";
import { base64Text, byteLength, quote, writeFile } from "./shell-text.ts";

/** What the program does in its container. */
export interface ProgramInput {
  /** Text of the task; a variable up to 100 KiB, always a file. */
  task: string;
  /** Steps before the agent, in one shell with it. Placeholders are allowed. */
  setup: readonly string[];
  /** The agent, with placeholders {{task}} {{model}} {{run_id}} and parameter names. */
  command: string;
  /** Values of the parameters by name. */
  params: Readonly<Record<string, string>>;
  /** Model name for {{model}}, or null. */
  model: string | null;
  /** Literal environment of the harness. Secrets are not here: they come from the backend's environment. */
  env: Readonly<Record<string, string>>;
  /** Directory of the files, relative; by default "work". */
  workDir: string;
  /** files: unpacked by the program. git: a clone that the backend put at $EVD_DIR/source. none: an empty directory. */
  source: { kind: "files"; files: Readonly<Record<string, string>> } | { kind: "git" } | { kind: "none" };
  /** Seconds for setup and agent together. */
  timeoutSec: number;
  /** Seconds between TERM and KILL. */
  graceSec: number;
  /** Commands run in the work directory after the agent, by unique name. */
  graders: readonly { name: string; command: string }[];
  /** Files that graders name, relative to the work directory. */
  collect: readonly string[];
}

/** Thrown for an input that no program can be made of; the message names what to change. */
export class ProgramInputError extends Error {
  override readonly name = "ProgramInputError";
}

const MAX_COLLECT = 200;
const SETUP_TEXT_CHARS = 100;

/** Whether a path stays below the work directory: relative, no `..`, no NUL or newline, at most 1 000 characters. */
export function isInnerPath(path: string): boolean {
  if (path.length === 0 || path.length > 1_000 || path.startsWith("/")) return false;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: NUL ends a path and a newline ends a record
  if (/[\u0000\n]/.test(path)) return false;
  return path.split("/").every((part) => part !== ".." && part !== "");
}

function inner(path: string, what: string): string {
  if (!isInnerPath(path))
    throw new ProgramInputError(`${what} '${path.slice(0, 100)}' must be a relative path without '..'`);
  return path;
}

function expand(command: string, params: readonly string[], what: string): string {
  const expanded = expandPlaceholders(command, params);
  if (expanded.ok) return expanded.command;
  throw new ProgramInputError(`${what}: ${expanded.issues.map((issue) => issue.message).join("; ")}`);
}

/** Unpacks a text to a file below $evd_run. */
function blob(name: string, text: string): string {
  return `printf %s '${base64Text(text)}' | base64 -d >"$evd_run/${name}" || evd_fail "cannot unpack ${name}"\n`;
}

function filesScript(files: Readonly<Record<string, string>>): string {
  const directories = new Set<string>();
  const writes: string[] = [];
  for (const [path, text] of Object.entries(files)) {
    inner(path, "file");
    const slash = path.lastIndexOf("/");
    if (slash > 0) directories.add(path.slice(0, slash));
    writes.push(`${writeFile(quote(`./${path}`), text)} || exit 1`);
  }
  const made = [...directories].map((directory) => `mkdir -p ${quote(`./${directory}`)} || exit 1`);
  return `cd "$1" || exit 1\n${[...made, ...writes].join("\n")}\n`;
}

/** Sourced by agent and graders: their environment, their directory, and `cd work` from the work directory itself. */
function enterScript(input: ProgramInput): string {
  const lines = [
    "evd_run=$1 evd_work=$2 evd_name=$3",
    "unset EVD_DIR EVD_NONCE_FILE EVD_OUTCOME_FILE EVD_TERMINATION_FILE EVD_PAUSE_SEC",
    'export EVD_WORK_DIR="$evd_work"',
  ];
  if (byteLength(input.task) <= LIMITS.taskBytes) {
    // The x keeps newlines at the end, which a command substitution drops.
    lines.push('EVD_TASK=$(cat "$EVD_TASK_FILE"; echo x)', "EVD_TASK=${EVD_TASK%x}", "export EVD_TASK");
  }
  if (input.source.kind === "git") {
    // Another user made the clone; git would refuse to work in it.
    lines.push(
      '[ -n "${GIT_CONFIG_COUNT:-}" ] || ' +
        "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'",
    );
  }
  lines.push(`export EVD_MODEL=${quote(input.model ?? "")}`);
  for (const [name, value] of Object.entries(input.params)) lines.push(`export ${paramVariable(name)}=${quote(value)}`);
  for (const [name, value] of Object.entries(input.env)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      throw new ProgramInputError(`'${name}' is not an environment variable name`);
    lines.push(`export ${name}=${quote(value)}`);
  }
  lines.push(
    'cd "$evd_work" || exit 97',
    "evd_home=$PWD",
    "unset OLDPWD",
    "cd() {",
    '  if [ "$#" -eq 1 ] && [ "$PWD" = "$evd_home" ] && [ ! -e "$1" ]; then',
    '    case $1 in "$evd_name" | "./$evd_name" | "$evd_name/" | "./$evd_name/") return 0 ;; esac',
    "  fi",
    '  command cd "$@"',
    "}",
  );
  return `${lines.join("\n")}\n`;
}

/** Setup and agent in one shell, so that `cd` and `export` of a step last; setup speaks on standard error. */
function agentScript(setup: readonly string[]): string {
  const steps = setup.map((_, index) => `printf ${index} >"$evd_run/step"; . "$evd_run/setup.${index}" >&2 || exit $?`);
  return ['. "$1/enter"', "shift 3", ...steps, 'printf done >"$evd_run/step"', '. "$evd_run/command"', ""].join("\n");
}

const GRADE_SCRIPT = '. "$1/enter"\nevd_grader=$4\nshift 4\n. "$evd_run/grader.$evd_grader"\n';

/** Case that names the failed step; its text is cut so that the compact Outcome holds it. */
function setupTexts(setup: readonly string[]): string {
  const rows = setup.map((step, index) => {
    const text = [...step].slice(0, SETUP_TEXT_CHARS).join("");
    return `${index}) evd_setup_bytes=${byteLength(text)} evd_setup_text='${base64Text(text)}' ;;`;
  });
  return `evd_agent_rc=$evd_rc evd_setup_bytes=0 evd_setup_text=\ncase $evd_step in\ndone) ;;\n${rows.join("\n")}\n*) evd_step=none ;;\nesac\n`;
}

function sourceLines(input: ProgramInput): string {
  if (input.source.kind === "git") {
    return `[ -d "$EVD_DIR/source" ] || evd_fail "no git source at $EVD_DIR/source"
mkdir -p "$evd_work" && rmdir "$evd_work" && mv "$EVD_DIR/source" "$evd_work" || evd_fail "cannot place the git source"
command -v git >/dev/null 2>&1 && git -c safe.directory='*' -C "$evd_work" rev-parse HEAD >"$evd_run/base" 2>/dev/null
`;
  }
  const files = input.source.kind === "files" ? input.source.files : {};
  const unpack =
    Object.keys(files).length === 0
      ? ""
      : `${blob("files", filesScript(files))}sh "$evd_run/files" "$evd_work" || evd_fail "cannot unpack the files"\n`;
  return `mkdir -p "$evd_work" || evd_fail "cannot make the work directory"\n${unpack}`;
}

function blobs(input: ProgramInput): string {
  const names = Object.keys(input.params);
  const parts = [
    `printf %s '${base64Text(input.task)}' | base64 -d >"$EVD_TASK_FILE" || evd_fail "cannot unpack the task"\n`,
    blob("enter", enterScript(input)),
    blob("agent", agentScript(input.setup)),
    blob("command", `${expand(input.command, names, "command")}\n`),
  ];
  input.setup.forEach((step, index) => {
    parts.push(blob(`setup.${index}`, `${expand(step, names, `setup[${index}]`)}\n`));
  });
  if (input.graders.length > 0) parts.push(blob("grade", GRADE_SCRIPT));
  input.graders.forEach((grader, index) => {
    parts.push(blob(`grader.${index}`, `${grader.command}\n`));
  });
  return parts.join("");
}

function checkInput(input: ProgramInput): void {
  inner(input.workDir, "workDir");
  if (input.collect.length > MAX_COLLECT) throw new ProgramInputError(`at most ${MAX_COLLECT} files can be collected`);
  for (const path of input.collect) inner(path, "grader path");
  for (const seconds of [input.timeoutSec, input.graceSec]) {
    if (!Number.isInteger(seconds) || seconds < 0) throw new ProgramInputError("time limits are whole seconds");
  }
}

/**
 * The POSIX sh program of a job: unpacks, runs setup and agent under one watchdog, grades, collects, prints the Outcome.
 *
 * The shell starts in the work directory, where the files are; `cd work` there is accepted and changes nothing, so that
 * harnesses written for either habit work. Setup steps and the command share that shell. Setup speaks on standard error.
 * Needs EVD_DIR (writable directory) and EVD_NONCE_FILE; knows EVD_OUTCOME_FILE, EVD_TERMINATION_FILE, EVD_PAUSE_SEC.
 * @throws ProgramInputError naming what to change
 */
export function renderProgram(input: ProgramInput): string {
  checkInput(input);
  const grades = input.graders.map(
    (grader, index) => `evd_grade ${index} ${byteLength(grader.name)} '${base64Text(grader.name)}'`,
  );
  const paths = [...new Set(input.collect)];
  const collected = paths.map(
    (path, index) => `evd_collect ${byteLength(path)} '${base64Text(path)}' ${paths.length - 1 - index} || return 1`,
  );
  return [
    PRELUDE,
    `evd_timeout=${input.timeoutSec} evd_grace=${input.graceSec}\n`,
    `evd_name=$(printf %s '${base64Text(input.workDir)}' | base64 -d)\nevd_work=$evd_root/$evd_name\n`,
    sourceLines(input),
    blobs(input),
    RUN,
    setupTexts(input.setup),
    GRADE,
    `if [ "$evd_step" = done ] && [ "$evd_timedout" = 0 ]; then\nevd_diff\n${grades.join("\n")}\nfi\n`,
    `evd_collect_all() {\n:\n${collected.join("\n")}\n}\n`,
    DELIVER,
  ].join("");
}
