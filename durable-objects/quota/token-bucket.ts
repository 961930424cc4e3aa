/**
 * A token bucket. A request larger than the burst is let through when the bucket is full and pays by what follows it.
 * It lives in memory: an object that was evicted has been idle for longer than a bucket takes to fill.
 */
export class TokenBucket {
  #tokens: number | null = null;
  #at = 0;

  /** @returns seconds to wait; 0 when taken */
  take(count: number, ratePerSec: number, burst: number, now: number): number {
    const elapsed = this.#tokens === null ? 0 : Math.max(0, now - this.#at) / 1_000;
    const tokens = Math.min(burst, (this.#tokens ?? burst) + elapsed * ratePerSec);
    this.#at = now;
    const needed = Math.min(count, burst);
    if (tokens < needed) {
      this.#tokens = tokens;
      return ratePerSec > 0 ? Math.max(1, Math.ceil((needed - tokens) / ratePerSec)) : 3_600;
    }
    this.#tokens = tokens - count;
    return 0;
  }
}
