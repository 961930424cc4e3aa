import type { Command } from "commander";
import { RuntimeSpec } from "../../../contracts/runtime-spec.ts";
import type { CliContext } from "./context.ts";
import { jsonFile, readJsonObject, registryCommands } from "./registry-commands.ts";
import { type ApiFlags, apiOptions, isInput, show, withSession } from "./session.ts";
import { plain } from "./text.ts";

/** `everdict runtimes`: where evals may run. */
export function register(program: Command, context: CliContext): void {
  const runtimes = registryCommands(program, context, {
    noun: "runtime",
    plural: "runtimes",
    schema: RuntimeSpec,
    fileOptions: jsonFile("RuntimeSpec"),
    read: readJsonObject,
    create: (client, body) => client.call("create_runtime", { body }),
    validate: (client, body) => client.call("validate_runtime", { body }),
    validWords: ({ reachability: { verdict, reasons } }) =>
      `  reached: ${verdict}${reasons.length > 0 ? ` (${reasons.map(plain).join(", ")})` : ""}\n`,
    list: (client, query) => client.call("list_runtimes", { query }),
    headings: ["RUNTIME", "KIND", "LATEST", "OWNER", "HEALTH", "CAPABILITIES"],
    row: (item) => [
      item.id,
      item.kind,
      item.latest ?? "archived",
      item.owner,
      item.health?.state ?? "–",
      item.capabilities.join(" "),
    ],
    get: (client, params) => client.call("get_runtime", { params }),
    getDescription: "Read a runtime version",
  });
  jsonFile("RuntimeSpec")(apiOptions(runtimes.command("probe")))
    .description("Ask the cluster whether it answers; exits 1 when it does not")
    .action((file: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const spec = await readJsonObject(context, file);
        if (!isInput(RuntimeSpec, spec, "the runtime")) return 2;
        const answer = await session.client.call("probe_runtime", { body: spec });
        show(session, answer, ({ reachable, detail, checks }) => {
          const lines = checks.map(
            (check) =>
              `  ${check.ok ? "✓" : "✗"} ${plain(check.name)}: ${plain(check.detail)}${check.fix ? `; ${plain(check.fix)}` : ""}\n`,
          );
          return `${reachable ? "reachable" : "not reachable"}: ${plain(detail)}\n${lines.join("")}`;
        });
        return answer.reachable && answer.checks.every((check) => check.ok) ? 0 : 1;
      }),
    );
}
