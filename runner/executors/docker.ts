import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { CONTAINER_DIR, containerOf, LABEL, type Owner } from "./docker-container.ts";
import { asRecord, type DockerEngine, EngineError } from "./docker-engine.ts";
import { imageUnavailable, startRefused } from "./docker-failures.ts";
import { hasImage, PullError, pullImage } from "./docker-image.ts";
import { DockerRun, type Launched } from "./docker-run.ts";
import type { AdoptedFacts, Assignment, Execution, ExecutionSink, Executor } from "./executor.ts";
import { failure, lacksCapability } from "./failures.ts";
import { cloneSource } from "./git-source.ts";
import { tarOf } from "./tar.ts";

export interface DockerOptions {
  engine: DockerEngine;
  owner: Owner;
  /** Directory for clones on their way into a container. */
  workDir: string;
}

/** Runs jobs in containers of the local engine. */
export class DockerExecutor implements Executor {
  readonly kind = "docker";
  readonly #engine: DockerEngine;
  readonly #options: DockerOptions;

  constructor(options: DockerOptions) {
    this.#engine = options.engine;
    this.#options = options;
    mkdirSync(options.workDir, { recursive: true, mode: 0o700 });
  }

  start(assignment: Assignment, sink: ExecutionSink): Execution {
    const run = new DockerRun(this.#engine, assignment.job.name, sink);
    run.begin((stop) => this.#launch(assignment, sink, stop));
    return run;
  }

  async #launch(assignment: Assignment, sink: ExecutionSink, stop: AbortSignal): Promise<Launched> {
    const { job } = assignment;
    const { name, image } = job;
    if (image === null) return refused(lacksCapability(name, "host", "the case names no image to run in"));
    if (job.sidecars.length > 0) {
      return refused(
        failure(name, {
          stage: "dispatch",
          class: "config",
          code: "SIDECARS_UNSUPPORTED",
          message: "runners start no sidecars; choose a cluster runtime for this case",
          retryable: false,
        }),
      );
    }
    try {
      const pulled = await this.#ensureImage(assignment, image, sink, stop);
      if (pulled) return pulled;
      const clone = join(this.#options.workDir, name);
      const cloned = job.git === null ? null : await this.#clone(assignment, clone, stop);
      if (cloned) return cloned;
      if (stop.aborted) return { kind: "stopped" };
      const id = await this.#create(assignment);
      try {
        await this.#deliver(id, assignment, job.git === null ? null : clone);
      } finally {
        rmSync(clone, { recursive: true, force: true });
      }
      return { kind: "created", id, ...limitsOf(assignment) };
    } catch (error) {
      return refused(startRefused(name, image, error));
    }
  }

  /** @returns how it ended, or null when the image is here */
  async #ensureImage(
    assignment: Assignment,
    image: string,
    sink: ExecutionSink,
    stop: AbortSignal,
  ): Promise<Launched | null> {
    if (await hasImage(this.#engine, image)) return null;
    sink.phase("pulling");
    try {
      await pullImage(this.#engine, image, assignment.registryAuth, stop);
      return null;
    } catch (error) {
      if (stop.aborted) return { kind: "stopped" };
      if (error instanceof PullError) return refused(imageUnavailable(assignment.job.name, image, error.message));
      throw error;
    }
  }

  async #clone(assignment: Assignment, target: string, stop: AbortSignal): Promise<Launched | null> {
    const { name, git } = assignment.job;
    if (git === null) return null;
    rmSync(target, { recursive: true, force: true });
    mkdirSync(target, { recursive: true, mode: 0o700 });
    const failed = await cloneSource(name, git, assignment.gitCredential, join(target, "source"), target, stop);
    if (failed === null) return stop.aborted ? { kind: "stopped" } : null;
    rmSync(target, { recursive: true, force: true });
    return refused(failed);
  }

  async #create(assignment: Assignment): Promise<string> {
    const facts = assignment.job.isolation === "sandbox" ? await this.#engine.facts() : null;
    const runtimes = facts && "runtimes" in facts ? facts.runtimes : [];
    const document = containerOf(assignment, this.#options.owner, runtimes);
    const { name } = assignment.job;
    const create = (): Promise<unknown> =>
      this.#engine.json("POST", "/containers/create", { query: { name }, json: document });
    let made: unknown;
    try {
      made = await create();
    } catch (error) {
      // A name is one attempt; what has it already is a start whose answer was lost.
      if (!(error instanceof EngineError) || error.status !== 409) throw error;
      await this.#engine.send("DELETE", `/containers/${name}`, { query: { force: "1", v: "1" } });
      made = await create();
    }
    return String(asRecord(made).Id);
  }

  /** Program and nonce as files, and the clone, before the container runs. */
  async #deliver(id: string, assignment: Assignment, clone: string | null): Promise<void> {
    const folder = CONTAINER_DIR.slice(1);
    const archive = tarOf([
      // Open to any user the image may run as; the container is the border.
      { name: `${folder}/`, mode: 0o777, content: null },
      { name: `${folder}/program.sh`, mode: 0o644, content: Buffer.from(assignment.job.program) },
      { name: `${folder}/nonce`, mode: 0o644, content: Buffer.from(assignment.nonce) },
    ]);
    const contentType = "application/x-tar";
    await this.#engine.send("PUT", `/containers/${id}/archive`, { query: { path: "/" }, body: archive, contentType });
    if (clone === null) return;
    const packed = packTree(clone);
    await this.#engine.send("PUT", `/containers/${id}/archive`, {
      query: { path: CONTAINER_DIR },
      body: packed,
      contentType,
      timeoutMs: 15 * 60_000,
    });
  }

  async adopt(name: string, sink: ExecutionSink): Promise<{ execution: Execution; assignment: AdoptedFacts } | null> {
    const [found] = await this.#list({
      label: [`${LABEL.machine}=${this.#options.owner.machineId}`, `${LABEL.name}=${name}`],
    });
    if (!found) return null;
    const { labels } = found;
    const run = new DockerRun(this.#engine, name, sink);
    run.begin(async () => ({
      kind: "adopted",
      id: found.id,
      nonce: labels[LABEL.nonce] ?? "",
      deadlineMs: Number(labels[LABEL.deadlineMs] ?? 0),
      graceSec: Number(labels[LABEL.graceSec] ?? 10),
      memoryMb: Number(labels[LABEL.memoryMb]) || null,
    }));
    const assignment = {
      runId: labels[LABEL.run] ?? "",
      epoch: Number(labels[LABEL.epoch] ?? 0),
      object: labels[LABEL.object] ?? "",
    };
    return { execution: run, assignment };
  }

  /** Names of this machine's containers. */
  async names(): Promise<string[]> {
    const containers = await this.#list({ label: [`${LABEL.machine}=${this.#options.owner.machineId}`] });
    return containers.map((container) => container.labels[LABEL.name] ?? container.id);
  }

  async sweep(keep: (unit: { name: string; instanceId: string }) => boolean): Promise<string[]> {
    const swept: string[] = [];
    for (const { id, labels } of await this.#list({ label: [`${LABEL.machine}=${this.#options.owner.machineId}`] })) {
      if (keep({ name: labels[LABEL.name] ?? "", instanceId: labels[LABEL.instance] ?? "" })) continue;
      await this.#engine.send("DELETE", `/containers/${id}`, { query: { force: "1", v: "1" } });
      swept.push(labels[LABEL.name] ?? id);
    }
    return swept;
  }

  async #list(filters: { label: string[] }): Promise<{ id: string; labels: Record<string, string> }[]> {
    const query = { all: "1", filters: JSON.stringify(filters) };
    const answer = await this.#engine.json("GET", "/containers/json", { query, timeoutMs: 20_000 });
    if (!Array.isArray(answer)) return [];
    return answer.map((item: unknown) => {
      const { Id, Labels } = asRecord(item);
      const labels = Object.entries(asRecord(Labels)).map(([name, value]) => [name, String(value)]);
      return { id: String(Id), labels: Object.fromEntries(labels) };
    });
  }
}

function refused(why: ReturnType<typeof failure>): Launched {
  return { kind: "failure", failure: why };
}

function limitsOf(assignment: Assignment) {
  const { job, nonce, deadlineMs } = assignment;
  return { nonce, deadlineMs, graceSec: job.graceSec, memoryMb: job.resources.memoryMb };
}

/**
 * The clone as an archive owned by root and open to all: whoever the image runs as must be able to change it, and with
 * all capabilities dropped not even root may write to another user's files.
 */
function packTree(dir: string): Readable {
  const owner = process.platform === "darwin" ? ["--uid", "0", "--gid", "0"] : ["--owner=0", "--group=0"];
  const script = 'cd "$1" && shift && chmod -R a+rwX source && exec tar -cf - "$@" source';
  const child = spawn("/bin/sh", ["-c", script, "sh", dir, ...owner], { stdio: ["ignore", "pipe", "ignore"] });
  child.once("exit", (code) => {
    if (code !== 0) child.stdout.destroy(new Error(`tar ended with exit code ${code}`));
  });
  return child.stdout;
}
