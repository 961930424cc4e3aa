import type { Capability } from "../../contracts/capabilities.ts";
import {
  type EngineFacts,
  type Finding,
  probeBrowser,
  probeComputerUse,
  probeDocker,
  probeGit,
  probeGpu,
  probeLogin,
  probeOs,
} from "./findings.ts";

/** The engine comes and goes; the rest changes by an administrator's hand. */
const DOCKER_EVERY_MS = 10_000;
const ALL_EVERY_MS = 5 * 60_000;

export interface ProberOptions {
  env: NodeJS.ProcessEnv;
  platform: NodeJS.Platform;
  /** Asks the engine, within a bounded time. */
  docker(): Promise<EngineFacts | { reason: string; fix: string }>;
}

/** Everything that can be found out about this machine. */
export async function probeMachine(options: ProberOptions): Promise<Finding[]> {
  const { env, platform } = options;
  const [git, gpu, engine] = await Promise.all([probeGit(), probeGpu(), options.docker()]);
  return [
    git,
    ...probeDocker(engine),
    gpu,
    probeBrowser(env),
    probeComputerUse(platform, env),
    ...probeOs(platform),
    probeLogin("claude-login", env),
    probeLogin("codex-login", env),
  ];
}

/** Keeps the findings fresh in the background, so that a poll never waits for a probe. */
export class Prober {
  readonly #options: ProberOptions;
  #findings: Finding[] = [];
  #timers: NodeJS.Timeout[] = [];

  constructor(options: ProberOptions) {
    this.#options = options;
  }

  /** The first look; later ones follow by themselves until `stop`. */
  async start(): Promise<void> {
    this.#findings = await probeMachine(this.#options);
    this.#timers = [
      setInterval(() => void this.#lookAtDocker(), DOCKER_EVERY_MS),
      setInterval(() => void this.#lookAtAll(), ALL_EVERY_MS),
    ];
    for (const timer of this.#timers) timer.unref();
  }

  stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** What the last look found. */
  capabilities(): Capability[] {
    return this.#findings.filter((finding) => finding.present).map((finding) => finding.capability);
  }

  async #lookAtAll(): Promise<void> {
    this.#findings = await probeMachine(this.#options);
  }

  async #lookAtDocker(): Promise<void> {
    const docker = probeDocker(await this.#options.docker());
    const changed = new Set(docker.map((finding) => finding.capability));
    this.#findings = [...this.#findings.filter((finding) => !changed.has(finding.capability)), ...docker];
  }
}
