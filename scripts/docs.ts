import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { OPERATION_LIST } from "../contracts/operations/index.ts";
import { ACTIONS } from "../contracts/roles.ts";
import { ROOT } from "./environment.ts";

/** docs/operations.md, from the operation table; a test holds it to this. */
export function operationsPage(): string {
  const groups = [...new Set(OPERATION_LIST.map(({ group }) => group))];
  const sections = groups.map((group) => {
    const rows = OPERATION_LIST.filter((operation) => operation.group === group).map((operation) => {
      const { role, scope } = ACTIONS[operation.action];
      const needs =
        operation.audience === "public"
          ? "–"
          : operation.audience !== "user"
            ? `${operation.audience} token`
            : operation.action === "operate"
              ? "operator"
              : `${role}, ${scope}`;
      const tool = operation.noTool === undefined ? `\`${operation.name}\`` : "–";
      return `| \`${operation.method} ${operation.path}\` | ${tool} | ${needs} | ${operation.summary.replaceAll("|", "\\|")} |`;
    });
    return [
      `## ${group}`,
      "",
      "| HTTP | MCP tool | needs (role, scope) | what |",
      "|---|---|---|---|",
      ...rows,
      "",
    ].join("\n");
  });
  return `# Operations\n\nMade from the operation table by \`npm run docs\`.\n\n${sections.join("\n")}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await writeFile(join(ROOT, "docs/operations.md"), operationsPage());
