/** Whoever watches says so again more often. */
const WATCHED_MS = 60_000;
const MAX_WATCHED = 5_000;

/** Runs whose output somebody watches. In memory only: at worst the end of a live log comes with the result alone. */
export class WatchedRuns {
  /** Until when, by run id, in the order of the last word. */
  readonly #until = new Map<string, number>();

  note(runId: string, now: number): void {
    this.#until.delete(runId);
    this.#until.set(runId, now + WATCHED_MS);
    for (const [known, until] of this.#until) {
      if (until > now && this.#until.size <= MAX_WATCHED) break;
      this.#until.delete(known);
    }
  }

  has(runId: string, now: number): boolean {
    return (this.#until.get(runId) ?? 0) > now;
  }
}
