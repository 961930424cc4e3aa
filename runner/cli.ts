import { Command } from "commander";
import { EXIT_CODES } from "./commands/api/exit-codes.ts";
import { registerApiCommands } from "./commands/api/index.ts";
import { processContext } from "./commands/api/process-context.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addInstallCommand } from "./commands/install.ts";
import { addRelayCommand } from "./commands/relay.ts";
import { addRelayDoctorCommand } from "./commands/relay-doctor.ts";
import { addRelayInstallCommand } from "./commands/relay-install.ts";
import { addRunnerCommand } from "./commands/runner.ts";
import { RUNNER_VERSION } from "./version.ts";

/** The whole command line: each command is added by its own module. */
export function everdictCli(): Command {
  const program = new Command("everdict")
    .description("Run agent evals on your own machines and clusters")
    .version(RUNNER_VERSION)
    .option("--api-url <url>", "control plane; also EVERDICT_API_URL, or what login stored")
    .option("--api-key <key>", "API key; also EVERDICT_API_KEY")
    .option("--workspace <id>", "workspace; also EVERDICT_WORKSPACE")
    .option("--json", "print the API's own JSON")
    .showHelpAfterError()
    .exitOverride((error) => {
      process.exitCode = error.exitCode === 0 ? 0 : EXIT_CODES.usage;
      throw error;
    })
    .hook("preAction", inheritOptions);
  const runner = addRunnerCommand(program);
  addDoctorCommand(runner);
  addInstallCommand(runner);
  const relay = addRelayCommand(program);
  addRelayDoctorCommand(relay);
  addRelayInstallCommand(relay);
  registerApiCommands(program, processContext());
  return program;
}

/** Options given before the command count for it, unless it was given its own. */
function inheritOptions(program: Command, action: Command): void {
  for (const [name, value] of Object.entries(program.opts())) {
    const known = action.options.some((option) => option.attributeName() === name);
    const own = action.getOptionValueSource(name);
    if (known && (own === undefined || own === "default")) action.setOptionValue(name, value);
  }
}
