import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { join } from "node:path";
import { type Command, Option } from "commander";
import type { Logger } from "../log.ts";
import { storePair } from "../pairing.ts";
import { sweepPlugins } from "../relay/exec-plugin.ts";
import { RelayProcess } from "../relay/relay.ts";
import { type Allowed, Targets } from "../relay/targets.ts";
import { EXIT, FatalError } from "../session.ts";
import { defaultStateDir, StateFolder } from "../state-folder.ts";
import { chooseApiUrl } from "./runner.ts";
import { runService } from "./service.ts";

export interface AllowFlags {
  allowContext: string[];
  allowHost: string[];
  allowExec: string[];
  allowInsecure?: boolean;
  caFile: string[];
  kubeconfig?: string;
}

export interface RelayFlags extends AllowFlags {
  pair?: string;
  apiUrl?: string;
  stateDir?: string;
}

/** Values separated by commas; the option may be given more than once. */
function listed(text: string, before: string[] = []): string[] {
  const values = text.split(",").map((value) => value.trim());
  return [...before, ...values.filter((value) => value !== "")];
}

/** What a relay may do, as options; none of it is allowed unless named. */
export function allowOptions(command: Command): Command {
  const list = (flags: string, words: string, variable: string): Option =>
    new Option(flags, words).argParser<string[]>(listed).default([], "none").env(variable);
  return command
    .addOption(list("--allow-context <names>", "contexts of this machine's kubeconfig", "EVERDICT_ALLOW_CONTEXT"))
    .addOption(
      list("--allow-host <hosts>", "hosts to dial: name, *.domain or address, with :port", "EVERDICT_ALLOW_HOST"),
    )
    .addOption(
      list("--allow-exec <binaries>", "credential plugins that uploaded kubeconfigs may run", "EVERDICT_ALLOW_EXEC"),
    )
    .option("--allow-insecure", "uploaded kubeconfigs may skip the check of certificates")
    .addOption(list("--ca-file <paths>", "certificate authorities to trust for allowed hosts", "EVERDICT_CA_FILE"))
    .addOption(new Option("--kubeconfig <path>", "this machine's kubeconfig; default KUBECONFIG or ~/.kube/config"));
}

/** Adds `everdict relay`; its subcommands are added by their own modules. */
export function addRelayCommand(program: Command): Command {
  const relay = program
    .command("relay")
    .description("Carry API traffic to clusters that this machine can reach")
    .option("--pair <token>", "token of this relay (rly_…), or - to read it from standard input; also EVERDICT_PAIR")
    .addOption(new Option("--api-url <url>", "control plane").env("EVERDICT_API_URL"))
    .addOption(new Option("--state-dir <dir>", "folder for the token").env("EVERDICT_STATE_DIR"));
  return allowOptions(relay).action(async (flags: RelayFlags) => {
    process.exitCode = await runRelay(flags);
  });
}

/** Tokens of relays stand apart from those of runners: one machine may be both for one control plane. */
export const relayState = (stateDir: string | undefined): StateFolder =>
  new StateFolder(join(stateDir ?? defaultStateDir(process.env), "relay"));

/** What the flags allow. @throws FatalError when one of them is written wrongly */
export function allowedBy(flags: AllowFlags): Allowed {
  return {
    contexts: flags.allowContext,
    hosts: flags.allowHost,
    exec: flags.allowExec,
    insecure: flags.allowInsecure === true,
    caFiles: flags.caFile,
  };
}

/** @returns the exit status */
export const runRelay = (flags: RelayFlags): Promise<number> => runService((log) => work(flags, log));

async function work(flags: RelayFlags, log: Logger): Promise<void> {
  // What plugins write is readable by this user only.
  process.umask(0o077);
  const state = relayState(flags.stateDir);
  const apiUrl = chooseApiUrl(flags, state);
  const { argv, execArgv, execPath, env } = process;
  storePair(state, apiUrl, flags.pair, { argv, execArgv, execPath, env }, "relay");
  const token = state.token(apiUrl);
  if (token === null) {
    throw new FatalError(
      `this machine is no relay of ${apiUrl}: create one there (POST /workspace/relays) and start \`everdict relay --pair <token>\``,
      EXIT.usage,
    );
  }
  const instanceId = randomUUID();
  const tempDir = join(state.dir, "plugins");
  for (const instance of sweepPlugins(tempDir, (name) => state.isAlive(name)))
    log.warn("removed what a killed relay left", { instance });
  state.registerInstance(instanceId);
  const allowed = allowedBy(flags);
  const targets = openTargets(allowed, flags.kubeconfig, join(tempDir, instanceId));
  const relay = new RelayProcess({
    apiUrl,
    token,
    instanceId,
    hostname: hostname().slice(0, 253),
    allowed,
    targets,
    log,
  });
  const close = (): void => relay.close();
  process.on("SIGTERM", close);
  process.on("SIGINT", close);
  try {
    log.info("relay ready", {
      apiUrl,
      contexts: allowed.contexts.join(","),
      hosts: allowed.hosts.join(","),
      exec: allowed.exec.join(","),
    });
    await relay.run();
  } finally {
    state.unregisterInstance(instanceId);
    process.off("SIGTERM", close);
    process.off("SIGINT", close);
  }
}

function openTargets(allowed: Allowed, kubeconfig: string | undefined, tempDir: string): Targets {
  try {
    return new Targets({ allowed, kubeconfig, tempDir });
  } catch (error) {
    throw new FatalError(error instanceof Error ? error.message : String(error), EXIT.usage);
  }
}
