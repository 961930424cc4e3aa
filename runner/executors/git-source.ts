import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Job } from "../../contracts/job.ts";
import type { Failure } from "../../contracts/run.ts";
import { hostEnvironment } from "./environment.ts";
import { diskFull, failure, isDiskFull } from "./failures.ts";

/** Git asks this script; the credential is in its environment, so it never stands in an argument list. */
const ASKPASS = `#!/bin/sh
case $1 in
  Username*) printf '%s\\n' "\${EVD_GIT_USERNAME}" ;;
  *) printf '%s\\n' "\${EVD_GIT_PASSWORD}" ;;
esac
`;
/** Bytes of git's own words that an error quotes. */
const WORDS_BYTES = 2_000;
const CLONE_MS = 15 * 60_000;

type GitSource = NonNullable<Job["git"]>;

/** "user:password", or a token alone, which the hosting services take as the password of any user. */
function credentialOf(text: string): { username: string; password: string } {
  const colon = text.indexOf(":");
  return colon > 0
    ? { username: text.slice(0, colon), password: text.slice(colon + 1) }
    : { username: "x-access-token", password: text };
}

function run(args: string[], cwd: string, env: Record<string, string>, signal: AbortSignal): Promise<string | null> {
  return new Promise((resolve) => {
    const child = spawn("git", args, { cwd, env, stdio: ["ignore", "ignore", "pipe"], signal, killSignal: "SIGKILL" });
    let words = "";
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text: string) => {
      words = (words + text).slice(-WORDS_BYTES);
    });
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code) => resolve(code === 0 ? null : words.trim() || `git ended with exit code ${code}`));
  });
}

/**
 * Clones a job's git source to `target` with this machine's git. Only the wanted commit is fetched where the server
 * allows it. No credential is left in the clone.
 * @param scratch a private directory for the askpass script
 * @returns null, or the failure that ends the attempt
 */
export async function cloneSource(
  unit: string,
  source: GitSource,
  credential: string | null,
  target: string,
  scratch: string,
  stop: AbortSignal,
): Promise<Failure | null> {
  // As an argument of checkout it would be an option.
  if (source.ref.startsWith("-")) return cloneFailure(unit, source, "a ref cannot start with '-'");
  const askpass = join(scratch, "askpass");
  writeFileSync(askpass, ASKPASS, { mode: 0o700 });
  const login = credential === null ? null : credentialOf(credential);
  const env = {
    ...hostEnvironment(process.env),
    GIT_TERMINAL_PROMPT: "0",
    // Only ways that move data over a network; file: and ext: would reach into this machine.
    GIT_ALLOW_PROTOCOL: process.env.EVERDICT_GIT_ALLOW_PROTOCOL ?? "https:http:ssh:git",
    ...(login === null
      ? {}
      : { GIT_ASKPASS: askpass, EVD_GIT_USERNAME: login.username, EVD_GIT_PASSWORD: login.password }),
  };
  const helper = login === null ? [] : ["-c", "credential.helper="];
  const signal = AbortSignal.any([stop, AbortSignal.timeout(CLONE_MS)]);
  const git = (...args: string[]): Promise<string | null> => run([...helper, ...args], scratch, env, signal);
  let problem = await git("init", "-q", "--", target);
  problem ??= await git("-C", target, "remote", "add", "--", "origin", source.url);
  if (problem === null) {
    problem = await git("-C", target, "fetch", "-q", "--depth", "1", "--", "origin", source.ref);
    // A server may refuse a commit that is no tip, or a shallow fetch; then everything is fetched.
    if (problem !== null && !signal.aborted) {
      const all = await git(
        "-C",
        target,
        "fetch",
        "-q",
        "--tags",
        "--",
        "origin",
        "+refs/heads/*:refs/remotes/origin/*",
      );
      problem = all === null ? await git("-C", target, "checkout", "-q", "--detach", source.ref) : all;
    } else problem ??= await git("-C", target, "checkout", "-q", "--detach", "FETCH_HEAD");
  }
  await rm(askpass, { force: true });
  if (problem === null || stop.aborted) return null;
  if (isDiskFull(problem)) return diskFull(unit, problem);
  return cloneFailure(unit, source, problem);
}

function cloneFailure(unit: string, source: GitSource, words: string): Failure {
  const unreachable =
    /could not resolve host|connection (refused|timed out|reset)|unable to access.*(timed out|5\d\d)/i;
  const infra = unreachable.test(words);
  return failure(unit, {
    stage: "install",
    class: infra ? "infra" : "config",
    code: "GIT_CLONE_FAILED",
    message: `git could not fetch ref '${source.ref}' of ${source.url}: ${words}`,
    retryable: infra,
  });
}
