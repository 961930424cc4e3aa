import type { Command } from "commander";
import * as z from "zod";
import { EverdictError } from "../../../contracts/errors.ts";
import { FailureClass } from "../../../contracts/run.ts";
import { Scorecard, ScorecardProgress, ScorecardRequest } from "../../../contracts/scorecard.ts";
import type { CliContext } from "./context.ts";
import { followStream } from "./event-stream.ts";
import { ProgressLine } from "./progress.ts";
import { comparisonWords, exitOfScorecard, scorecardRow, scorecardWords } from "./scorecard-words.ts";
import {
  type ApiFlags,
  apiOptions,
  isInput,
  moreHint,
  type PageFlags,
  pageOptions,
  pageQuery,
  refOf,
  type Session,
  show,
  withSession,
} from "./session.ts";
import { table } from "./text.ts";

interface StartFlags extends ApiFlags {
  harness?: string;
  runtime: string[];
  concurrency?: string;
  retries?: string;
  trials?: string;
  case: string[];
  tag: string[];
  limit?: string;
  follow: boolean;
}

const collect = (value: string, before: string[]): string[] => [...before, ...value.split(",").filter((x) => x !== "")];

/** `everdict scorecard`: a dataset with a harness, followed to its result; and what became of earlier ones. */
export function register(program: Command, context: CliContext): void {
  const scorecard = apiOptions(program.command("scorecard"))
    .enablePositionalOptions()
    .description("Run a dataset and follow it; exits 0 all passed, 1 some grade failed, 2 some were not measured")
    .argument("[dataset]", "dataset, perhaps @version")
    .option("--harness <id[@version]>", "harness that is measured")
    .option(
      "--runtime <target>",
      "where; several, or a list with commas, share the cases; auto: all capable",
      collect,
      [],
    )
    .option("--concurrency <n>", "cases in flight at once, 1 to 512")
    .option("--retries <n>", "extra attempts after an infrastructure failure, 0 to 5")
    .option("--trials <n>", "times each case is run, 1 to 100")
    .option("--case <id>", "only these cases", collect, [])
    .option("--tag <tag>", "only cases with one of these tags", collect, [])
    .option("--limit <n>", "at most so many cases")
    .option("--no-follow", "submit and return")
    .action((dataset: string | undefined, flags: StartFlags) =>
      withSession(context, flags, async (session) => {
        const body = requestOf(dataset, flags);
        if (!isInput(ScorecardRequest, body, "the scorecard")) return 2;
        const started = await session.client.call("run_scorecard", { body });
        if (!flags.follow) {
          show(session, started, (card) => `${card.id}\n`);
          return 0;
        }
        return conclude(session, started.id);
      }),
    );
  registerReads(scorecard, context);
  registerChanges(scorecard, context);
}

function registerReads(scorecard: Command, context: CliContext): void {
  pageOptions(scorecard.command("list"))
    .description("List scorecards, newest first")
    .action((flags: PageFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("list_scorecards", { query: pageQuery(flags) });
        show(session, answer, ({ items, nextCursor }) => {
          const headings = ["SCORECARD", "STATUS", "DATASET", "HARNESS", "DONE", "PASS RATE", "CREATED"];
          return table(headings, items.map(scorecardRow), context.out.columns) + moreHint(nextCursor);
        });
        return 0;
      }),
    );
  apiOptions(scorecard.command("get"))
    .description("Read a scorecard's result; exits as the scorecard did")
    .argument("<id>", "sc_…")
    .option("-f, --follow", "follow it to its end first")
    .action((id: string, flags: ApiFlags & { follow?: boolean }) =>
      withSession(context, flags, async (session) => {
        if (flags.follow === true) return conclude(session, id);
        const card = await session.client.call("get_scorecard", { params: { id } });
        await showResult(session, card);
        return card.finishedAt === null ? 0 : exitOfScorecard(card);
      }),
    );
  apiOptions(scorecard.command("compare"))
    .description("Compare two scorecards case by case; exits 1 when a case got worse")
    .argument("<a>", "sc_…")
    .argument("<b>", "sc_…")
    .action((a: string, b: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const answer = await session.client.call("compare_scorecards", { query: { a, b } });
        show(session, answer, (comparison) => comparisonWords(comparison, context.out.columns));
        return answer.regressed > 0 ? 1 : 0;
      }),
    );
}

function registerChanges(scorecard: Command, context: CliContext): void {
  apiOptions(scorecard.command("cancel"))
    .description("Cancel what has not ended")
    .argument("<id>", "sc_…")
    .action((id: string, flags: ApiFlags) =>
      withSession(context, flags, async (session) => {
        const card = await session.client.call("cancel_scorecard", { params: { id } });
        show(session, card, (cancelled) => scorecardWords(cancelled));
        return 0;
      }),
    );
  apiOptions(scorecard.command("retry"))
    .description("Run again what was not measured, and follow it")
    .argument("<id>", "sc_…")
    .option("--class <class>", "only failures of one class: infra, config, harness or agent")
    .option("--no-follow", "submit and return")
    .action((id: string, flags: ApiFlags & { class?: string; follow: boolean }) =>
      withSession(context, flags, async (session) => {
        const wanted = flags.class;
        const query = wanted !== undefined && isInput(FailureClass, wanted, "--class") ? { class: wanted } : {};
        const card = await session.client.call("retry_scorecard", { params: { id }, query });
        if (flags.follow) return conclude(session, id);
        show(session, card, (retried) => scorecardWords(retried));
        return 0;
      }),
    );
}

function requestOf(dataset: string | undefined, flags: StartFlags): unknown {
  if (dataset === undefined || flags.harness === undefined) {
    throw new EverdictError("BAD_REQUEST", "name a dataset and a --harness: everdict scorecard smoke --harness echo");
  }
  const number = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));
  const cases = {
    ...(flags.case.length > 0 ? { ids: flags.case } : {}),
    ...(flags.tag.length > 0 ? { tags: flags.tag } : {}),
    ...(flags.limit === undefined ? {} : { limit: number(flags.limit) }),
  };
  const [runtime, ...others] = flags.runtime;
  return {
    dataset: refOf(dataset),
    harness: refOf(flags.harness),
    ...(runtime === undefined ? {} : { runtime: others.length > 0 ? flags.runtime : runtime }),
    ...(flags.concurrency === undefined ? {} : { concurrency: number(flags.concurrency) }),
    ...(flags.retries === undefined ? {} : { retries: number(flags.retries) }),
    ...(flags.trials === undefined ? {} : { trials: number(flags.trials) }),
    ...(Object.keys(cases).length > 0 ? { cases } : {}),
  };
}

const EndEvent = z.object({ id: z.string() });

/** Follows a scorecard to its end, prints its result, and says how it went. */
async function conclude(session: Session, id: string): Promise<number> {
  const { context, client } = session;
  const line = new ProgressLine(context);
  if (!session.json) context.err.write(`${id}\n`);
  let ended: Scorecard | null = null;
  try {
    for await (const { event, data } of followStream(context, client, "stream_scorecard", { params: { id } })) {
      if (event === "progress" && !session.json) {
        const progress = ScorecardProgress.safeParse(data);
        if (progress.success) line.show(progress.data);
      }
      if (event === "end" && EndEvent.safeParse(data).success) ended = Scorecard.safeParse(data).data ?? null;
    }
  } finally {
    line.close();
  }
  const card = ended ?? (await client.call("get_scorecard", { params: { id } }));
  await showResult(session, card);
  return exitOfScorecard(card);
}

/** The most runs a result names one by one; a scorecard with more shows those that did not pass. */
const SHOWN_RUNS = 50;

async function showResult(session: Session, card: Scorecard): Promise<void> {
  if (session.json) {
    show(session, card, () => "");
    return;
  }
  const all = card.progress.total <= SHOWN_RUNS;
  const shown = [];
  let more = false;
  if (card.finishedAt !== null && (all || exitOfScorecard(card) !== 0)) {
    for await (const run of session.client.all("list_scorecard_runs", { params: { id: card.id } })) {
      if (!all && run.result?.pass === true) continue;
      if (shown.length === SHOWN_RUNS) {
        more = true;
        break;
      }
      shown.push(run);
    }
  }
  session.context.out.write(scorecardWords(card, shown, session.context.out.columns));
  if (more) session.context.out.write(`… more: everdict runs list --scorecard ${card.id}\n`);
}
