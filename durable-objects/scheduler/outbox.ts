import type { DispatcherRpc } from "../../contracts/rpc.ts";
import { digestOf } from "../../contracts/run-digest.ts";
import type { RunDigest, ScorecardRpc } from "../../contracts/scorecard-rpc.ts";
import { backoffMs } from "./limits.ts";
import type { Logger } from "./log.ts";
import type { Store } from "./store.ts";

const BATCH = 200;
/** A store that hangs longer has failed; writes are idempotent, so a repeat does no harm. */
const CALL_MS = 120_000;

/** Carries terminal records to D1 and then to scorecards, at least once each, with backoff from 1 s to 30 s. */
export class Outbox {
  readonly #store: Store;
  readonly #dispatcher: DispatcherRpc;
  readonly #scorecard: (id: string) => Pick<ScorecardRpc, "settled">;
  readonly #log: Logger;
  readonly #onRetry: (at: number) => void;
  readonly #now: () => number;
  #running = false;
  #tries = 0;
  #retryAt = 0;

  constructor(options: {
    store: Store;
    dispatcher: DispatcherRpc;
    scorecard: (id: string) => Pick<ScorecardRpc, "settled">;
    log: Logger;
    onRetry: (at: number) => void;
    now: () => number;
  }) {
    this.#store = options.store;
    this.#dispatcher = options.dispatcher;
    this.#scorecard = options.scorecard;
    this.#log = options.log;
    this.#onRetry = options.onRetry;
    this.#now = options.now;
  }

  /** When a failed delivery is repeated; null when nothing is owed or a delivery is under way. */
  get retryAt(): number | null {
    return this.#tries > 0 && !this.#running ? this.#retryAt : null;
  }

  /** Whether anything is still to be delivered. */
  get pending(): boolean {
    return this.#store.outboxSize() > 0 || this.#store.digests(1).length > 0;
  }

  /** Delivers what is there, one batch after the other; does nothing while it runs or backs off. */
  drain(force = false): void {
    if (this.#running) return;
    if (!force && this.#tries > 0 && this.#now() < this.#retryAt) return;
    this.#running = true;
    this.#deliver().then(
      () => this.#ended(null),
      (error: unknown) => this.#ended(error),
    );
  }

  #ended(error: unknown): void {
    this.#running = false;
    if (error === null) {
      this.#tries = 0;
      if (this.pending) this.drain();
      return;
    }
    this.#tries += 1;
    this.#retryAt = this.#now() + backoffMs(this.#tries, 1_000, 30_000);
    this.#log("outbox.retry", {
      tries: this.#tries,
      error: error instanceof Error ? error.message.slice(0, 200) : "error",
    });
    this.#onRetry(this.#retryAt);
  }

  async #deliver(): Promise<void> {
    for (;;) {
      const batch = this.#store.outbox(BATCH);
      if (batch.length === 0) break;
      const answer = new Set(await withDeadline(this.#dispatcher.settle(batch)));
      const stored = batch.filter((settlement) => answer.has(settlement.runId));
      this.#store.markStored(stored, digestOf);
      if (stored.length < batch.length) throw new Error(`${batch.length - stored.length} records were not stored`);
    }
    await this.#tellScorecards();
  }

  async #tellScorecards(): Promise<void> {
    for (;;) {
      const rows = this.#store.digests(1_000);
      if (rows.length === 0) return;
      const byScorecard = new Map<string, RunDigest[]>();
      for (const { scorecardId, digest } of rows)
        byScorecard.set(scorecardId, [...(byScorecard.get(scorecardId) ?? []), digest]);
      for (const [scorecardId, digests] of byScorecard) {
        await withDeadline(this.#scorecard(scorecardId).settled(digests));
        this.#store.deleteDigests(digests.map((digest) => digest.runId));
      }
    }
  }
}

async function withDeadline<T>(call: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${CALL_MS / 1_000} s`)), CALL_MS);
  });
  try {
    return await Promise.race([call, late]);
  } finally {
    clearTimeout(timer);
  }
}
