import {
  type AttemptRef,
  type LeaseRequest,
  type Report,
  ResultsAnswer,
  type ResultsRequest,
} from "../../contracts/runner-protocol.ts";
import type { Attempts } from "../attempts.ts";
import { Backoff } from "../backoff.ts";
import type { Logger } from "../log.ts";
import type { Session } from "../session.ts";
import { Wake } from "../signals.ts";

const CALL_MS = 30_000;
const MAX_RESULTS = 200;
/** Results of one call together; a whole Outcome is up to half a megabyte as JSON. */
const MAX_BATCH_CHARS = 4 * 1024 * 1024;

interface Pending extends AttemptRef {
  outcome: Report;
  chars: number;
}

export interface ResultsOptions {
  session: Session;
  attempts(): Attempts;
  /**
   * The question for the next jobs, asked in the same call, and what to call when it was answered or failed.
   * @param delivering results in this call, whose room is free again once it is answered
   * @returns null when no jobs are wanted
   */
  lease(delivering: number): { question: LeaseRequest; answered: () => void } | null;
  /** Called after each delivered batch. */
  delivered(): void;
  log: Logger;
}

/** Delivers reports in batches, for ever, under the same epoch, and takes the next jobs from the same answer. */
export class ResultsLoop {
  readonly #options: ResultsOptions;
  readonly #wake = new Wake();
  #queue: Pending[] = [];
  #stopped = false;

  constructor(options: ResultsOptions) {
    this.#options = options;
  }

  get pending(): number {
    return this.#queue.length;
  }

  add(ref: AttemptRef, outcome: Report): void {
    this.#queue.push({ ...ref, outcome, chars: JSON.stringify(outcome).length });
    this.#wake.notify();
  }

  stop(): void {
    this.#stopped = true;
    this.#wake.notify();
  }

  async run(): Promise<void> {
    const backoff = new Backoff(250, 30_000);
    while (!this.#stopped) {
      if (this.#queue.length === 0) await this.#wake.wait(60_000);
      if (this.#queue.length === 0 || this.#stopped) continue;
      const failed = await this.#send(this.#batch());
      if (failed === null) backoff.reset();
      else await this.#pause(backoff.next(failed));
    }
  }

  /** Waits out a failure; new results do not shorten it. */
  async #pause(ms: number): Promise<void> {
    const until = performance.now() + ms;
    for (let left = ms; left > 0 && !this.#stopped; left = until - performance.now()) await this.#wake.wait(left);
  }

  #batch(): Pending[] {
    let chars = 0;
    const batch: Pending[] = [];
    for (const item of this.#queue) {
      if (batch.length > 0 && (batch.length === MAX_RESULTS || chars + item.chars > MAX_BATCH_CHARS)) break;
      batch.push(item);
      chars += item.chars;
    }
    return batch;
  }

  /** @returns null when answered, otherwise the server's wish for a pause in seconds, or 0 */
  async #send(batch: Pending[]): Promise<number | null> {
    const { session } = this.#options;
    const lease = this.#options.lease(batch.length);
    const request: ResultsRequest = {
      instanceId: session.instanceId,
      results: batch.map(({ runId, epoch, outcome }) => ({ runId, epoch, outcome })),
      ...(lease === null ? {} : { lease: lease.question }),
    };
    const answer = await session.call("/runner/results", request, CALL_MS, ResultsAnswer);
    if (!answer.ok) {
      lease?.answered();
      if (answer.refused === null) return answer.retryAfterSec ?? 0;
      return this.#refused(batch, answer.refused.message);
    }
    this.#drop(batch);
    for (const item of answer.value?.accepted ?? []) this.#judged(item);
    const attempts = this.#options.attempts();
    for (const command of answer.value?.commands ?? []) attempts.command(command);
    attempts.take(answer.value?.attempts ?? []);
    lease?.answered();
    this.#options.delivered();
    return null;
  }

  #drop(batch: readonly Pending[]): void {
    const gone = new Set(batch);
    this.#queue = this.#queue.filter((item) => !gone.has(item));
  }

  #judged(item: AttemptRef & { accepted: boolean; reason?: string | undefined }): void {
    if (item.accepted) return;
    const { runId, epoch, reason } = item;
    this.#options.log.info("result not wanted any more", { runId, epoch, reason });
  }

  /** A call that can never succeed: find the item it is about, and report in its place that it was refused. */
  #refused(batch: Pending[], message: string): number | null {
    const [first] = batch;
    if (first === undefined) return null;
    if (batch.length > 1) {
      // One at a time from here: the head of the queue is sent alone next.
      this.#drop(batch);
      this.#queue.unshift(...batch.map((item) => ({ ...item, chars: MAX_BATCH_CHARS })));
      return null;
    }
    this.#drop(batch);
    const { runId, epoch, outcome } = first;
    this.#options.log.error("the control plane refused a result", { runId, epoch, reason: message });
    const replaced = "failure" in outcome && outcome.failure.code === "RESULT_REFUSED";
    if (!replaced && !("stopped" in outcome) && !("released" in outcome)) this.add(first, refusedReport(message));
    return 0;
  }
}

function refusedReport(message: string): Report {
  return {
    failure: {
      stage: "collect",
      class: "infra",
      code: "RESULT_REFUSED",
      message: `the control plane refused the result of this attempt: ${message}`.slice(0, 4_000),
      retryable: false,
    },
  };
}
