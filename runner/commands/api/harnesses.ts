import type { Command } from "commander";
import { HarnessSpec } from "../../../contracts/harness.ts";
import type { CliContext } from "./context.ts";
import { jsonFile, readJsonObject, registryCommands } from "./registry-commands.ts";

/** `everdict harnesses`: what is measured. */
export function register(program: Command, context: CliContext): void {
  registryCommands(program, context, {
    noun: "harness",
    plural: "harnesses",
    schema: HarnessSpec,
    fileOptions: jsonFile("HarnessSpec"),
    read: readJsonObject,
    create: (client, body) => client.call("create_harness", { body }),
    validate: (client, body) => client.call("validate_harness", { body }),
    list: (client, query) => client.call("list_harnesses", { query }),
    headings: ["HARNESS", "KIND", "LATEST", "OWNER", "DESCRIPTION"],
    row: (item) => [item.id, item.kind, item.latest ?? "archived", item.owner, item.description ?? ""],
    get: (client, params) => client.call("get_harness", { params }),
    getDescription: "Read a harness version",
  });
}
