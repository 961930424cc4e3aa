import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { ApiClient } from "../api-client.ts";
import { openEngine } from "../engine.ts";
import { DockerExecutor } from "../executors/docker.ts";
import { DockerEngine, EngineUnreachable } from "../executors/docker-engine.ts";
import type { Executor } from "../executors/executor.ts";
import { HostExecutor } from "../executors/host.ts";
import type { Logger } from "../log.ts";
import { thisMachine } from "../machine.ts";
import { storePair } from "../pairing.ts";
import { Prober } from "../probe/prober.ts";
import { Runner } from "../runner.ts";
import { EXIT, FatalError } from "../session.ts";
import { defaultStateDir, StateFolder } from "../state-folder.ts";
import { runService } from "./service.ts";

export interface RunnerFlags {
  pair?: string;
  apiUrl?: string;
  stateDir?: string;
  workDir?: string;
  executor: "docker" | "host" | "auto";
  maxConcurrent: number;
  labels: string[];
  drainTimeout: number;
  once?: boolean;
}

const DEFAULT_API_URL = "http://127.0.0.1:8787";

/** A whole number within bounds, or the reason why not. */
function wholeNumber(low: number, high: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < low || value > high)
      throw new InvalidArgumentError(`must be a whole number from ${low} to ${high}`);
    return value;
  };
}

function labelList(text: string): string[] {
  const labels = text
    .split(",")
    .map((label) => label.trim())
    .filter((label) => label !== "");
  if (labels.length > 20 || labels.some((label) => label.length > 60))
    throw new InvalidArgumentError("at most 20 labels of at most 60 characters");
  return labels;
}

/** Adds `everdict runner` to the CLI; its subcommands are added by their own modules. */
export function addRunnerCommand(program: Command): Command {
  return program
    .command("runner")
    .description("Run my jobs on this machine")
    .option("--pair <token>", "token of this runner (rnr_…), or - to read it from standard input; also EVERDICT_PAIR")
    .addOption(new Option("--api-url <url>", "control plane").env("EVERDICT_API_URL"))
    .addOption(new Option("--state-dir <dir>", "folder for token and machine id").env("EVERDICT_STATE_DIR"))
    .addOption(new Option("--work-dir <dir>", "folder for jobs on this machine").env("EVERDICT_WORK_DIR"))
    .addOption(
      new Option("--executor <kind>", "who runs jobs")
        .choices(["docker", "host", "auto"])
        .default("auto")
        .env("EVERDICT_EXECUTOR"),
    )
    .addOption(
      new Option("--max-concurrent <n>", "jobs at once")
        .argParser(wholeNumber(1, 1_000))
        .default(4)
        .env("EVERDICT_MAX_CONCURRENT"),
    )
    .addOption(
      new Option("--labels <list>", "labels, separated by commas")
        .argParser(labelList)
        .default([])
        .env("EVERDICT_LABELS"),
    )
    .addOption(
      new Option("--drain-timeout <seconds>", "time that running jobs get to finish when told to stop")
        .argParser(wholeNumber(0, 86_400))
        .default(300)
        .env("EVERDICT_DRAIN_TIMEOUT"),
    )
    .option("--once", "end after the first job")
    .action(async (flags: RunnerFlags) => {
      process.exitCode = await runRunner(flags);
    });
}

/** The control plane to talk to: named, or the only one this machine is paired with. */
export function chooseApiUrl(flags: { apiUrl?: string }, state: StateFolder): string {
  if (flags.apiUrl) return flags.apiUrl;
  const paired = state.pairedWith();
  if (paired.length > 1)
    throw new FatalError(`this machine is paired with ${paired.join(" and ")}; choose one with --api-url`, EXIT.usage);
  return paired[0] ?? DEFAULT_API_URL;
}

/** @returns the exit status */
export const runRunner = (flags: RunnerFlags): Promise<number> => runService((log) => work(flags, log));

async function work(flags: RunnerFlags, log: Logger): Promise<void> {
  const state = new StateFolder(flags.stateDir ?? defaultStateDir(process.env));
  const apiUrl = chooseApiUrl(flags, state);
  const { argv, execArgv, execPath, env } = process;
  storePair(state, apiUrl, flags.pair, { argv, execArgv, execPath, env });
  const token = state.token(apiUrl);
  if (token === null) {
    throw new FatalError(
      `this machine is not paired with ${apiUrl}: create a runner there and start \`everdict runner --pair <token>\``,
      EXIT.usage,
    );
  }
  const instanceId = randomUUID();
  state.registerInstance(instanceId);
  const runner = await assemble(flags, { state, apiUrl, token, instanceId, log });
  const drain = (): void => runner.drain();
  process.on("SIGTERM", drain);
  process.on("SIGINT", drain);
  try {
    await runner.run();
  } finally {
    state.unregisterInstance(instanceId);
    process.off("SIGTERM", drain);
    process.off("SIGINT", drain);
  }
}

interface Parts {
  state: StateFolder;
  apiUrl: string;
  token: string;
  instanceId: string;
  log: Logger;
}

/** Removes what processes left that were killed. An engine that is away is swept at the next start. */
async function sweep(executors: Executor[], state: StateFolder, log: Logger): Promise<void> {
  for (const executor of executors) {
    try {
      const names = await executor.sweep((unit) => state.isAlive(unit.instanceId));
      for (const name of names) log.warn("removed what a dead runner left", { job: name, executor: executor.kind });
    } catch (error) {
      if (!(error instanceof EngineUnreachable)) throw error;
      log.warn("nothing swept: the docker engine does not answer");
    }
  }
}

async function assemble(flags: RunnerFlags, parts: Parts): Promise<Runner> {
  const { state, apiUrl, token, instanceId, log } = parts;
  const workDir = flags.workDir ?? join(state.dir, "work");
  const machineId = state.machineId();
  const host = new HostExecutor({ workDir: join(workDir, "host"), instanceId });
  const engine = flags.executor === "host" ? { reason: "started with --executor host" } : openEngine(process.env);
  const docker =
    engine instanceof DockerEngine
      ? new DockerExecutor({ engine, owner: { machineId, instanceId }, workDir: join(workDir, "clones") })
      : null;
  await sweep([host, ...(docker ? [docker] : [])], state, log);
  const prober = new Prober({
    env: process.env,
    platform: process.platform,
    docker: () =>
      "reason" in engine ? Promise.resolve({ ...engine, fix: "change --executor or DOCKER_HOST" }) : engine.facts(),
  });
  await prober.start();
  log.info("runner ready", { apiUrl, instanceId, capabilities: prober.capabilities().join(",") });
  return new Runner({
    client: new ApiClient(apiUrl),
    token,
    instanceId,
    machineId,
    machine: thisMachine(),
    slots: flags.once ? 1 : flags.maxConcurrent,
    labels: flags.labels,
    capabilities: () => prober.capabilities(),
    host: flags.executor === "docker" ? null : host,
    docker,
    once: flags.once === true,
    drainMs: flags.drainTimeout * 1_000,
    log,
  });
}
