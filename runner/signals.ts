/** A latch that loops wait on: `notify` wakes whoever waits now or next. */
export class Wake {
  #pending = false;
  #waiter: (() => void) | null = null;

  notify(): void {
    this.#pending = true;
    this.#waiter?.();
  }

  /** Waits for a notice, at most `ms`. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#pending) {
        this.#pending = false;
        resolve();
        return;
      }
      const done = (): void => {
        clearTimeout(timer);
        this.#waiter = null;
        this.#pending = false;
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#waiter = done;
    });
  }
}
