import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { readToken } from "../pairing.ts";
import { EXIT, FatalError } from "../session.ts";
import { defaultStateDir, StateFolder } from "../state-folder.ts";

interface InstallFlags {
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
      process.exitCode = install(command.optsWithGlobals<InstallFlags>());
    });
}

function install(flags: InstallFlags): number {
  try {
    if (process.platform !== "linux" && !flags.dryRun) {
      throw new FatalError(
        "services are written for systemd only; on this system start `everdict runner` at login",
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
    });
    if (flags.dryRun) process.stdout.write(unit);
    else write(flags, apiUrl, stateDir, unit);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return error.exitCode;
  }
}

function write(flags: InstallFlags, apiUrl: string, stateDir: string, unit: string): void {
  const state = new StateFolder(stateDir);
  const given = flags.pair ?? process.env.EVERDICT_PAIR;
  if (given) state.storeToken(apiUrl, readToken(given));
  if (state.token(apiUrl) === null) {
    throw new FatalError(`not paired with ${apiUrl}: add --pair <token>, or --pair - and paste it`, EXIT.usage);
  }
  const dir = flags.user ? join(homedir(), ".config", "systemd", "user") : "/etc/systemd/system";
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "everdict-runner.service"), unit, { mode: 0o644 });
  const scope = flags.user ? ["--user"] : [];
  for (const args of [["daemon-reload"], ["enable", "--now", "everdict-runner.service"]]) {
    const done = spawnSync("systemctl", [...scope, ...args], { stdio: "inherit" });
    if (done.status !== 0)
      throw new FatalError(`systemctl ${args.join(" ")} failed; the unit is in ${dir}`, EXIT.failed);
  }
  process.stdout.write("everdict-runner.service is running; its log: journalctl -u everdict-runner\n");
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
}): string {
  const { node, script, apiUrl, stateDir, user } = service;
  const start = [
    node,
    script,
    "runner",
    "--api-url",
    apiUrl,
    "--state-dir",
    stateDir,
    "--drain-timeout",
    String(DRAIN_SEC),
  ];
  return `[Unit]
Description=Everdict runner
Wants=network-online.target
After=network-online.target docker.service

[Service]
ExecStart=${start.map(word).join(" ")}
${user === null ? "" : `User=${user}\n`}Restart=always
RestartSec=5
# Exit statuses 3 and 4: token revoked, too old. Starting again would not help.
RestartPreventExitStatus=3 4
# TERM goes to the runner alone; it ends its jobs itself.
KillMode=mixed
TimeoutStopSec=${STOP_SEC}

[Install]
WantedBy=${user === null ? "default.target" : "multi-user.target"}
`;
}
