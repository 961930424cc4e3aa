import type { Command } from "commander";
import { openEngine } from "../engine.ts";
import { DockerEngine } from "../executors/docker-engine.ts";
import type { Finding } from "../probe/findings.ts";
import { probeMachine } from "../probe/prober.ts";
import { stdout } from "./stdout.ts";

/** Adds `everdict runner doctor`: what this machine can do, and why something is missing. */
export function addDoctorCommand(runner: Command): void {
  runner
    .command("doctor")
    .description("Show what this machine can do, and how to get what is missing")
    .option("--json", "print JSON")
    .action(async (flags: { json?: boolean }) => {
      const findings = await examine(process.env, process.platform);
      stdout().write(flags.json ? `${JSON.stringify({ findings }, null, 2)}\n` : table(findings));
    });
}

/** Looks at everything once. */
export async function examine(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): Promise<Finding[]> {
  const engine = openEngine(env);
  const docker = async () =>
    engine instanceof DockerEngine ? engine.facts() : { reason: engine.reason, fix: "correct DOCKER_HOST" };
  return probeMachine({ env, platform, docker });
}

/** One line a capability, and one with the fix below what is missing. */
export function table(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map((finding) => finding.capability.length));
  const lines = findings.flatMap(({ capability, present, detail, fix }) => [
    `${present ? "✓" : "✗"} ${capability.padEnd(width)}  ${detail}`,
    ...(fix === null ? [] : [`  ${" ".repeat(width)}  → ${fix}`]),
  ]);
  return `${lines.join("\n")}\n`;
}
