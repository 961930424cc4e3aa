import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Outcome } from "../../contracts/job.ts";
import { outcomeOfText, ResultScanner } from "../../contracts/outcome.ts";
import { type ProgramInput, renderProgram } from "../../worker/program/render.ts";

export const NONCE = "0123456789abcdef0123456789abcdef";

/** The shells that images bring. Each is what `sh` means while the program runs. */
export const SHELLS = ["dash", "bash", "busybox"] as const;
export type Shell = (typeof SHELLS)[number];

const where = (name: string): string | null => {
  const found = spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).stdout.trim();
  return found === "" ? null : found;
};

/** Why tests with this shell cannot run here, or null. */
export const missingShell = (shell: Shell): string | null => (where(shell) === null ? `no ${shell} here` : null);

export interface ProgramRun {
  code: number | null;
  /** The program's own output without the result line. */
  stdout: string;
  stderr: string;
  outcome: Outcome | null;
  /** From the file at EVD_OUTCOME_FILE. */
  fileOutcome: Outcome | null;
  /** From the termination message, and its size. */
  compact: Outcome | null;
  compactBytes: number;
  ms: number;
  dir: string;
}

export const BASE: ProgramInput = {
  task: "",
  setup: [],
  command: "true",
  params: {},
  model: null,
  env: {},
  workDir: "work",
  source: { kind: "none" },
  timeoutSec: 30,
  graceSec: 1,
  graders: [],
  collect: [],
};

export interface RunOptions {
  env?: Record<string, string>;
  /** Called with the process id once the program has started. */
  started?: (pid: number, dir: string) => void;
  /** Called in the prepared directory before the start. */
  prepare?: (dir: string) => void;
}

const made: string[] = [];
/** Removes what the runs of a test left. */
export function removeDirectories(): void {
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true, force: true });
}

function shellPath(shell: Shell, dir: string): string {
  const bin = join(dir, "bin");
  mkdirSync(bin);
  symlinkSync(where(shell) ?? shell, join(bin, "sh"));
  return `${bin}:${process.env.PATH ?? "/usr/bin:/bin"}`;
}

/** Renders the program and runs it for real, as an executor would. */
export async function runProgram(
  shell: Shell,
  input: Partial<ProgramInput>,
  options: RunOptions = {},
): Promise<ProgramRun> {
  const dir = mkdtempSync(join(tmpdir(), "evd-program-"));
  made.push(dir);
  const evd = join(dir, "evd");
  mkdirSync(evd);
  writeFileSync(join(dir, "program.sh"), renderProgram({ ...BASE, ...input }));
  writeFileSync(join(dir, "nonce"), NONCE);
  options.prepare?.(evd);
  const env = {
    PATH: shellPath(shell, dir),
    HOME: dir,
    EVD_DIR: evd,
    EVD_NONCE_FILE: join(dir, "nonce"),
    EVD_OUTCOME_FILE: join(dir, "outcome"),
    EVD_TERMINATION_FILE: join(dir, "termination"),
    EVD_RUN_ID: "run_1",
    ...options.env,
  };
  const started = performance.now();
  const child = spawn(join(dir, "bin", "sh"), [join(dir, "program.sh")], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  if (child.pid !== undefined) options.started?.(child.pid, evd);
  const scanner = new ResultScanner(NONCE);
  const out: Uint8Array[] = [];
  const err: Uint8Array[] = [];
  child.stdout.on("data", (chunk: Buffer) => out.push(Buffer.from(scanner.push(chunk))));
  child.stderr.on("data", (chunk: Buffer) => err.push(chunk));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  out.push(scanner.end());
  const read = (name: string) => (existsSync(join(dir, name)) ? readFileSync(join(dir, name), "utf8") : "");
  return {
    code,
    stdout: Buffer.concat(out).toString("utf8"),
    stderr: Buffer.concat(err).toString("utf8"),
    outcome: scanner.outcome,
    fileOutcome: outcomeOfText(read("outcome"), NONCE),
    compact: outcomeOfText(read("termination"), NONCE),
    compactBytes: read("termination").length,
    ms: performance.now() - started,
    dir: evd,
  };
}

/** The Outcome, or a failure that shows what the program said. */
export function outcomeOf(run: ProgramRun): Outcome {
  if (run.outcome === null) throw new Error(`no Outcome; exit ${run.code}; ${run.stderr.slice(-2_000)}`);
  return run.outcome;
}
