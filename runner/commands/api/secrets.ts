import type { Command } from "commander";
import { EverdictError } from "../../../contracts/errors.ts";
import { SecretUse } from "../../../contracts/operations/admin.ts";
import type { CliContext } from "./context.ts";
import {
  type ApiFlags,
  apiOptions,
  isInput,
  moreHint,
  type PageFlags,
  pageOptions,
  pageQuery,
  readFileText,
  show,
  withSession,
} from "./session.ts";
import { plain, table } from "./text.ts";

interface SetFlags extends ApiFlags {
  use: string;
  host: string[];
}

/** `everdict secrets`: values go in and never come out. */
export function register(program: Command, context: CliContext): void {
  const secrets = program.command("secrets").description("Store, list and delete secrets");
  apiOptions(secrets.command("set"))
    .description("Store or rotate a secret; the value is asked for, or read from standard input")
    .argument("<name>", "name of the secret")
    .option("--use <use>", "job, cluster or registry", "job")
    .option("--host <glob>", "host it may be sent to; needed for cluster and registry, may be repeated", append, [])
    .action((name: string, flags: SetFlags) =>
      withSession(context, flags, async (session) => {
        const { use, host: hosts } = flags;
        if (!isInput(SecretUse, use, "--use")) return 2;
        const value = await secretValue(context, name);
        await session.client.call("put_secret", {
          params: { name },
          body: { value, use, ...(hosts.length > 0 ? { hosts } : {}) },
        });
        if (!session.json) context.err.write(`stored ${plain(name)}\n`);
        return 0;
      }),
    );
  pageOptions(secrets.command("list"))
    .description("List the names and uses of secrets")
    .action((flags: PageFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("list_secret_names", { query: pageQuery(flags) });
        show(session, answer, ({ items, nextCursor }) => {
          const rows = items.map(({ name, use }) => [name, use ?? "none: SECRET_USE_… is not set"]);
          return table(["SECRET", "USE"], rows, context.out.columns) + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(secrets.command("delete"))
    .description("Delete a secret")
    .argument("<name>", "name of the secret")
    .action((name: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        await session.client.call("delete_secret", { params: { name } });
        if (!session.json) context.err.write(`deleted ${plain(name)}\n`);
        return 0;
      }),
    );
}

const append = (value: string, before: string[]): string[] => [...before, value];

/** From the terminal without echo, else from standard input less one line break at its end. Never from the arguments. */
async function secretValue(context: CliContext, name: string): Promise<string> {
  const value = context.interactive
    ? await context.askSecret(`value of ${plain(name)}: `)
    : (await readFileText(context, "-")).replace(/\r?\n$/, "");
  if (value === "") throw new EverdictError("BAD_REQUEST", "the value is empty");
  return value;
}
