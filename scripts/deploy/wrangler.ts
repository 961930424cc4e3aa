import { spawn } from "node:child_process";
import { childEnvironment, ROOT } from "../environment.ts";
import { DeployError } from "./settings.ts";

/** One command of the plan, as it is printed. */
export const commandLine = (args: readonly string[]): string =>
  ["wrangler", ...args]
    .map((arg) => (/^[\w@%+=:,./-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`))
    .join(" ");

/**
 * Runs wrangler. Secrets never stand in `args`; what it prints is shown only when it fails.
 * @throws DeployError with its last lines
 */
export function wrangler(args: readonly string[], cwd = ROOT): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn("wrangler", args, { cwd, env: childEnvironment(), stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    let errors = "";
    child.stdout.on("data", (chunk) => (output += chunk));
    child.stderr.on("data", (chunk) => (errors += chunk));
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) return resolve(output);
      const said = `${output}\n${errors}`.trim().split("\n").slice(-15).join("\n");
      reject(new DeployError(`${commandLine(args)} ended with ${code}:\n${said}`));
    });
  });
}
