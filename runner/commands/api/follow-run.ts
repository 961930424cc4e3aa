import * as z from "zod";
import { isTerminal, Run } from "../../../contracts/run.ts";
import { followStream } from "./event-stream.ts";
import type { Session } from "./session.ts";
import { plain } from "./text.ts";

/** A cluster's live log is both streams in one; they come apart once more at the end, marked as a replay. */
const LogText = z.object({
  stream: z.enum(["stdout", "stderr", "both"]),
  text: z.string(),
  replay: z.boolean().optional(),
});

/**
 * Shows a run's output as it comes, each stream on its own, and its changes of status on standard error.
 * @param show.quiet shows nothing
 * @returns the run as it ended
 */
export async function followRun(session: Session, id: string, show: { quiet: boolean }): Promise<Run> {
  const { context, client } = session;
  let last: Run | null = null;
  let said = "";
  for await (const { event, data } of followStream(context, client, "stream_run_logs", { params: { id } })) {
    if (event === "log") {
      const log = LogText.safeParse(data);
      if (log.success && log.data.replay !== true && !show.quiet)
        (log.data.stream === "stderr" ? context.err : context.out).write(log.data.text);
    } else if (event === "run") {
      const run = Run.safeParse(data);
      if (!run.success) continue;
      last = run.data;
      const words = statusWords(last);
      if (words !== said && !show.quiet) context.err.write(words);
      said = words;
    }
  }
  // The stream's last event may have come before the run's own end was stored.
  return last && isTerminal(last.status) ? last : client.call("get_run", { params: { id } });
}

function statusWords({ status, waiting }: Run): string {
  const why = waiting ? `: ${waiting.reason}, ${plain(waiting.detail)}` : "";
  const eta = waiting?.etaSec ? ` (about ${waiting.etaSec} s)` : "";
  return `${status}${why}${eta}\n`;
}
