import type { Command } from "commander";
import type { CliContext } from "./context.ts";
import * as datasets from "./datasets.ts";
import { EXIT_CODES } from "./exit-codes.ts";
import * as harnesses from "./harnesses.ts";
import * as login from "./login.ts";
import * as logs from "./logs.ts";
import * as queue from "./queue.ts";
import * as relays from "./relays.ts";
import * as run from "./run.ts";
import * as runners from "./runners.ts";
import * as runs from "./runs.ts";
import * as runtimes from "./runtimes.ts";
import * as scorecard from "./scorecard.ts";
import * as secrets from "./secrets.ts";

const COMMANDS = [login, run, scorecard, runs, logs, queue, runtimes, harnesses, datasets, secrets, runners, relays];

/** Adds the commands that use the API to the CLI. Their usage errors exit with 2. */
export function registerApiCommands(program: Command, context: CliContext): void {
  // `scorecard list --json`: the option is list's, though scorecard has one of that name too.
  program.enablePositionalOptions();
  const before = new Set(program.commands);
  for (const { register } of COMMANDS) register(program, context);
  for (const command of program.commands) if (!before.has(command)) exitOnUsage(command, context);
}

function exitOnUsage(command: Command, context: CliContext): void {
  command.exitOverride((error) => context.end(error.exitCode === 0 ? EXIT_CODES.ok : EXIT_CODES.usage));
  command.configureOutput({
    writeOut: (text) => context.out.write(text),
    writeErr: (text) => context.err.write(text),
  });
  command.showHelpAfterError("see --help");
  for (const child of command.commands) exitOnUsage(child, context);
}
