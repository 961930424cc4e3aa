import { HEARTBEAT_MS, HeartbeatAnswer, type HeartbeatRequest } from "../../contracts/runner-protocol.ts";
import type { Attempts } from "../attempts.ts";
import { Backoff } from "../backoff.ts";
import type { Session } from "../session.ts";
import { Wake } from "../signals.ts";

const CALL_MS = 10_000;
/** Retries of the heartbeat that confirms a grant: it is withdrawn after 10 s. */
const RETRY_BASE_MS = 200;
const RETRY_MAX_MS = 15_000;
/** Delay of a message that only informs. */
const SOON_MS = 300;

/**
 * Keeps the leases: one heartbeat for all held attempts every 30 s, and one at once for a new grant. An attempt starts
 * only when the answer says `extended`. Without an answer the work goes on, and the question is asked again.
 */
export class HeartbeatLoop {
  readonly #session: Session;
  readonly #attempts: Attempts;
  readonly #wake = new Wake();
  #soon: NodeJS.Timeout | null = null;
  #stopped = false;

  constructor(session: Session, attempts: Attempts) {
    this.#session = session;
    this.#attempts = attempts;
  }

  /** A grant waits for its confirmation. */
  beat(): void {
    this.#wake.notify();
  }

  /** Something that is worth telling before the next beat; jobs that are over by then cost no message. */
  soon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = null;
      this.#wake.notify();
    }, SOON_MS);
  }

  stop(): void {
    this.#stopped = true;
    if (this.#soon) clearTimeout(this.#soon);
    this.#wake.notify();
  }

  async run(): Promise<void> {
    const backoff = new Backoff(RETRY_BASE_MS, RETRY_MAX_MS);
    let waitMs = HEARTBEAT_MS;
    while (!this.#stopped) {
      await this.#wake.wait(waitMs);
      if (this.#stopped) return;
      const failed = await this.#beat();
      waitMs = failed ? backoff.next(failed.retryAfterSec) : HEARTBEAT_MS * (0.9 + Math.random() * 0.1);
      if (!failed) backoff.reset();
    }
  }

  async #beat(): Promise<{ retryAfterSec: number | null } | null> {
    // What is being stopped keeps its lease until it is gone.
    const attempts = this.#attempts.all.map(({ runId, epoch, phase }) => ({
      runId,
      epoch,
      phase: phase === "stopping" ? ("running" as const) : phase,
    }));
    if (attempts.length === 0) return null;
    const request: HeartbeatRequest = { instanceId: this.#session.instanceId, attempts: attempts.slice(0, 1_000) };
    const answer = await this.#session.call("/runner/heartbeat", request, CALL_MS, HeartbeatAnswer);
    if (!answer.ok) return answer;
    for (const { runId, epoch, verdict } of answer.value?.attempts ?? []) {
      if (verdict === "extended") this.#attempts.extended({ runId, epoch });
      else this.#attempts.command({ runId, epoch, verdict });
    }
    return null;
  }
}
