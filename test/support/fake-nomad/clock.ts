/** Time of a fake cluster. */
export interface FakeClock {
  /** Epoch ms. */
  now(): number;
  /** Resolves when so much time has passed, or earlier when the signal fires. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Time that passes only when someone waits for it, or a test says so; all waits are instant. */
export class VirtualClock implements FakeClock {
  #nowMs: number;
  /** Called when something waits, before the time passes: the world may change meanwhile. */
  whileWaiting: ((ms: number) => void) | null = null;

  constructor(nowMs = Date.UTC(2026, 10, 30, 8)) {
    this.#nowMs = nowMs;
  }

  now(): number {
    return this.#nowMs;
  }

  advance(ms: number): void {
    this.#nowMs += ms;
  }

  async wait(ms: number, signal?: AbortSignal): Promise<void> {
    const hook = this.whileWaiting;
    this.whileWaiting = null;
    hook?.(ms);
    // A blocking query that the change has woken answers before the time is over.
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
    if (signal?.aborted !== true) this.advance(ms);
  }
}

/** The machine's own time. */
export const REAL_CLOCK: FakeClock = {
  now: () => Date.now(),
  wait: (ms, signal) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal?.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    }),
};
