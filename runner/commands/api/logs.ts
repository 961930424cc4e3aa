import type { Command } from "commander";
import { EverdictError } from "../../../contracts/errors.ts";
import type { CliContext } from "./context.ts";
import { followRun } from "./follow-run.ts";
import { type ApiFlags, apiOptions, withSession } from "./session.ts";

interface LogFlags extends ApiFlags {
  follow?: boolean;
  stream: string;
  epoch?: string;
  tailBytes?: string;
}

const STREAMS = ["stdout", "stderr", "both"] as const;

/** `everdict logs`: the output of a run, as it stands or as it comes. */
export function register(program: Command, context: CliContext): void {
  apiOptions(program.command("logs"))
    .description("Print the output of a run")
    .argument("<id>", "run_…")
    .option("-f, --follow", "go on until the run ends; standard error stays apart")
    .option("--stream <stream>", "stdout, stderr or both", "both")
    .option("--epoch <n>", "attempt; default the latest")
    .option("--tail-bytes <n>", "only the last bytes")
    .action((id: string, flags: LogFlags) =>
      withSession(context, flags, async (session) => {
        if (flags.follow === true) {
          const run = await followRun(session, id, { quiet: false });
          if (session.json) context.out.write(`${JSON.stringify(run, null, 2)}\n`);
          return 0;
        }
        const stream = STREAMS.find((known) => known === flags.stream);
        if (!stream) throw new EverdictError("BAD_REQUEST", `--stream must be one of ${STREAMS.join(", ")}`);
        const text = await session.client.call("get_run_logs", {
          params: { id },
          query: {
            stream,
            ...(flags.epoch === undefined ? {} : { epoch: flags.epoch }),
            ...(flags.tailBytes === undefined ? {} : { tailBytes: flags.tailBytes }),
          },
        });
        context.out.write(session.json ? `${JSON.stringify(text)}\n` : text);
        return 0;
      }),
    );
}
