/** Readers parked at once; the one that waited longest is answered with nothing when another comes. */
const MAX_PARKED = 1_000;

/** Readers that wait for the next output, each with a deadline. */
export class Readers {
  readonly #parked = new Set<() => void>();

  /** Resolves at the next wake or after `waitMs`. */
  park(waitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const leave = (): void => {
        clearTimeout(timer);
        this.#parked.delete(leave);
        resolve();
      };
      const timer = setTimeout(leave, waitMs);
      this.#parked.add(leave);
      if (this.#parked.size > MAX_PARKED) {
        const [oldest] = this.#parked;
        oldest?.();
      }
    });
  }

  /** Lets every parked reader look again. */
  wake(): void {
    for (const leave of [...this.#parked]) leave();
  }
}
