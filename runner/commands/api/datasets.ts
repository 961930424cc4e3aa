import type { Command } from "commander";
import { Dataset } from "../../../contracts/case.ts";
import { EverdictError } from "../../../contracts/errors.ts";
import type { CliContext } from "./context.ts";
import { registryCommands } from "./registry-commands.ts";
import { type ApiFlags, readFileText } from "./session.ts";

interface FileFlags extends ApiFlags {
  id?: string;
  version?: string;
  description?: string;
}

/** `everdict datasets`: the cases. */
export function register(program: Command, context: CliContext): void {
  registryCommands(program, context, {
    noun: "dataset",
    plural: "datasets",
    schema: Dataset,
    fileOptions: (command) =>
      command
        .argument("<file>", "a Dataset or a list of cases as JSON, or one case a line (JSONL); - reads standard input")
        .option("--id <id>", "id of the dataset, over the file's")
        .option("--version <version>", "version of the dataset, over the file's")
        .option("--description <text>", "for people, over the file's"),
    read: async (_, file, flags: FileFlags) => datasetOf(await readFileText(context, file), file, flags),
    create: (client, body) => client.call("create_dataset", { body }),
    validate: (client, body) => client.call("validate_dataset", { body }),
    list: (client, query) => client.call("list_datasets", { query }),
    headings: ["DATASET", "LATEST", "CASES", "OWNER", "DESCRIPTION"],
    row: (item) => [item.id, item.latest ?? "archived", String(item.cases), item.owner, item.description ?? ""],
    get: (client, params) => client.call("get_dataset", { params }),
    getDescription: "Read a dataset version with all its cases",
  });
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
