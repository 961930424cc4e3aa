import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ERROR_STATUS, type ErrorCode } from "../../../contracts/errors.ts";
import { EXIT_CODES, exitCodeOf } from "../../../runner/commands/api/exit-codes.ts";
import { EXIT } from "../../../runner/session.ts";
import { ROOT } from "../../../scripts/environment.ts";

/** Statuses of a table in docs/cli.md, with the rest of their rows. */
function rows(heading: string): Map<number, string> {
  const section = readFileSync(join(ROOT, "docs/cli.md"), "utf8").split(heading)[1] ?? "";
  const table = section.slice(0, section.indexOf("\n\n", section.indexOf("|---")));
  return new Map([...table.matchAll(/^\| (\d+) \|(.*)$/gm)].map(([, status, rest]) => [Number(status), String(rest)]));
}

test("the document lists every exit status, and the error codes that lead to it", () => {
  const api = rows("Of every command that asks the API:");
  expect([...api.keys()]).toEqual(Object.values(EXIT_CODES));
  // SAFETY: the keys of ERROR_STATUS are the codes.
  for (const code of Object.keys(ERROR_STATUS) as ErrorCode[]) {
    const status = exitCodeOf(code);
    if (status !== EXIT_CODES.failed) expect(api.get(status), code).toContain(`\`${code}\``);
  }
  expect([...rows("Of the services").keys()]).toEqual(Object.values(EXIT));
});
