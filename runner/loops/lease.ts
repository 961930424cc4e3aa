import { LeaseAnswer, type LeaseRequest, MAX_WAIT_MS } from "../../contracts/runner-protocol.ts";
import type { Attempts } from "../attempts.ts";
import { Backoff } from "../backoff.ts";
import type { Session } from "../session.ts";
import { Wake } from "../signals.ts";

/** Above the time a poll parks, for the way there and back. */
const SLACK_MS = 10_000;

/** Time for the last word; a drain does not wait longer for it. */
const LEAVE_MS = 2_000;

interface Room {
  free: number;
  memoryFree: number;
}

const roomOf = (question: LeaseRequest): Room => ({
  free: question.slots.free,
  memoryFree: question.memoryMb?.free ?? 0,
});

export interface LeaseOptions {
  session: Session;
  attempts: Attempts;
  /** The question; `slots.free: 0` waits for commands only. */
  question(waitMs: number): LeaseRequest;
}

/**
 * Asks for work with one parked poll. When room changes while it is parked, a new poll is sent beside it and replaces it
 * on the server; the old one is not cut, because its answer may already be on the way with a grant.
 */
export class LeaseLoop {
  readonly #options: LeaseOptions;
  readonly #wake = new Wake();
  readonly #backoff = new Backoff(300, 20_000);
  #parked: Room | null = null;
  #generation = 0;
  #stopped = false;
  /** Until when a failure keeps us from asking again, on the monotonic clock. */
  #notBefore = 0;

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** Free room may have changed. */
  changed(): void {
    this.#wake.notify();
  }

  /**
   * Another call carries a question, which replaces the parked poll on the server.
   * @returns to be called when that call was answered or failed
   */
  replaced(question: LeaseRequest): () => void {
    const generation = ++this.#generation;
    this.#parked = roomOf(question);
    return () => {
      if (generation === this.#generation) this.#parked = null;
      this.#wake.notify();
    };
  }

  stop(): void {
    this.#stopped = true;
    this.#wake.notify();
  }

  /** Says that this process takes nothing any more: its parked poll is replaced, so that what it hands back goes elsewhere. */
  async leave(): Promise<void> {
    this.stop();
    const question = { ...this.#options.question(0), slots: { total: 0, free: 0 } };
    await this.#options.session.call("/runner/lease", question, LEAVE_MS, LeaseAnswer);
  }

  async run(): Promise<void> {
    while (!this.#stopped) {
      const left = this.#notBefore - performance.now();
      if (left > 0) {
        await this.#wake.wait(left);
        continue;
      }
      const waitMs = Math.round(MAX_WAIT_MS * (0.8 + Math.random() * 0.2));
      const question = this.#options.question(waitMs);
      if (this.#isNews(question)) this.#ask(question);
      await this.#wake.wait(60_000);
    }
  }

  #isNews(question: LeaseRequest): boolean {
    const parked = this.#parked;
    if (parked === null) return true;
    const room = roomOf(question);
    return parked.free !== room.free || parked.memoryFree !== room.memoryFree;
  }

  #ask(question: LeaseRequest): void {
    const generation = ++this.#generation;
    this.#parked = roomOf(question);
    this.#poll(question, generation)
      .then((waitMs) => {
        if (generation === this.#generation) this.#parked = null;
        if (waitMs > 0) this.#notBefore = performance.now() + waitMs;
      })
      .finally(() => this.#wake.notify());
  }

  async #poll(question: LeaseRequest, generation: number): Promise<number> {
    const started = performance.now();
    const { session, attempts } = this.#options;
    const answer = await session.call("/runner/lease", question, question.waitMs + SLACK_MS, LeaseAnswer);
    if (this.#stopped && answer.ok && answer.value) {
      // Draining: what came after all is handed back at once.
      attempts.take(answer.value.attempts);
      attempts.release(false);
      return 0;
    }
    if (!answer.ok) return generation === this.#generation ? this.#backoff.next(answer.retryAfterSec) : 0;
    this.#backoff.reset();
    for (const command of answer.value?.commands ?? []) attempts.command(command);
    attempts.take(answer.value?.attempts ?? []);
    const empty = answer.value === null || (answer.value.attempts.length === 0 && answer.value.commands.length === 0);
    // A server that answers an idle poll at once must not be hammered.
    return empty && generation === this.#generation && performance.now() - started < 1_000
      ? 500 + Math.random() * 500
      : 0;
  }
}
