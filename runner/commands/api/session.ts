import type { Command } from "commander";
import type * as z from "zod";
import { type Client, createClient } from "../../../contracts/client.ts";
import { EverdictError, issuesOf } from "../../../contracts/errors.ts";
import { readLogin } from "./config.ts";
import type { CliContext } from "./context.ts";
import { exitCodeOf } from "./exit-codes.ts";
import { plain } from "./text.ts";

const DEFAULT_API_URL = "http://127.0.0.1:8787";

/** Options of every API command. */
export interface ApiFlags {
  apiUrl?: string;
  apiKey?: string;
  workspace?: string;
  json?: boolean;
}

export interface Session {
  readonly context: CliContext;
  readonly client: Client;
  readonly apiUrl: string;
  /** Print the API's own JSON and nothing else on standard output. */
  readonly json: boolean;
}

/** Adds what every API command takes. Usage errors of commander end with its own words. */
export function apiOptions(command: Command): Command {
  return command
    .option("--api-url <url>", `control plane; also EVERDICT_API_URL, else the login's, else ${DEFAULT_API_URL}`)
    .option("--api-key <key>", "API key; better EVERDICT_API_KEY or `everdict login`, which no process list shows")
    .option("--workspace <id>", "workspace, for a person's token; also EVERDICT_WORKSPACE")
    .option("--json", "print the API's own JSON");
}

/** The control plane and credential that flags, environment and login say, in this order. */
export function resolveAccess(
  context: CliContext,
  flags: ApiFlags,
): { apiUrl: string; apiKey: string | undefined; workspace: string | undefined } {
  const login = readLogin(context.env);
  const apiUrl = (flags.apiUrl ?? context.env.EVERDICT_API_URL ?? login?.apiUrl ?? DEFAULT_API_URL).replace(/\/+$/, "");
  if (!URL.canParse(apiUrl) || !/^https?:$/.test(new URL(apiUrl).protocol)) {
    throw new EverdictError("BAD_REQUEST", `'${apiUrl}' is not an http or https address; see --api-url`);
  }
  // A stored key belongs to the address it was stored for and goes nowhere else.
  const own = login?.apiUrl === apiUrl ? login : null;
  return {
    apiUrl,
    apiKey: flags.apiKey ?? context.env.EVERDICT_API_KEY ?? own?.apiKey,
    workspace: flags.workspace ?? context.env.EVERDICT_WORKSPACE ?? own?.workspace ?? undefined,
  };
}

/** Does the work of a command, prints its error, and sets the exit status: the work's own answer, or the error's. */
export async function withSession(
  context: CliContext,
  flags: ApiFlags,
  work: (session: Session) => Promise<number>,
): Promise<void> {
  try {
    const { apiUrl, apiKey, workspace } = resolveAccess(context, flags);
    const client = createClient({ apiUrl, token: apiKey, workspace, fetch: context.fetch });
    context.exit(await work({ context, client, apiUrl, json: flags.json === true }));
  } catch (error) {
    if (!(error instanceof EverdictError)) throw error;
    printError(context, error, flags.json === true);
    context.exit(exitCodeOf(error.code));
  }
}

/** Title, detail, each issue with its path, and the request id. */
export function printError(context: CliContext, error: EverdictError, json: boolean): void {
  const requestId = "requestId" in error && typeof error.requestId === "string" ? error.requestId : "";
  const problem = error.toProblem(requestId);
  if (json) {
    context.err.write(`${JSON.stringify(problem)}\n`);
    return;
  }
  const lines = [`error: ${problem.title}: ${plain(problem.detail)}`];
  for (const issue of problem.issues ?? []) lines.push(`  ${plain(issue.path)}: ${plain(issue.message)}`);
  if (error.retryAfterSec !== undefined) lines.push(`  try again in ${error.retryAfterSec} s`);
  if (requestId !== "") lines.push(`  request ${plain(requestId)}`);
  context.err.write(`${lines.join("\n")}\n`);
}

/** Prints the API's JSON with --json, else what `words` makes of it. */
export function show<T>(session: Session, answer: T, words: (answer: T) => string): void {
  session.context.out.write(session.json ? `${JSON.stringify(answer, null, 2)}\n` : words(answer));
}

/** A file's JSON; "-" is standard input. @throws EverdictError BAD_REQUEST when it cannot be read or is none */
export async function readJsonFile(context: CliContext, path: string): Promise<unknown> {
  const content = await readFileText(context, path);
  try {
    return JSON.parse(content);
  } catch (error) {
    throw new EverdictError("BAD_REQUEST", `${path} is not JSON: ${error instanceof Error ? error.message : "?"}`);
  }
}

/** A file's text; "-" is standard input. @throws EverdictError BAD_REQUEST when it cannot be read */
export async function readFileText(context: CliContext, path: string): Promise<string> {
  try {
    return await context.readText(path);
  } catch (error) {
    throw new EverdictError("BAD_REQUEST", `cannot read ${path}: ${error instanceof Error ? error.message : "?"}`);
  }
}

/** Whether a value is what the schema takes, kept as it was written. @throws EverdictError BAD_REQUEST with all issues */
export function isInput<S extends z.ZodType>(schema: S, value: unknown, what: string): value is z.input<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return true;
  throw new EverdictError("BAD_REQUEST", `${what} is not valid`, { issues: issuesOf(parsed.error) });
}

/** "echo@1.0.0" or "echo". */
export function refOf(text: string): { id: string; version: string } {
  const at = text.lastIndexOf("@");
  return at <= 0 ? { id: text, version: "latest" } : { id: text.slice(0, at), version: text.slice(at + 1) };
}

/** --limit and --cursor of a list. */
export interface PageFlags extends ApiFlags {
  limit?: string;
  cursor?: string;
}

export function pageOptions(command: Command): Command {
  return apiOptions(command)
    .option("--limit <n>", "rows, 1 to 200")
    .option("--cursor <cursor>", "where the page before ended");
}

export const pageQuery = ({ limit, cursor }: PageFlags): { limit?: string; cursor?: string } => ({
  ...(limit === undefined ? {} : { limit }),
  ...(cursor === undefined ? {} : { cursor }),
});

/** The hint that there is more, or nothing. */
export const moreHint = (nextCursor: string | null): string =>
  nextCursor === null ? "" : `more: --cursor ${plain(nextCursor)}\n`;
