import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { givenPair, type PairedAs, readToken } from "../pairing.ts";
import { EXIT, FatalError } from "../session.ts";
import { defaultStateDir, StateFolder } from "../state-folder.ts";
import { stdout } from "./stdout.ts";

export interface InstallFlags {
  pair?: string;
  apiUrl?: string;
  stateDir?: string;
  user?: boolean;
  dryRun?: boolean;
}

/** Seconds for finishing jobs when the service is stopped; systemd waits a little longer than the runner drains. */
const DRAIN_SEC = 300;
const STOP_SEC = DRAIN_SEC + 60;

/** Adds `everdict runner install`: a systemd service that starts this runner with the machine. */
export function addInstallCommand(runner: Command): void {
  runner
    .command("install")
    .description("Write and start a systemd service for this runner (Linux)")
    .option("--pair <token>", "token of this runner, or - to read it from standard input")
    .addOption(new Option("--api-url <url>", "control plane").env("EVERDICT_API_URL"))
    .addOption(new Option("--state-dir <dir>", "folder for token and machine id").env("EVERDICT_STATE_DIR"))
    .option("--user", "a service of this user instead of the system")
    .option("--dry-run", "print the unit and change nothing")
    .action((_flags: unknown, command: Command) => {
      // `runner` has options of the same names and takes them, wherever they stand.
      process.exitCode = install(command.optsWithGlobals<InstallFlags>(), RUNNER);
    });
}

/** What a service is, beside its address and folder. */
export interface ServiceKind {
  as: PairedAs;
  /** Arguments of its own. */
  args: readonly string[];
  after: string;
  stopSec: number;
  /** Where it keeps its token. */
  state(stateDir: string): StateFolder;
}

const RUNNER: ServiceKind = {
  as: "runner",
  args: ["--drain-timeout", String(DRAIN_SEC)],
  after: "network-online.target docker.service",
  stopSec: STOP_SEC,
  state: (stateDir) => new StateFolder(stateDir),
};

/** Writes and starts a service. @returns the exit status */
export function install(flags: InstallFlags, kind: ServiceKind): number {
  try {
    if (process.platform !== "linux" && !flags.dryRun) {
      throw new FatalError(
        `services are written for systemd only; on this system start \`everdict ${kind.as}\` at login`,
        EXIT.usage,
      );
    }
    const { apiUrl } = flags;
    if (!apiUrl) throw new FatalError("name the control plane with --api-url", EXIT.usage);
    const stateDir = resolve(flags.stateDir ?? defaultStateDir(process.env));
    const unit = systemdUnit({
      node: process.execPath,
      script: resolve(process.argv[1] ?? "everdict.mjs"),
      apiUrl,
      stateDir,
      user: flags.user ? null : userInfo().username,
      kind,
    });
    if (flags.dryRun) stdout().write(unit);
    else write(flags, apiUrl, stateDir, unit, kind);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return error.exitCode;
  }
}

function write(flags: InstallFlags, apiUrl: string, stateDir: string, unit: string, kind: ServiceKind): void {
  const state = kind.state(stateDir);
  const given = givenPair(flags.pair, process.env);
  if (given !== null) state.storeToken(apiUrl, readToken(given, kind.as));
  if (state.token(apiUrl) === null) {
    throw new FatalError(`not paired with ${apiUrl}: add --pair <token>, or --pair - and paste it`, EXIT.usage);
  }
  const dir = flags.user ? join(homedir(), ".config", "systemd", "user") : "/etc/systemd/system";
  mkdirSync(dir, { recursive: true });
  const name = `everdict-${kind.as}`;
  writeFileSync(join(dir, `${name}.service`), unit, { mode: 0o644 });
  const scope = flags.user ? ["--user"] : [];
  for (const args of [["daemon-reload"], ["enable", "--now", `${name}.service`]]) {
    const done = spawnSync("systemctl", [...scope, ...args], { stdio: "inherit" });
    if (done.status !== 0)
      throw new FatalError(`systemctl ${args.join(" ")} failed; the unit is in ${dir}`, EXIT.failed);
  }
  stdout().write(`${name}.service is running; its log: journalctl -u ${name}\n`);
}

/** A word of a systemd command line. */
const word = (text: string): string =>
  `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("%", "%%").replaceAll("$", "$$$$")}"`;

/**
 * The unit file. The token is not in it: it stands in the state folder, readable by its user only.
 * @param service user: whom it runs as, null for a user's own service
 */
export function systemdUnit(service: {
  node: string;
  script: string;
  apiUrl: string;
  stateDir: string;
  user: string | null;
  kind?: ServiceKind;
}): string {
  const { node, script, apiUrl, stateDir, user, kind = RUNNER } = service;
  const start = [node, script, kind.as, "--api-url", apiUrl, "--state-dir", stateDir, ...kind.args];
  return `[Unit]
Description=Everdict ${kind.as}
Wants=network-online.target
After=${kind.after}

[Service]
ExecStart=${start.map(word).join(" ")}
${user === null ? "" : `User=${user}\n`}Restart=always
RestartSec=5
# Exit statuses 3 to 5: token revoked, too old, token used elsewhere. Starting again would not help.
RestartPreventExitStatus=3 4 5
# TERM goes to the ${kind.as} alone; it ends what it started itself.
KillMode=mixed
TimeoutStopSec=${kind.stopSec}

[Install]
WantedBy=${user === null ? "default.target" : "multi-user.target"}
`;
}
