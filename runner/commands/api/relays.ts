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

/** `everdict relays`: the machines that carry API traffic to clusters. */
export function register(program: Command, context: CliContext): void {
  const relays = program.command("relays").description("Pair, list and revoke machines that carry traffic to clusters");
  pageOptions(relays.command("list"))
    .description("List the workspace's relays and what they may reach")
    .action((flags: PageFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("list_relays", { query: pageQuery(flags) });
        show(session, answer, ({ items, nextCursor }) => {
          const rows = items.map((item) => [
            item.id,
            item.label,
            item.online ? "online" : "offline",
            item.lastSeenAt ?? "never",
            item.requestsPerSec.toFixed(1),
            [...item.contexts, ...item.hosts].join(" "),
            item.lastError?.message ?? "",
          ]);
          const headings = ["RELAY", "LABEL", "STATE", "SEEN", "REQ/S", "REACHES", "LAST ERROR"];
          return table(headings, rows, context.out.columns) + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(relays.command("pair"))
    .description("Pair a machine; its token is shown once")
    .argument("<label>", "what runtimes name in 'relay'")
    .action((label: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("pair_relay", { body: { label } });
        const may = "and add what it may reach: --allow-context, --allow-host, --allow-exec";
        show(
          session,
          answer,
          (paired) => `${plain(paired.id)}\n\nRun this beside the cluster, ${may}\n  ${plain(paired.command)}\n`,
        );
        return 0;
      }),
    );
  apiOptions(relays.command("revoke"))
    .description("Revoke a relay: its connection is closed")
    .argument("<id>", "rly-…")
    .action((id: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        await session.client.call("revoke_relay", { params: { id } });
        if (!session.json) context.err.write(`revoked ${plain(id)}\n`);
        return 0;
      }),
    );
}
