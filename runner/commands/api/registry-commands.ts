import type { Command } from "commander";
import type * as z from "zod";
import type { Client } from "../../../contracts/client.ts";
import { EverdictError } from "../../../contracts/errors.ts";
import type { CliContext } from "./context.ts";
import { registeredWords, splitRef, type ValidationLike, validationWords } from "./registry-words.ts";
import {
  type ApiFlags,
  apiOptions,
  isInput,
  moreHint,
  type PageFlags,
  pageOptions,
  pageQuery,
  readJsonFile,
  show,
  withSession,
} from "./session.ts";
import { table } from "./text.ts";

/** One kind of versioned thing that teams register, as the CLI speaks of it and asks for it. */
export interface RegistryKind<
  Schema extends z.ZodType,
  Valid extends ValidationLike,
  Item,
  Flags extends ApiFlags = ApiFlags,
> {
  noun: string;
  plural: string;
  schema: Schema;
  /** Adds the file's argument, and options beside it. */
  fileOptions(command: Command): Command;
  /** A thing from what the file holds. @throws EverdictError BAD_REQUEST */
  read(context: CliContext, file: string, flags: Flags): Promise<Record<string, unknown>>;
  create(
    client: Client,
    body: z.input<Schema>,
  ): Promise<{ id: string; version: string; warnings: string[]; [more: string]: unknown }>;
  validate(client: Client, body: Record<string, unknown>): Promise<Valid>;
  /** What a validation says beyond what every kind's says. */
  validWords?(answer: Valid): string;
  list(
    client: Client,
    query: { limit?: string; cursor?: string },
  ): Promise<{ items: Item[]; nextCursor: string | null }>;
  headings: string[];
  row(item: Item): string[];
  get(client: Client, params: { id: string; version: string }): Promise<{ spec: unknown }>;
  getDescription: string;
}

/** Commands that every registry has: create, validate, list and get. @returns the group, for what only this kind has */
export function registryCommands<
  Schema extends z.ZodType,
  Valid extends ValidationLike,
  Item,
  Flags extends ApiFlags = ApiFlags,
>(program: Command, context: CliContext, kind: RegistryKind<Schema, Valid, Item, Flags>): Command {
  const { noun, plural } = kind;
  const group = program.command(plural).description(`Register, check and list ${plural}`);
  kind
    .fileOptions(apiOptions(group.command("create")))
    .description(`Register a ${noun} version`)
    .action((file: string, flags: Flags) =>
      withSession(context, flags, async (session) => {
        const body = await kind.read(context, file, flags);
        if (!isInput(kind.schema, body, `the ${noun}`)) return 2;
        show(session, await kind.create(session.client, body), registeredWords);
        return 0;
      }),
    );
  kind
    .fileOptions(apiOptions(group.command("validate")))
    .description(`Check a ${noun} without saving it; exits 1 when it has errors`)
    .action((file: string, flags: Flags) =>
      withSession(context, flags, async (session) => {
        const answer = await kind.validate(session.client, await kind.read(context, file, flags));
        show(session, answer, (valid) => validationWords(valid) + (kind.validWords?.(valid) ?? ""));
        return answer.ok ? 0 : 1;
      }),
    );
  pageOptions(group.command("list"))
    .description(`List ${plural}, own and shared`)
    .action((flags: PageFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await kind.list(session.client, pageQuery(flags));
        show(
          session,
          answer,
          ({ items, nextCursor }) =>
            table(
              kind.headings,
              items.map((item) => kind.row(item)),
              context.out.columns,
            ) + moreHint(nextCursor),
        );
        return 0;
      }),
    );
  apiOptions(group.command("get"))
    .description(kind.getDescription)
    .argument("<id[@version]>", noun)
    .action((ref: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await kind.get(session.client, splitRef(ref));
        show(session, answer, ({ spec }) => `${JSON.stringify(spec, null, 2)}\n`);
        return 0;
      }),
    );
  return group;
}

/** A thing from a file that holds it as it is. @throws EverdictError BAD_REQUEST when it is no JSON object */
export async function readJsonObject(context: CliContext, file: string): Promise<Record<string, unknown>> {
  const value = await readJsonFile(context, file);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw new EverdictError("BAD_REQUEST", "the file must hold a JSON object");
}

/** The argument for such a file. */
export const jsonFile =
  (schema: string) =>
  (command: Command): Command =>
    command.argument("<file>", `a ${schema} as JSON; - reads standard input`);
