const SECONDS = 60;

/** How often something happened over the last minute. */
export class Rate {
  readonly #counts: number[] = Array(SECONDS).fill(0);
  readonly #seconds: number[] = Array(SECONDS).fill(0);

  note(nowMs: number): void {
    const second = Math.floor(nowMs / 1_000);
    const at = second % SECONDS;
    if (this.#seconds[at] !== second) this.#counts[at] = 0;
    this.#seconds[at] = second;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
  }

  /** Per second, to two digits. */
  perSecond(nowMs: number): number {
    const oldest = Math.floor(nowMs / 1_000) - SECONDS;
    const total = this.#counts.reduce((sum, count, at) => sum + ((this.#seconds[at] ?? 0) > oldest ? count : 0), 0);
    return Math.round((total / SECONDS) * 100) / 100;
  }
}
