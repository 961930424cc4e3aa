import { messageOf } from "./effects.ts";
import type { Logger } from "./log.ts";
import type { Store } from "./store.ts";

/** An object that has been idle this long is marked so in D1; runs that come one by one cost no writes there. */
const IDLE_MARK_MS = 60_000;

export interface ActivityOptions {
  store: Store;
  log: Logger;
  isActive(): boolean;
  /** Tells D1. */
  tell(active: boolean): Promise<void>;
  /** Sees to a look when the idle time is over. */
  rearm(now: number): void;
}

/** Tells D1 when the object becomes active, and when it has been idle for a minute. */
export class Activity {
  readonly #options: ActivityOptions;
  #marked: boolean;
  #idleSince: number | null = null;
  #marking = false;

  constructor(options: ActivityOptions) {
    this.#options = options;
    this.#marked = options.store.readMeta("marked") === "1";
  }

  /** What D1 was last told: while it has the object marked, only the object itself unmarks it. */
  get marked(): boolean {
    return this.#marked;
  }

  /** When the idle time is over; null when none runs. */
  get wakeAt(): number | null {
    return this.#marked && this.#idleSince !== null ? this.#idleSince + IDLE_MARK_MS : null;
  }

  /** Looks whether D1 has to be told something. */
  look(now: number): void {
    if (this.#marking) return;
    const { store, log, isActive, tell, rearm } = this.#options;
    const active = isActive();
    if (active) this.#idleSince = null;
    else this.#idleSince ??= now;
    if (active === this.#marked) return;
    if (!active && now - (this.#idleSince ?? now) < IDLE_MARK_MS) {
      rearm(now);
      return;
    }
    this.#marking = true;
    tell(active)
      .then(() => {
        this.#marked = active;
        store.writeMeta("marked", active ? "1" : "0");
      })
      .catch((error: unknown) => log("mark.failed", { error: messageOf(error) }))
      .finally(() => {
        this.#marking = false;
      });
  }
}
