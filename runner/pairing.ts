import { readFileSync } from "node:fs";
import { EXIT, FatalError } from "./session.ts";
import type { StateFolder } from "./state-folder.ts";

/** What a machine is paired as: each has tokens of its own, good for nothing else. */
export type PairedAs = "runner" | "relay";

/** `<prefix>_<object>.<secret>`: the token names the object that checks it. */
const TOKENS: Record<PairedAs, RegExp> = {
  runner: /^rnr_[A-Za-z0-9_-]{1,200}\.[A-Za-z0-9_-]{16,200}$/,
  relay: /^rly_[A-Za-z0-9_-]{1,200}\.[A-Za-z0-9_-]{16,200}$/,
};
const PREFIX: Record<PairedAs, string> = { runner: "rnr_", relay: "rly_" };
export const PAIR_VARIABLE = "EVERDICT_PAIR";

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

/** A token given as text, or read from standard input for `-`. @throws FatalError when it is none of this kind */
export function readToken(pair: string, as: PairedAs = "runner"): string {
  const token = (pair === "-" ? readFileSync(0, "utf8") : pair).trim();
  if (TOKENS[as].test(token)) return token;
  throw new FatalError(
    `this is not a ${as}'s token: it starts with ${PREFIX[as]} and is shown once when a ${as} is created`,
    EXIT.usage,
  );
}

/** What `--pair` or the variable says, or null. The variable is taken out of the environment that children inherit. */
export function givenPair(pair: string | undefined, env: NodeJS.ProcessEnv): string | null {
  const fromVariable = env[PAIR_VARIABLE];
  delete env[PAIR_VARIABLE];
  return (pair ?? fromVariable) || null;
}

/**
 * Stores a token that came by argument, variable or standard input, and takes it out of this process: out of its
 * environment, and out of its argument list by starting the program anew in the same process. Where that cannot be done
 * (Node below 22.15), the argument list is overwritten by setting the title.
 * @returns false when nothing was to be stored
 */
export function storePair(
  state: StateFolder,
  apiUrl: string,
  pair: string | undefined,
  started: Started,
  as: PairedAs = "runner",
): boolean {
  const given = givenPair(pair, started.env);
  if (given === null) return false;
  state.storeToken(apiUrl, readToken(given, as));
  restart(started, as);
  return true;
}

function restart(started: Started, as: PairedAs): void {
  const [, script, ...args] = started.argv;
  if (script === undefined) return;
  if (typeof process.execve === "function" && process.platform !== "win32") {
    const env = Object.fromEntries(Object.entries(started.env).flatMap(([k, v]) => (v === undefined ? [] : [[k, v]])));
    process.execve(started.execPath, [started.execPath, ...started.execArgv, script, ...withoutPair(args)], env);
  }
  process.title = `everdict ${as}`;
}
