import type { Command } from "commander";
import type { CliContext } from "./context.ts";
import { runWords } from "./results.ts";
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
import { duration, plain, table } from "./text.ts";

const LANES = ["LANE", "SLOTS", "MEMORY MB", "QUEUED", "OLDEST", "HEALTH"];
const ENTRIES = ["#", "RUN", "TARGET", "REASON", "ETA", "DETAIL"];

/** `everdict queue`: what waits where, and why. */
export function register(program: Command, context: CliContext): void {
  const queue = pageOptions(program.command("queue"))
    .enablePositionalOptions()
    .description("Show what waits where, and why")
    .option("--target <target>", "one target only")
    .action((flags: PageFlags & { target?: string }) =>
      withSession(context, flags, async (session) => {
        const query = { ...pageQuery(flags), ...(flags.target === undefined ? {} : { target: flags.target }) };
        const answer = await session.client.call("get_queue", { query });
        show(session, answer, ({ lanes, entries, nextCursor }) => {
          const { columns } = context.out;
          const laneRows = lanes.map((lane) => [
            lane.target === "" ? lane.lane : lane.target,
            `${lane.slots.inFlight}/${lane.slots.total}`,
            lane.memoryMb === null ? "–" : `${lane.memoryMb.inFlight}/${lane.memoryMb.budget}`,
            String(lane.queued),
            lane.queued > 0 ? duration(lane.oldestSec * 1_000) : "–",
            lane.health.detail === null ? lane.health.state : `${lane.health.state}: ${lane.health.detail}`,
          ]);
          const entryRows = entries.map((entry) => [
            String(entry.position),
            entry.runId,
            entry.target,
            entry.waiting.reason,
            entry.waiting.etaSec === null ? "–" : duration(entry.waiting.etaSec * 1_000),
            entry.waiting.detail,
          ]);
          const waiting = entryRows.length > 0 ? `\n${table(ENTRIES, entryRows, columns)}` : "nothing waits\n";
          return table(LANES, laneRows, columns) + waiting + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(queue.command("promote"))
    .description("Move a waiting run to the head of its workspace's share")
    .argument("<id>", "run_…")
    .action((id: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        show(session, await session.client.call("promote_queue_entry", { params: { id } }), runWords);
        return 0;
      }),
    );
  apiOptions(queue.command("cancel"))
    .description("Cancel a waiting run")
    .argument("<id>", "run_…")
    .action((id: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        await session.client.call("cancel_queue_entry", { params: { id } });
        if (!session.json) context.err.write(`cancelled ${plain(id)}\n`);
        return 0;
      }),
    );
}
