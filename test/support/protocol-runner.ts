import { randomUUID } from "node:crypto";
import type { Outcome } from "../../contracts/job.ts";
import type { LeaseAnswer, LeasedAttempt, LeaseRequest, ResultsAnswer } from "../../contracts/runner-protocol.ts";

export const OUTCOME: Outcome = {
  exitCode: 0,
  signal: null,
  durationMs: 1,
  timedOut: false,
  stdout: "hi\n",
  stderr: "",
  stdoutBytes: 3,
  stderrBytes: 0,
  graderExits: {},
  files: {},
  diff: null,
  node: "protocol",
};

export interface ProtocolRunnerOptions {
  url: string;
  token: string;
  slots?: number;
  memoryMb?: number;
  /** Time each job "runs", in ms; up to half of it more or less for each if it is uneven. */
  workMs?: number;
  uneven?: boolean;
  capabilities?: LeaseRequest["capabilities"];
}

/** Speaks the lease protocol over real HTTP and executes nothing: for load, fairness and benchmarks. */
export class ProtocolRunner {
  readonly instanceId = randomUUID();
  /** Attempts whose result was accepted, in order. */
  readonly finished: { runId: string; epoch: number }[] = [];
  /** HTTP answers of 500 and above. */
  serverErrors = 0;
  readonly #options: Required<Omit<ProtocolRunnerOptions, "memoryMb" | "capabilities">> & ProtocolRunnerOptions;
  #held = 0;
  #heldMb = 0;
  #stopped = false;
  #loop: Promise<void> | null = null;
  readonly #abort = new AbortController();

  constructor(options: ProtocolRunnerOptions) {
    this.#options = { slots: 1, workMs: 0, uneven: false, ...options };
  }

  /** One POST of the protocol. @returns null for 204 */
  async post<T>(path: string, body: unknown): Promise<T | null> {
    const response = await fetch(this.#options.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${this.#options.token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: this.#abort.signal,
    });
    if (response.status >= 500) this.serverErrors++;
    if (response.status === 204) return null;
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: HTTP ${response.status} ${text.slice(0, 300)}`);
    return JSON.parse(text) as T;
  }

  request(waitMs: number): LeaseRequest {
    const { slots, memoryMb, capabilities } = this.#options;
    return {
      protocol: 1,
      instanceId: this.instanceId,
      machineId: this.instanceId,
      waitMs,
      slots: { total: slots, free: slots - this.#held },
      memoryMb: memoryMb === undefined ? null : { total: memoryMb, free: memoryMb - this.#heldMb },
      labels: [],
      capabilities: capabilities ?? ["git", "docker"],
      os: "linux",
      arch: "x64",
      version: "0.0.0",
    };
  }

  start(): this {
    this.#loop = this.#run();
    return this;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#abort.abort();
    await this.#loop?.catch(() => undefined);
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      try {
        if (this.#held >= this.#options.slots) {
          await new Promise((resolve) => setTimeout(resolve, 5));
          continue;
        }
        const answer = await this.post<LeaseAnswer>("/runner/lease", this.request(5_000));
        for (const attempt of answer?.attempts ?? []) void this.#work(attempt);
      } catch {
        if (this.#stopped) return;
        await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 200));
      }
    }
  }

  async #work(attempt: LeasedAttempt): Promise<void> {
    const { runId, epoch } = attempt;
    const memoryMb = attempt.job.resources.memoryMb ?? 0;
    this.#held++;
    this.#heldMb += memoryMb;
    try {
      const accepted = await this.post<{ attempts: { verdict: string }[] }>("/runner/heartbeat", {
        instanceId: this.instanceId,
        attempts: [{ runId, epoch, phase: "accepted" }],
      });
      if (accepted?.attempts[0]?.verdict !== "extended") return;
      const { workMs, uneven } = this.#options;
      const takesMs = uneven ? workMs * (0.5 + Math.random()) : workMs;
      if (takesMs > 0) await new Promise((resolve) => setTimeout(resolve, takesMs));
      const answer = await this.post<ResultsAnswer>("/runner/results", {
        instanceId: this.instanceId,
        results: [{ runId, epoch, outcome: OUTCOME }],
      });
      if (answer?.accepted[0]?.accepted) this.finished.push({ runId, epoch });
    } catch {
      // A lost answer is healed by the lease, as for a real runner that dies here.
    } finally {
      this.#held--;
      this.#heldMb -= memoryMb;
    }
  }
}
