import { stdin, stdout } from "node:process";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { Command, CommanderError } from "commander";
import { deploy } from "./deploy/deploy.ts";
import { checkWorkspace, DeployError, type Deployment, MADE_SECRETS, readDeployments } from "./deploy/settings.ts";
import "./environment.ts";

const program = new Command("deploy")
  .description("Deploys workspaces to Cloudflare: database, migrations, secrets, Worker, dashboard")
  .option("--workspace <id>", "the workspace to deploy; deployments/<id>.toml holds its settings")
  .option("--all", "every workspace that has a file in deployments/")
  .option("--dry-run", "print each step and make every check that needs no account", false)
  .option("--settings <folder>", "where the settings stand", undefined)
  .allowExcessArguments(false)
  .exitOverride();

/** Asks without showing what is typed. */
async function ask(question: string): Promise<string> {
  stdout.write(question);
  const mute = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: stdin, output: mute, terminal: true });
  try {
    return await lines.question("");
  } finally {
    lines.close();
    stdout.write("\n");
  }
}

/** Values of secrets from the environment, or asked for; a deployment's own name goes first: ACME__SECRET_X before SECRET_X. */
async function secretsOf({ workspace, secrets }: Deployment, dryRun: boolean): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const prefix = `${workspace.toUpperCase().replaceAll("-", "_")}__`;
  const missing: string[] = [];
  for (const name of [...secrets, ...MADE_SECRETS]) {
    const value = process.env[prefix + name] ?? process.env[name];
    if (value) found.set(name, value);
    else if (secrets.includes(name)) missing.push(name);
  }
  if (missing.length === 0) return found;
  if (dryRun || !stdin.isTTY)
    throw new DeployError(
      `secrets of '${workspace}' have no value: ${missing.join(", ")}; set ${prefix}${missing[0]} or ${missing[0]} in the environment, or deploy from a terminal and be asked`,
    );
  for (const name of missing) {
    const value = await ask(`${name} for ${workspace}: `);
    if (value === "") throw new DeployError(`${name} was left empty; nothing was changed`);
    found.set(name, value);
  }
  return found;
}

async function main(): Promise<void> {
  program.parse();
  const options = program.opts<{ workspace?: string; all?: true; dryRun: boolean; settings?: string }>();
  if ((options.workspace === undefined) === (options.all === undefined))
    throw new DeployError("say which: --workspace <id>, or --all");
  if (options.workspace !== undefined) checkWorkspace(options.workspace);
  const known = await readDeployments(options.settings, options.workspace);
  const chosen = options.all ? known : known.filter(({ workspace }) => workspace === options.workspace);
  if (chosen.length === 0)
    throw new DeployError("no workspace has a file in deployments/; begin with --workspace <id>");
  // Everything that can be refused is refused before the first of them is touched.
  const prepared: [Deployment, Map<string, string>][] = [];
  for (const deployment of chosen) prepared.push([deployment, await secretsOf(deployment, options.dryRun)]);
  for (const [deployment, secrets] of prepared)
    await deploy(deployment, { dryRun: options.dryRun, secrets, say: (line) => console.log(line) });
}

main().catch((error: unknown) => {
  if (error instanceof CommanderError) {
    // It has said so itself; asking for help is no mistake.
    process.exitCode = error.exitCode === 0 ? 0 : 2;
    return;
  }
  console.error(error instanceof DeployError ? error.message : error);
  process.exitCode = error instanceof DeployError ? 2 : 1;
});
