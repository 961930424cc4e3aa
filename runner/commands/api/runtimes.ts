import type { Command } from "commander";
import { EverdictError } from "../../../contracts/errors.ts";
import { RuntimeSpec } from "../../../contracts/runtime-spec.ts";
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
  readJsonFile,
  show,
  withSession,
} from "./session.ts";
import { plain, table } from "./text.ts";

/** `everdict runtimes`: where evals may run. */
export function register(program: Command, context: CliContext): void {
  const runtimes = program.command("runtimes").description("Register, check and list runtimes");
  apiOptions(runtimes.command("create"))
    .description("Register a runtime version")
    .argument("<file>", "a RuntimeSpec as JSON; - reads standard input")
    .action((file: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const spec = await readJsonFile(context, file);
        if (!isInput(RuntimeSpec, spec, "the runtime")) return 2;
        show(session, await session.client.call("create_runtime", { body: spec }), registeredWords);
        return 0;
      }),
    );
  apiOptions(runtimes.command("validate"))
    .description("Check a runtime spec without saving it; exits 1 when it has errors")
    .argument("<file>", "a RuntimeSpec as JSON; - reads standard input")
    .action((file: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const body = asRecord(await readJsonFile(context, file));
        const answer = await session.client.call("validate_runtime", { body });
        show(session, answer, (validation) => {
          const { verdict, reasons } = validation.reachability;
          const why = reasons.length > 0 ? ` (${reasons.map(plain).join(", ")})` : "";
          return `${validationWords(validation)}  reached: ${verdict}${why}\n`;
        });
        return validationExit(answer);
      }),
    );
  apiOptions(runtimes.command("probe"))
    .description("Ask the cluster whether it answers; exits 1 when it does not")
    .argument("<file>", "a RuntimeSpec as JSON; - reads standard input")
    .action((file: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const spec = await readJsonFile(context, file);
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
  pageOptions(runtimes.command("list"))
    .description("List runtimes, own and shared")
    .action((flags: PageFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("list_runtimes", { query: pageQuery(flags) });
        show(session, answer, ({ items, nextCursor }) => {
          const rows = items.map((item) => [
            item.id,
            item.kind,
            item.latest ?? "archived",
            item.owner,
            item.health?.state ?? "–",
            item.capabilities.join(" "),
          ]);
          const headings = ["RUNTIME", "KIND", "LATEST", "OWNER", "HEALTH", "CAPABILITIES"];
          return table(headings, rows, context.out.columns) + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(runtimes.command("get"))
    .description("Read a runtime version")
    .argument("<id[@version]>", "runtime")
    .action((ref: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("get_runtime", { params: splitRef(ref) });
        show(session, answer, ({ spec }) => `${JSON.stringify(spec, null, 2)}\n`);
        return 0;
      }),
    );
}

/** @throws EverdictError BAD_REQUEST when it is no JSON object */
export function asRecord(value: unknown): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw new EverdictError("BAD_REQUEST", "the file must hold a JSON object");
}
