import type { Command } from "commander";
import { HarnessSpec } from "../../../contracts/harness.ts";
import type { CliContext } from "./context.ts";
import { registeredWords, splitRef, validationExit, validationWords } from "./registry-words.ts";
import { asRecord } from "./runtimes.ts";
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

/** `everdict harnesses`: what is measured. */
export function register(program: Command, context: CliContext): void {
  const harnesses = program.command("harnesses").description("Register, check and list harnesses");
  apiOptions(harnesses.command("create"))
    .description("Register a harness version")
    .argument("<file>", "a HarnessSpec as JSON; - reads standard input")
    .action((file: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const spec = await readJsonFile(context, file);
        if (!isInput(HarnessSpec, spec, "the harness")) return 2;
        show(session, await session.client.call("create_harness", { body: spec }), registeredWords);
        return 0;
      }),
    );
  apiOptions(harnesses.command("validate"))
    .description("Check a harness spec without saving it; exits 1 when it has errors")
    .argument("<file>", "a HarnessSpec as JSON; - reads standard input")
    .action((file: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const body = asRecord(await readJsonFile(context, file));
        const answer = await session.client.call("validate_harness", { body });
        show(session, answer, validationWords);
        return validationExit(answer);
      }),
    );
  pageOptions(harnesses.command("list"))
    .description("List harnesses, own and shared")
    .action((flags: PageFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("list_harnesses", { query: pageQuery(flags) });
        show(session, answer, ({ items, nextCursor }) => {
          const rows = items.map((item) => [
            item.id,
            item.kind,
            item.latest ?? "archived",
            item.owner,
            item.description ?? "",
          ]);
          const headings = ["HARNESS", "KIND", "LATEST", "OWNER", "DESCRIPTION"];
          return table(headings, rows, context.out.columns) + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(harnesses.command("get"))
    .description("Read a harness version")
    .argument("<id[@version]>", "harness")
    .action((ref: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("get_harness", { params: splitRef(ref) });
        show(session, answer, ({ spec }) => `${JSON.stringify(spec, null, 2)}\n`);
        return 0;
      }),
    );
}
