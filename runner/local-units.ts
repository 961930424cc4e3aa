import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { type Job, Outcome } from "../contracts/job.ts";
import { Failure } from "../contracts/run.ts";
import type { ApiClient } from "./api-client.ts";
import type { Execution, ExecutionEnd, Executor } from "./executors/executor.ts";
import { lacksCapability } from "./executors/failures.ts";
import type { StartRequest } from "./local.ts";
import type { Logger } from "./log.ts";
import { LogUploader } from "./loops/logs.ts";
import { maskFailure, maskOutcome, maskPatterns } from "./mask.ts";

const End = z.union([
  z.object({ outcome: Outcome }),
  z.object({ failure: Failure }),
  z.object({ stopped: z.literal(true) }),
]);

/** One unit on disk, readable by this user only: its masks are needed by the process that finds it again. */
const Stored = z.object({
  name: z.string(),
  runId: z.string(),
  epoch: z.number(),
  object: z.string(),
  masks: z.array(z.string()),
  end: End.nullable(),
});
type Stored = z.infer<typeof Stored>;

/** One unit as the listing shows it. */
export interface LocalUnit {
  name: string;
  runId: string;
  epoch: number;
  object: string;
  state: "pending" | "running" | "finished";
  node: string;
  outcome?: Outcome;
  failure?: Failure;
  stopped?: true;
}

interface Unit extends Stored {
  state: LocalUnit["state"];
  execution: Execution | null;
}

export interface LocalUnitsOptions {
  dir: string;
  node: string;
  choose(job: Job): Executor | { missing: string };
  executors: readonly Executor[];
  client(): ApiClient;
  log: Logger;
}

const LOG_FLUSH_MS = 3_000;
/** Room for grading after the job's own time, as the lease protocol counts it. */
const GRADING_SEC = 300;

/** The jobs on this machine by name, in memory and on disk. */
export class LocalUnits {
  readonly #options: LocalUnitsOptions;
  readonly #units = new Map<string, Unit>();
  readonly #waiters = new Set<() => void>();
  #client: ApiClient | null = null;

  constructor(options: LocalUnitsOptions) {
    this.#options = options;
    mkdirSync(options.dir, { recursive: true, mode: 0o700 });
  }

  /** Finds again what an earlier process started, and removes what nobody knows. */
  async recover(): Promise<void> {
    for (const file of readdirSync(this.#options.dir)) {
      const stored = this.#read(join(this.#options.dir, file));
      if (stored === null) continue;
      const unit: Unit = { ...stored, state: stored.end ? "finished" : "running", execution: null };
      if (stored.end !== null || (await this.#adopt(unit))) this.#units.set(unit.name, unit);
      else this.#remove(unit.name);
    }
    for (const executor of this.#options.executors) {
      const swept = await executor
        .sweep((unit) => this.#units.has(unit.name))
        .catch((error: unknown) => {
          this.#options.log.warn("nothing swept", { executor: executor.kind, reason: String(error) });
          return [];
        });
      for (const name of swept) this.#options.log.warn("removed what nobody waits for", { job: name });
    }
  }

  async start(request: StartRequest): Promise<LocalUnit> {
    const known = this.#units.get(request.name);
    if (known) return this.#show(known);
    const { name, runId, epoch, job } = request;
    const masks = [...Object.values(request.secrets), ...(request.gitCredential ? [request.gitCredential] : [])];
    const stored = { name, runId, epoch, object: job.labels.object, masks, end: null };
    const unit: Unit = { ...stored, state: "pending", execution: null };
    this.#units.set(name, unit);
    this.#write(unit);
    const executor = this.#options.choose(job);
    if ("missing" in executor) {
      const failure = lacksCapability(name, executor.missing, "the control plane's machine has none");
      this.#finish(unit, { kind: "failure", failure });
      return this.#show(unit);
    }
    this.#launch(unit, request, executor);
    return this.#show(unit);
  }

  #launch(unit: Unit, request: StartRequest, executor: Executor): void {
    const { job, nonce, secrets, registryAuth, logToken } = request;
    this.#client ??= this.#options.client();
    const uploader = new LogUploader({ client: this.#client }, unit, logToken, maskPatterns(unit.masks));
    const deadlineMs = request.deadlineMs ?? (job.timeoutSec + job.graceSec + GRADING_SEC) * 1_000;
    const gitCredential = request.gitCredential ?? null;
    unit.execution = executor.start(
      { job, nonce, secrets, registryAuth, gitCredential, deadlineMs },
      {
        phase: (phase) => {
          if (phase === "running") this.#running(unit);
        },
        output: (stream, bytes) => uploader.write(stream, bytes),
      },
    );
    this.#follow(unit, unit.execution, (end) =>
      uploader.finish(end.kind === "outcome" ? end.outcome : null, LOG_FLUSH_MS),
    );
  }

  async #adopt(unit: Unit): Promise<boolean> {
    for (const executor of this.#options.executors) {
      const adopted = await executor
        .adopt(unit.name, { phase: () => undefined, output: () => undefined })
        .catch(() => null);
      if (adopted === null) continue;
      unit.execution = adopted.execution;
      this.#follow(unit, adopted.execution, async () => undefined);
      return true;
    }
    return false;
  }

  #follow(unit: Unit, execution: Execution, before: (end: ExecutionEnd) => Promise<void>): void {
    execution.ended
      .then(async (end) => {
        await before(end);
        this.#finish(unit, end);
      })
      .catch((error: unknown) => this.#options.log.error("unit lost", { job: unit.name, reason: String(error) }));
  }

  #running(unit: Unit): void {
    if (unit.state !== "pending") return;
    unit.state = "running";
    this.#wake();
  }

  #finish(unit: Unit, end: ExecutionEnd): void {
    const patterns = maskPatterns(unit.masks);
    unit.state = "finished";
    if (end.kind === "outcome") unit.end = { outcome: maskOutcome(end.outcome, patterns) };
    else if (end.kind === "failure") unit.end = { failure: maskFailure(end.failure, patterns) };
    else unit.end = { stopped: true };
    unit.masks = [];
    unit.execution = null;
    if (this.#units.has(unit.name)) this.#write(unit);
    this.#wake();
  }

  /** @returns whether it is known; it finishes by itself when all of it is gone */
  stop(name: string): boolean {
    const unit = this.#units.get(name);
    unit?.execution?.stop();
    return unit !== undefined;
  }

  /** The end was collected, or nobody wants it: nothing of the unit stays. */
  async forget(name: string): Promise<void> {
    const unit = this.#units.get(name);
    this.#units.delete(name);
    if (unit?.execution) {
      unit.execution.stop();
      await unit.execution.ended;
    }
    this.#remove(name);
  }

  /** Units of one object, or all. Parks while none of them has finished. */
  async list(object: string | null, waitMs: number): Promise<LocalUnit[]> {
    const ours = (): Unit[] => [...this.#units.values()].filter((unit) => object === null || unit.object === object);
    if (waitMs > 0 && !ours().some((unit) => unit.state === "finished")) await this.#changed(waitMs);
    return ours().map((unit) => this.#show(unit));
  }

  async close(): Promise<void> {
    this.#wake();
    await this.#client?.close();
  }

  #changed(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#waiters.add(done);
    });
  }

  #wake(): void {
    for (const waiter of [...this.#waiters]) waiter();
  }

  #show(unit: Unit): LocalUnit {
    const { name, runId, epoch, object, state } = unit;
    return { name, runId, epoch, object, state, node: this.#options.node, ...unit.end };
  }

  #path(name: string): string {
    return join(this.#options.dir, `${name.replace(/[^a-zA-Z0-9_-]/g, "")}.json`);
  }

  #write(unit: Unit): void {
    const { name, runId, epoch, object, masks, end } = unit;
    const fresh = `${this.#path(name)}.new`;
    writeFileSync(fresh, JSON.stringify({ name, runId, epoch, object, masks, end } satisfies Stored), { mode: 0o600 });
    renameSync(fresh, this.#path(name));
  }

  #remove(name: string): void {
    rmSync(this.#path(name), { force: true });
  }

  #read(path: string): Stored | null {
    try {
      return Stored.parse(JSON.parse(readFileSync(path, "utf8")));
    } catch {
      rmSync(path, { force: true });
      return null;
    }
  }
}
