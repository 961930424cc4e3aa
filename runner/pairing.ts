import { readFileSync } from "node:fs";
import { EXIT, FatalError } from "./session.ts";
import type { StateFolder } from "./state-folder.ts";

/** `rnr_<object>.<secret>`: the token names the object that checks it. */
const TOKEN = /^rnr_[A-Za-z0-9_-]{1,200}\.[A-Za-z0-9_-]{16,200}$/;
export const PAIR_VARIABLE = "EVERDICT_PAIR";

/** Whether a text has the form of a runner's token. */
export const isRunnerToken = (text: string): boolean => TOKEN.test(text);

export interface Started {
  argv: readonly string[];
  execArgv: readonly string[];
  execPath: string;
  env: NodeJS.ProcessEnv;
}

/** Arguments without `--pair` and its value, in both spellings. */
export function withoutPair(argv: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? "";
    if (word === "--pair") at++;
    else if (!word.startsWith("--pair=")) kept.push(word);
  }
  return kept;
}

/** A token given as text, or read from standard input for `-`. */
export function readToken(pair: string): string {
  const token = (pair === "-" ? readFileSync(0, "utf8") : pair).trim();
  if (isRunnerToken(token)) return token;
  throw new FatalError(
    "this is not a runner's token: it starts with rnr_ and is shown once when a runner is created",
    EXIT.usage,
  );
}

/**
 * Stores a token that came by argument, variable or standard input, and takes it out of this process: out of its
 * environment, and out of its argument list by starting the program anew in the same process. Where that cannot be done
 * (Node below 22.15), the argument list is overwritten by setting the title.
 * @returns false when nothing was to be stored
 */
export function storePair(state: StateFolder, apiUrl: string, pair: string | undefined, started: Started): boolean {
  const fromVariable = started.env[PAIR_VARIABLE];
  delete started.env[PAIR_VARIABLE];
  const given = pair ?? fromVariable;
  if (given === undefined || given === "") return false;
  state.storeToken(apiUrl, readToken(given));
  if (pair !== undefined || fromVariable !== undefined) restart(started);
  return true;
}

function restart(started: Started): void {
  const [, script, ...args] = started.argv;
  if (script === undefined) return;
  if (typeof process.execve === "function" && process.platform !== "win32") {
    const env = Object.fromEntries(Object.entries(started.env).flatMap(([k, v]) => (v === undefined ? [] : [[k, v]])));
    process.execve(started.execPath, [started.execPath, ...started.execArgv, script, ...withoutPair(args)], env);
  }
  process.title = "everdict runner";
}
