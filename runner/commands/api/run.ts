import type { Command } from "commander";
import { EvalCase } from "../../../contracts/case.ts";
import { EverdictError } from "../../../contracts/errors.ts";
import { Grader, type GraderInput } from "../../../contracts/graders.ts";
import type { BodyInputOf } from "../../../contracts/operations/operation.ts";
import type { RUN_OPERATIONS } from "../../../contracts/operations/runs.ts";
import type { Run } from "../../../contracts/run.ts";
import type { CliContext } from "./context.ts";
import { followRun } from "./follow-run.ts";
import { exitOfRun, runWords } from "./results.ts";
import { type ApiFlags, apiOptions, isInput, readJsonFile, refOf, show, withSession } from "./session.ts";

interface RunFlags extends ApiFlags {
  harness?: string;
  command?: string;
  task?: string;
  image?: string;
  expected?: string;
  timeout?: string;
  runtime?: string;
  retries?: string;
  queueTimeout?: string;
  batch?: boolean;
  follow: boolean;
}

type Body = BodyInputOf<(typeof RUN_OPERATIONS)["submit_run"]>;

/** `everdict run`: one case, from a file or from the command line, followed to its end. */
export function register(program: Command, context: CliContext): void {
  apiOptions(program.command("run"))
    .description("Run one case and follow it; exits 0 passed, 1 not passed, 2 not measured")
    .argument("[file]", "a case as JSON; - reads standard input")
    .option("--harness <id[@version]>", "registered harness")
    .option("--command <command>", "instead of a harness: the agent's command; {{task}} stands for the task")
    .option("--task <text>", "what the agent is asked to do")
    .option("--image <image>", "container image")
    .option("--expected <text>", "text that standard output must contain")
    .option("--timeout <seconds>", "time limit of the case")
    .option("--runtime <target>", "where: a runtime, runtime@version, self, self:<runner>, self:ws")
    .option("--retries <n>", "extra attempts after an infrastructure failure")
    .option("--queue-timeout <seconds>", "longest wait while no capable runner is online; 0 waits")
    .option("--batch", "behind interactive runs")
    .option("--no-follow", "submit and return")
    .action((file: string | undefined, flags: RunFlags) =>
      withSession(context, flags, async (session) => {
        const body = await bodyOf(context, file, flags);
        const run = await session.client.call("submit_run", { body });
        if (!flags.follow) {
          show(session, run, runWords);
          return 0;
        }
        if (!session.json) context.err.write(`${run.id}\n`);
        const ended: Run = await followRun(session, run.id, { quiet: session.json });
        show(session, ended, runWords);
        return exitOfRun(ended);
      }),
    );
}

async function bodyOf(context: CliContext, file: string | undefined, flags: RunFlags): Promise<Body> {
  const evalCase =
    file === undefined
      ? inlineCase(flags)
      : { ...asObject(await readJsonFile(context, file), file), ...overrides(flags) };
  if (!isInput(EvalCase, evalCase, "the case")) throw new EverdictError("BAD_REQUEST", "the case is not valid");
  const retries = wholeNumber(flags.retries, "--retries");
  const queueTimeoutSec = wholeNumber(flags.queueTimeout, "--queue-timeout");
  return {
    harness: harnessOf(flags),
    case: evalCase,
    ...(flags.runtime === undefined ? {} : { runtime: flags.runtime }),
    ...(retries === undefined ? {} : { retries }),
    ...(queueTimeoutSec === undefined ? {} : { queueTimeoutSec }),
    ...(flags.batch === true ? { priority: "batch" as const } : {}),
  };
}

function harnessOf({ harness, command }: RunFlags): Body["harness"] {
  if (harness !== undefined && command !== undefined) {
    throw new EverdictError("BAD_REQUEST", "--harness and --command exclude each other");
  }
  if (harness !== undefined) return refOf(harness);
  if (command !== undefined) return { spec: { kind: "command", command } };
  throw new EverdictError("BAD_REQUEST", "name a --harness, or give the agent's --command");
}

function inlineCase(flags: RunFlags): Record<string, unknown> {
  if (flags.task === undefined && flags.command === undefined) {
    throw new EverdictError("BAD_REQUEST", "give a case file, or a --task, or a --command that needs none");
  }
  return { id: "cli", task: flags.task ?? "", ...overrides(flags) };
}

/** What the command line says of the case, over what the file says. */
function overrides(flags: RunFlags): Record<string, unknown> {
  const timeoutSec = wholeNumber(flags.timeout, "--timeout");
  const graders: GraderInput[] = [{ kind: "exit-code" }, { kind: "contains" }];
  return {
    ...(flags.task === undefined ? {} : { task: flags.task }),
    ...(flags.image === undefined ? {} : { image: flags.image }),
    ...(timeoutSec === undefined ? {} : { timeoutSec }),
    ...(flags.expected === undefined
      ? {}
      : { expected: flags.expected, graders: graders.map((grader) => Grader.parse(grader)) }),
  };
}

function asObject(value: unknown, what: string): object {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new EverdictError("BAD_REQUEST", `${what} must hold one case, a JSON object`);
}

function wholeNumber(text: string | undefined, flag: string): number | undefined {
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new EverdictError("BAD_REQUEST", `${flag} must be a whole number, not '${text}'`);
}
