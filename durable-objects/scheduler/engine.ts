import { apply, wakeAt } from "./core.ts";
import type { Effect, Event } from "./events.ts";
import { drainChanges } from "./rows.ts";
import type { State } from "./state.ts";
import type { Store, Writes } from "./store.ts";

interface Operation {
  run: (now: number) => void;
  done: () => void;
  failed: (error: unknown) => void;
}

/** What one turn did, for the shell to act on after it is durable. */
export interface Turn {
  now: number;
  effects: Effect[];
}

export interface EngineOptions {
  state: State;
  store: Store;
  now: () => number;
  /** Arms the object's one alarm. */
  arm: (at: number) => void;
  /** Carries effects out; called after the turn was written. */
  perform: (turn: Turn) => void;
  /** Makes the nonce of a granted attempt. */
  nonce: () => string;
  /** Another reason to wake, such as the outbox. */
  otherWakeAt: () => number | null;
  /** The turn could not be written: memory is ahead of storage, so the object must start again. */
  abort: (error: unknown) => void;
}

/** A turn this long after the one before is taken at once. */
const CALM_MS = 5;

/**
 * Runs the pure core: the operations of one event-loop turn are applied, admitted for and written together, and
 * answered after that. A write costs one disk sync however many operations share it.
 */
export class Engine {
  readonly state: State;
  readonly #options: EngineOptions;
  #queue: Operation[] = [];
  #effects: Effect[] = [];
  #writes: Writes = { jobs: [], gradings: [], settlements: [] };
  #flushing = false;
  #flushedAt = 0;

  constructor(options: EngineOptions) {
    this.state = options.state;
    this.#options = options;
  }

  /** Rows to be written with this turn. */
  get writes(): Writes {
    return this.#writes;
  }

  /** Queues an operation for this turn; resolves once its changes are written. */
  submit<T>(operation: (now: number) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let value: { is: T } | undefined;
      this.#queue.push({
        run: (now) => {
          value = { is: operation(now) };
        },
        done: () => value && resolve(value.is),
        failed: reject,
      });
      this.#schedule();
    });
  }

  /** Applies one event now; only inside an operation. @returns its effects */
  apply(event: Event, now: number): Effect[] {
    const effects = apply(this.state, event, now);
    for (const effect of effects) this.#effects.push(effect);
    return effects;
  }

  #schedule(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    // One operation after a pause need not wait for company; a stream of them is worth gathering.
    if (this.#options.now() - this.#flushedAt > CALM_MS) queueMicrotask(() => this.#flush());
    else setTimeout(() => this.#flush(), 0);
  }

  #flush(): void {
    this.#flushing = false;
    this.#flushedAt = this.#options.now();
    const operations = this.#queue;
    this.#queue = [];
    const now = this.#options.now();
    try {
      for (const operation of operations) operation.run(now);
      this.apply({ type: "pump" }, now);
      this.#write(now);
    } catch (error) {
      for (const operation of operations) operation.failed(error);
      this.#options.abort(error);
      return;
    }
    const effects = this.#effects;
    this.#effects = [];
    for (const operation of operations) operation.done();
    this.#options.perform({ now, effects });
  }

  #write(now: number): void {
    const { state } = this;
    for (const effect of this.#effects) {
      if (effect.kind === "settle") this.#writes.settlements.push(effect.settlement);
      if (effect.kind !== "grant") continue;
      const attempt = state.entries.get(effect.runId)?.attempt;
      if (attempt && attempt.epoch === effect.epoch) attempt.nonce = this.#options.nonce();
    }
    this.rearm(now);
    const writes = this.#writes;
    this.#writes = { jobs: [], gradings: [], settlements: [] };
    this.#options.store.write(drainChanges(state), writes);
  }

  /** Arms the alarm when something is due before what it is armed for. */
  rearm(now: number): void {
    const { state } = this;
    const core = wakeAt(state, now);
    const other = this.#options.otherWakeAt();
    const next = core === null ? other : other === null ? core : Math.min(core, other);
    if (next === null) return;
    const at = Math.max(next, now + 10);
    if (state.armedWakeAt !== null && state.armedWakeAt <= at) return;
    state.armedWakeAt = at;
    this.#options.arm(at);
  }
}
