#!/usr/bin/env node
import { Command } from "commander";
import { addRunnerCommand } from "./commands/runner.ts";
import { RUNNER_VERSION } from "./version.ts";

const program = new Command("everdict")
  .description("Run agent evals on your own machines and clusters")
  .version(RUNNER_VERSION)
  .showHelpAfterError();
addRunnerCommand(program);
await program.parseAsync();
