import { execFile } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import type { Capability } from "../../contracts/capabilities.ts";

/** What was found out about one capability. */
export interface Finding {
  capability: Capability;
  present: boolean;
  /** What was found, or why it counts as missing. */
  detail: string;
  /** How to get it; null when present or impossible here. */
  fix: string | null;
}

const found = (capability: Capability, detail: string): Finding => ({ capability, present: true, detail, fix: null });
const missing = (capability: Capability, detail: string, fix: string | null): Finding => ({
  capability,
  present: false,
  detail,
  fix,
});

const COMMAND_MS = 5_000;

/** First line of a command's output, or null when it fails or is slow. */
function firstLine(command: string, args: string[]): Promise<string | null> {
  return new Promise((resolve) => {
    execFile(command, args, { timeout: COMMAND_MS, maxBuffer: 64 * 1024 }, (error, stdout) => {
      resolve(error ? null : (stdout.split("\n")[0] ?? "").trim());
    });
  });
}

/** Path of a program, looked for the way a shell does. */
function which(names: readonly string[], env: NodeJS.ProcessEnv): string | null {
  for (const dir of (env.PATH ?? "").split(delimiter)) {
    for (const name of names) {
      const path = join(dir, name);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // Not in this directory.
      }
    }
  }
  return null;
}

const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge"];
const MAC_BROWSERS = [
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

/** Git of this machine. */
export async function probeGit(): Promise<Finding> {
  const version = await firstLine("git", ["--version"]);
  return version === null ? missing("git", "no working git on PATH", "install git") : found("git", version);
}

/** NVIDIA GPUs, by their driver's own tool. */
export async function probeGpu(): Promise<Finding> {
  const first = await firstLine("nvidia-smi", ["-L"]);
  return first === null || first === ""
    ? missing(
        "gpu",
        "nvidia-smi -L lists no GPU",
        "install the NVIDIA driver, and the container toolkit for docker jobs",
      )
    : found("gpu", first);
}

/** A browser that a case can drive. */
export function probeBrowser(env: NodeJS.ProcessEnv): Finding {
  const path = which(BROWSERS, env) ?? MAC_BROWSERS.find((candidate) => existsSync(candidate)) ?? null;
  return path === null
    ? missing("browser", "no Chromium or Chrome on PATH", "install chromium or google-chrome")
    : found("browser", path);
}

/** A screen with something that can move the mouse on it. */
export function probeComputerUse(platform: NodeJS.Platform, env: NodeJS.ProcessEnv): Finding {
  if (platform === "win32" || platform === "darwin") return found("computer-use", "a desktop session");
  const display = env.DISPLAY ?? env.WAYLAND_DISPLAY;
  if (!display) return missing("computer-use", "no DISPLAY", "start the runner in a desktop session or under Xvfb");
  const tool = which(["xdotool", "ydotool"], env);
  if (tool === null) return missing("computer-use", "no xdotool or ydotool on PATH", "install xdotool");
  return found("computer-use", `display ${display}, ${tool}`);
}

/** The operating system as a capability. */
export function probeOs(platform: NodeJS.Platform): Finding[] {
  const is = (capability: Capability, wanted: NodeJS.Platform, name: string): Finding =>
    platform === wanted ? found(capability, name) : missing(capability, `this machine is not ${name}`, null);
  return [is("os-windows", "win32", "Windows"), is("os-macos", "darwin", "macOS")];
}

/** A login of an agent's command line, by the file it leaves. */
export function probeLogin(capability: "claude-login" | "codex-login", env: NodeJS.ProcessEnv): Finding {
  const [folder, file, login] =
    capability === "claude-login"
      ? [env.CLAUDE_CONFIG_DIR ?? join(homedir(), ".claude"), ".credentials.json", "claude, then /login"]
      : [env.CODEX_HOME ?? join(homedir(), ".codex"), "auth.json", "codex login"];
  const path = join(folder, file);
  return existsSync(path)
    ? found(capability, path)
    : missing(capability, `no ${path}`, `log in on this machine as this user: ${login}`);
}

/** What the docker engine says about itself; null when it does not answer. */
export interface EngineFacts {
  version: string;
  /** Names of its OCI runtimes. */
  runtimes: string[];
}

/** OCI runtimes that put a kernel or a virtual machine between a job and this machine. */
export const SANDBOX_RUNTIMES = ["runsc", "kata", "kata-runtime", "kata-qemu", "kata-fc", "kata-clh", "sysbox-runc"];

/** @param engine facts, or the reason why there are none */
export function probeDocker(engine: EngineFacts | { reason: string; fix: string }): Finding[] {
  if ("reason" in engine) {
    return [missing("docker", engine.reason, engine.fix), missing("sandbox", "needs the docker engine", engine.fix)];
  }
  const hardened = engine.runtimes.find((runtime) => SANDBOX_RUNTIMES.includes(runtime));
  return [
    found("docker", `engine ${engine.version}`),
    hardened === undefined
      ? missing("sandbox", "the docker engine knows no hardened runtime", "install gVisor (runsc) or Kata as a runtime")
      : found("sandbox", `runtime ${hardened}`),
  ];
}
