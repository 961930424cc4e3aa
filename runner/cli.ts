import { Command } from "commander";
import { registerApiCommands } from "./commands/api/index.ts";
import { processContext } from "./commands/api/process-context.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addInstallCommand } from "./commands/install.ts";
import { addRunnerCommand } from "./commands/runner.ts";
import { RUNNER_VERSION } from "./version.ts";

/** The whole command line: each command is added by its own module. */
export function everdictCli(): Command {
  const program = new Command("everdict")
    .description("Run agent evals on your own machines and clusters")
    .version(RUNNER_VERSION)
    .showHelpAfterError();
  const runner = addRunnerCommand(program);
  addDoctorCommand(runner);
  addInstallCommand(runner);
  registerApiCommands(program, processContext());
  return program;
}
