import type { Capability } from "../contracts/capabilities.ts";
import { type LeasedAttempt, type LeaseRequest, PROTOCOL } from "../contracts/runner-protocol.ts";
import type { ApiClient } from "./api-client.ts";
import { Attempts } from "./attempts.ts";
import { sleep } from "./backoff.ts";
import type { Executor } from "./executors/executor.ts";
import type { Logger } from "./log.ts";
import { HeartbeatLoop } from "./loops/heartbeat.ts";
import { LeaseLoop } from "./loops/lease.ts";
import { ResultsLoop } from "./loops/results.ts";
import type { Machine } from "./machine.ts";
import { FatalError, Session } from "./session.ts";
import { RUNNER_VERSION } from "./version.ts";

export interface RunnerOptions {
  client: ApiClient;
  token: string;
  instanceId: string;
  machineId: string;
  machine: Machine;
  slots: number;
  labels: string[];
  /** What the machine can do now; asked before each poll, so it must answer from memory. */
  capabilities(): Capability[];
  host: Executor | null;
  docker: Executor | null;
  /** Ends after the first jobs it was given. */
  once: boolean;
  /** Ms that running jobs get to finish when told to drain. */
  drainMs: number;
  log: Logger;
  /** Gathering time of log chunks, in ms. */
  logFlushMs?: number;
}

const STATUS_MS = 250;
/** Time that the last reports get to be delivered when leaving. */
const LAST_WORDS_MS = 10_000;

/** One runner process: its loops, joined by the table of attempts. */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #session: Session;
  readonly #attempts: Attempts;
  readonly #lease: LeaseLoop;
  readonly #heartbeat: HeartbeatLoop;
  readonly #results: ResultsLoop;
  #draining = false;
  #fatal: FatalError | null = null;
  #over: () => void = () => undefined;
  readonly #ended = new Promise<void>((resolve) => {
    this.#over = resolve;
  });

  constructor(options: RunnerOptions) {
    this.#options = options;
    const { client, token, instanceId, log } = options;
    this.#session = new Session({ client, token, instanceId, log, fatal: (error) => this.#die(error) });
    this.#attempts = new Attempts({
      slots: options.slots,
      choose: (attempt) => this.#choose(attempt),
      uploads: { client, ...(options.logFlushMs === undefined ? {} : { flushMs: options.logFlushMs }) },
      log,
      events: {
        report: (ref, report) => this.#results.add(ref, report),
        changed: () => this.#lease.changed(),
        accepted: () => this.#accepted(),
        moved: () => this.#heartbeat.soon(),
      },
    });
    this.#heartbeat = new HeartbeatLoop(this.#session, this.#attempts);
    this.#lease = new LeaseLoop({
      session: this.#session,
      attempts: this.#attempts,
      question: (waitMs) => this.#question(waitMs, 0),
    });
    this.#results = new ResultsLoop({
      session: this.#session,
      attempts: () => this.#attempts,
      lease: (delivering) => this.#questionWithResults(delivering),
      delivered: () => this.#lease.changed(),
      log,
    });
  }

  /**
   * Works until drained, or with `once` until the first jobs are over.
   * @throws FatalError when the token was revoked or the protocol is too old
   */
  async run(): Promise<void> {
    const status = setInterval(() => this.#options.log.status(this.#status()), STATUS_MS);
    const loops = Promise.all([this.#lease.run(), this.#heartbeat.run(), this.#results.run()]);
    loops.catch((error: unknown) => this.#die(new FatalError(`the runner failed: ${String(error)}`, 1)));
    await this.#ended;
    clearInterval(status);
    this.#lease.stop();
    this.#heartbeat.stop();
    this.#results.stop();
    // A parked poll would keep the process alive until the server answers it.
    await this.#session.close();
    if (this.#fatal) throw this.#fatal;
  }

  /** Takes nothing new; running jobs finish, or are handed back after the drain time. The second call is `now`. */
  drain(): void {
    if (this.#draining) {
      this.leaveNow();
      return;
    }
    this.#draining = true;
    this.#options.log.info("draining", { running: this.#attempts.size, drainSec: this.#options.drainMs / 1_000 });
    this.#lease
      .leave()
      .catch(() => undefined)
      .then(() => {
        this.#attempts.release(false);
        return this.#finishDrain(this.#options.drainMs);
      })
      .catch((error: unknown) => this.#die(new FatalError(String(error), 1)));
  }

  /** Hands everything back and ends. */
  leaveNow(): void {
    this.#draining = true;
    this.#lease.stop();
    this.#finishDrain(0).catch((error: unknown) => this.#die(new FatalError(String(error), 1)));
  }

  async #finishDrain(ms: number): Promise<void> {
    await this.#until(() => this.#attempts.size === 0, ms);
    this.#attempts.release(true);
    await this.#until(() => this.#attempts.size === 0 && this.#results.pending === 0, LAST_WORDS_MS + this.#graceMs());
    this.#over();
  }

  #graceMs(): number {
    return Math.max(0, ...this.#attempts.all.map((held) => (held.attempt.job.graceSec + 3) * 1_000));
  }

  async #until(done: () => boolean, ms: number): Promise<void> {
    const end = performance.now() + ms;
    while (!done() && performance.now() < end && this.#fatal === null) await sleep(20);
  }

  #die(error: FatalError): void {
    if (this.#fatal) return;
    this.#fatal = error;
    this.#draining = true;
    this.#lease.stop();
    // Nobody waits for these any more; nothing of them may stay behind.
    this.#attempts.release(true);
    const end = performance.now() + this.#graceMs() + 1_000;
    const look = (): void => {
      if (this.#attempts.size === 0 || performance.now() > end) this.#over();
      else setTimeout(look, 50);
    };
    look();
  }

  #accepted(): void {
    this.#heartbeat.beat();
    if (this.#draining) this.#attempts.release(false);
    else if (this.#options.once) this.#leaveAfterFirst();
  }

  #leaveAfterFirst(): void {
    this.#draining = true;
    this.#lease.stop();
    const look = (): void => {
      if (this.#attempts.size > 0 || this.#results.pending > 0) setTimeout(look, 20);
      else this.#over();
    };
    look();
  }

  #choose(attempt: LeasedAttempt): Executor | { missing: string; detail: string } {
    const { host, docker } = this.#options;
    if (attempt.job.image === null) {
      return host ?? { missing: "host", detail: "it was started with --executor docker and the case names no image" };
    }
    if (docker && this.#options.capabilities().includes("docker")) return docker;
    const detail = docker ? "the docker engine does not answer" : "it was started with --executor host";
    return { missing: "docker", detail: `${detail}, and the case names the image '${attempt.job.image}'` };
  }

  #question(waitMs: number, delivering: number): LeaseRequest {
    const { machine, machineId, slots, labels } = this.#options;
    const used = this.#attempts.size + this.#results.pending - delivering;
    const free = this.#draining ? 0 : Math.max(0, slots - used);
    const { memoryMb, cpu } = this.#attempts.declared;
    return {
      protocol: PROTOCOL,
      instanceId: this.#options.instanceId,
      machineId,
      waitMs,
      slots: { total: slots, free },
      memoryMb: { total: machine.memoryMb, free: Math.max(0, machine.memoryMb - memoryMb) },
      cpu: { total: machine.cpu, free: Math.max(0, machine.cpu - cpu) },
      labels,
      capabilities: this.#options.capabilities(),
      os: machine.os,
      arch: machine.arch,
      version: RUNNER_VERSION,
      hostname: machine.hostname,
    };
  }

  #questionWithResults(delivering: number): { question: LeaseRequest; answered: () => void } | null {
    if (this.#draining) return null;
    const question = this.#question(0, delivering);
    if (question.slots.free === 0) return null;
    return { question, answered: this.#lease.replaced(question) };
  }

  #status(): string {
    const running = this.#attempts.size;
    const doing = running === 0 ? "idle" : `running ${running} of ${this.#options.slots}`;
    const reach = this.#session.reachable ? "" : ", cannot reach the control plane";
    return `${this.#draining ? "draining, " : ""}${doing}${reach}`;
  }
}
