import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { type InstallFlags, install } from "./install.ts";
import { type AllowFlags, allowOptions, relayState } from "./relay.ts";

const STOP_SEC = 30;

/** The options as arguments again, paths made absolute: a service starts elsewhere. */
export function allowArguments(flags: AllowFlags): string[] {
  const list = (name: string, values: readonly string[]): string[] =>
    values.length === 0 ? [] : [name, values.join(",")];
  return [
    ...list("--allow-context", flags.allowContext),
    ...list("--allow-host", flags.allowHost),
    ...list("--allow-exec", flags.allowExec),
    ...(flags.allowInsecure ? ["--allow-insecure"] : []),
    ...list(
      "--ca-file",
      flags.caFile.map((path) => resolve(path)),
    ),
    ...(flags.kubeconfig === undefined ? [] : ["--kubeconfig", resolve(flags.kubeconfig)]),
  ];
}

/** Adds `everdict relay install`: a systemd service that starts this relay with the machine. */
export function addRelayInstallCommand(relay: Command): void {
  const command = relay
    .command("install")
    .description("Write and start a systemd service for this relay (Linux)")
    .option("--pair <token>", "token of this relay, or - to read it from standard input")
    .addOption(new Option("--api-url <url>", "control plane").env("EVERDICT_API_URL"))
    .addOption(new Option("--state-dir <dir>", "folder for the token").env("EVERDICT_STATE_DIR"))
    .option("--user", "a service of this user instead of the system")
    .option("--dry-run", "print the unit and change nothing");
  allowOptions(command).action((_flags: unknown, self: Command) => {
    // `relay` has options of the same names and takes them, wherever they stand.
    const flags = self.optsWithGlobals<InstallFlags & AllowFlags>();
    process.exitCode = install(flags, {
      as: "relay",
      args: allowArguments(flags),
      after: "network-online.target",
      stopSec: STOP_SEC,
      state: (stateDir) => relayState(stateDir),
    });
  });
}
