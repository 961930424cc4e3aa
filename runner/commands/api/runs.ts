import type { Command } from "commander";
import { RunStatus } from "../../../contracts/run.ts";
import type { CliContext } from "./context.ts";
import { runRow, runWords } from "./results.ts";
import {
  type ApiFlags,
  apiOptions,
  isInput,
  moreHint,
  type PageFlags,
  pageOptions,
  pageQuery,
  show,
  withSession,
} from "./session.ts";
import { table } from "./text.ts";

interface ListFlags extends PageFlags {
  status?: string;
  scorecard?: string;
  target?: string;
}

/** `everdict runs`: what was run. */
export function register(program: Command, context: CliContext): void {
  const runs = program.command("runs").description("List, read and cancel runs");
  pageOptions(runs.command("list"))
    .description("List runs, newest first")
    .option("--status <status>", "queued, dispatching, running, succeeded, failed or cancelled")
    .option("--scorecard <id>", "of one scorecard")
    .option("--target <target>", "on one target")
    .action((flags: ListFlags) =>
      withSession(context, flags, async (session) => {
        const { status, scorecard, target } = flags;
        const answer = await session.client.call("list_runs", {
          query: {
            ...pageQuery(flags),
            ...(status !== undefined && isInput(RunStatus, status, "--status") ? { status } : {}),
            ...(scorecard === undefined ? {} : { scorecardId: scorecard }),
            ...(target === undefined ? {} : { target }),
          },
        });
        show(session, answer, ({ items, nextCursor }) => {
          const headings = ["CASE", "TRIAL", "STATUS", "SCORE", "WHY", "RUN"];
          return table(headings, items.map(runRow), context.out.columns) + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(runs.command("get"))
    .description("Read a run: why it waits, its result or why there is none")
    .argument("<id>", "run_…")
    .action((id: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        show(session, await session.client.call("get_run", { params: { id } }), runWords);
        return 0;
      }),
    );
  apiOptions(runs.command("cancel"))
    .description("Cancel a run")
    .argument("<id>", "run_…")
    .action((id: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        show(session, await session.client.call("cancel_run", { params: { id } }), runWords);
        return 0;
      }),
    );
}
