import type { Command } from "commander";
import { createClient } from "../../../contracts/client.ts";
import { EverdictError } from "../../../contracts/errors.ts";
import { writeLogin } from "./config.ts";
import type { CliContext } from "./context.ts";
import { type ApiFlags, apiOptions, readFileText, resolveAccess, show, withSession } from "./session.ts";
import { plain } from "./text.ts";

/** `everdict login`: keeps the control plane's address and a key that was seen to work. */
export function register(program: Command, context: CliContext): void {
  apiOptions(program.command("login"))
    .description("Store the control plane's address and an API key; the key is asked for, or read from standard input")
    .action((flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const { apiUrl, workspace } = resolveAccess(context, flags);
        const apiKey = flags.apiKey ?? context.env.EVERDICT_API_KEY ?? (await askKey(context, apiUrl));
        const client = createClient({ apiUrl, token: apiKey, workspace, fetch: context.fetch });
        const me = await client.call("get_me");
        const path = writeLogin(context.env, { apiUrl, apiKey, workspace: workspace ?? null });
        show(session, me, ({ subject, workspace: where, role }) => {
          const acting = where === null ? "no workspace chosen; see --workspace" : `${role} of ${plain(where)}`;
          return `logged in at ${apiUrl} as ${plain(subject)} (${acting})\n`;
        });
        if (!session.json) context.err.write(`stored in ${path}, readable by you only\n`);
        return 0;
      }),
    );
}

async function askKey(context: CliContext, apiUrl: string): Promise<string> {
  const key = context.interactive
    ? await context.askSecret(`API key for ${apiUrl}: `)
    : await readFileText(context, "-");
  if (key.trim() === "") throw new EverdictError("BAD_REQUEST", "no API key was given");
  return key.trim();
}
