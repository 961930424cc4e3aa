import type { Command } from "commander";
import { Dataset } from "../../../contracts/case.ts";
import { EverdictError } from "../../../contracts/errors.ts";
import type { CliContext } from "./context.ts";
import { registeredWords, splitRef, validationExit, validationWords } from "./registry-words.ts";
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
import { table } from "./text.ts";

interface FileFlags extends ApiFlags {
  id?: string;
  version?: string;
  description?: string;
}

/** `everdict datasets`: the cases. */
export function register(program: Command, context: CliContext): void {
  const datasets = program.command("datasets").description("Register, check and list datasets");
  fileOptions(datasets.command("create"))
    .description("Register a dataset version")
    .action((file: string, flags: FileFlags) =>
      withSession(context, flags, async (session) => {
        const dataset = datasetOf(await readFileText(context, file), file, flags);
        if (!isInput(Dataset, dataset, "the dataset")) return 2;
        show(session, await session.client.call("create_dataset", { body: dataset }), registeredWords);
        return 0;
      }),
    );
  fileOptions(datasets.command("validate"))
    .description("Check a dataset without saving it; exits 1 when it has errors")
    .action((file: string, flags: FileFlags) =>
      withSession(context, flags, async (session) => {
        const body = datasetOf(await readFileText(context, file), file, flags);
        const answer = await session.client.call("validate_dataset", { body });
        show(session, answer, validationWords);
        return validationExit(answer);
      }),
    );
  pageOptions(datasets.command("list"))
    .description("List datasets, own and shared")
    .action((flags: PageFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("list_datasets", { query: pageQuery(flags) });
        show(session, answer, ({ items, nextCursor }) => {
          const rows = items.map((item) => [
            item.id,
            item.latest ?? "archived",
            String(item.cases),
            item.owner,
            item.description ?? "",
          ]);
          const headings = ["DATASET", "LATEST", "CASES", "OWNER", "DESCRIPTION"];
          return table(headings, rows, context.out.columns) + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(datasets.command("get"))
    .description("Read a dataset version with all its cases")
    .argument("<id[@version]>", "dataset")
    .action((ref: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("get_dataset", { params: splitRef(ref) });
        show(session, answer, ({ spec }) => `${JSON.stringify(spec, null, 2)}\n`);
        return 0;
      }),
    );
}

function fileOptions(command: Command): Command {
  return apiOptions(command)
    .argument("<file>", "a Dataset or a list of cases as JSON, or one case a line (JSONL); - reads standard input")
    .option("--id <id>", "id of the dataset, over the file's")
    .option("--version <version>", "version of the dataset, over the file's")
    .option("--description <text>", "for people, over the file's");
}

/**
 * A dataset from what a file holds: a whole dataset, a JSON list of cases, or a case a line.
 * @throws EverdictError BAD_REQUEST naming the line that is not JSON
 */
export function datasetOf(text: string, file: string, flags: FileFlags): Record<string, unknown> {
  const whole = parsed(text);
  const named = {
    ...(flags.id === undefined ? {} : { id: flags.id }),
    ...(flags.version === undefined ? {} : { version: flags.version }),
    ...(flags.description === undefined ? {} : { description: flags.description }),
  };
  if (Array.isArray(whole)) return { cases: whole, ...named };
  // One line of JSONL is a JSON object too: a dataset has cases.
  if (typeof whole === "object" && whole !== null && "cases" in whole) return { ...whole, ...named };
  return { cases: linesOf(text, file), ...named };
}

function linesOf(text: string, file: string): unknown[] {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.flatMap((line, i) => {
    if (line === "") return [];
    const value = parsed(line);
    if (value !== undefined) return [value];
    throw new EverdictError("BAD_REQUEST", `${file} is neither JSON nor JSONL: line ${i + 1} is not JSON`);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
