import type { Command } from "commander";
import type { CliContext } from "./context.ts";
import {
  type ApiFlags,
  apiOptions,
  moreHint,
  type PageFlags,
  pageOptions,
  pageQuery,
  show,
  withSession,
} from "./session.ts";
import { plain, table } from "./text.ts";

interface Shared {
  shared?: boolean;
}

const SHARED = "the workspace's runners instead of your own";

/** `everdict runners`: the machines that take jobs. */
export function register(program: Command, context: CliContext): void {
  const runners = program.command("runners").description("Pair, list and revoke machines that run jobs");
  pageOptions(runners.command("list"))
    .description("List your own runners")
    .option("--shared", SHARED)
    .action((flags: PageFlags & Shared) =>
      withSession(context, flags, async (session) => {
        const name = flags.shared === true ? "list_workspace_runners" : "list_runners";
        const answer = await session.client.call(name, { query: pageQuery(flags) });
        show(session, answer, ({ items, nextCursor }) => {
          const rows = items.map((item) => [
            item.id,
            item.label,
            item.online ? "online" : "offline",
            `${item.running.length}/${item.slots.total}`,
            `${item.os ?? "?"} ${item.arch ?? ""}`,
            item.capabilities.join(" "),
          ]);
          const headings = ["RUNNER", "LABEL", "STATE", "BUSY", "OS", "CAPABILITIES"];
          return table(headings, rows, context.out.columns) + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(runners.command("pair"))
    .description("Pair a machine; its token is shown once")
    .argument("<label>", "what you call the machine")
    .option("--shared", SHARED)
    .action((label: string, flags: ApiFlags & Shared) =>
      withSession(context, flags, async (session) => {
        const name = flags.shared === true ? "pair_workspace_runner" : "pair_runner";
        const answer = await session.client.call(name, { body: { label } });
        show(
          session,
          answer,
          (paired) => `${plain(paired.id)}\n\nRun this on the machine:\n  ${plain(paired.command)}\n`,
        );
        return 0;
      }),
    );
  apiOptions(runners.command("revoke"))
    .description("Revoke a runner; its leases end at its next message")
    .argument("<id>", "rnr-…")
    .option("--shared", SHARED)
    .action((id: string, flags: ApiFlags & Shared) =>
      withSession(context, flags, async (session) => {
        const name = flags.shared === true ? "revoke_workspace_runner" : "revoke_runner";
        await session.client.call(name, { params: { id } });
        if (!session.json) context.err.write(`revoked ${plain(id)}\n`);
        return 0;
      }),
    );
}
