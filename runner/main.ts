#!/usr/bin/env node
import { CommanderError } from "commander";
import { everdictCli } from "./cli.ts";

try {
  await everdictCli().parseAsync();
} catch (error) {
  // Usage errors and help have been printed, and the exit status is set.
  if (!(error instanceof CommanderError)) throw error;
}
