/** Waits that grow with each failure, the whole interval jittered so that a fleet does not come back in step. */
export class Backoff {
  readonly #baseMs: number;
  readonly #maxMs: number;
  readonly #random: () => number;
  #failures = 0;

  constructor(baseMs: number, maxMs: number, random: () => number = Math.random) {
    this.#baseMs = baseMs;
    this.#maxMs = maxMs;
    this.#random = random;
  }

  reset(): void {
    this.#failures = 0;
  }

  /**
   * The next wait in ms: between half and all of base · 2ⁿ, at most the maximum.
   * @param retryAfterSec the server's own wish, which wins over a shorter wait; capped at 10 minutes
   */
  next(retryAfterSec: number | null = null): number {
    const ceiling = Math.min(this.#maxMs, this.#baseMs * 2 ** Math.min(this.#failures++, 20));
    const own = ceiling * (0.5 + this.#random() / 2);
    const asked = Math.min(600, retryAfterSec ?? 0) * 1_000;
    return Math.max(own, asked + (asked > 0 ? this.#random() * 500 : 0));
  }
}

/** Waits, or returns early when the signal fires. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}
