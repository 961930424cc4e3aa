import type { Inspection } from "../../contracts/inspection.ts";
import type { RuntimeRef } from "../../contracts/rpc.ts";

/** One reading serves all viewers for so long. */
const FRESH_MS = 5_000;
/** Versions of a runtime whose last reading is kept. */
const MAX_KEPT = 20;

interface Reading {
  /** One refresh in flight, whoever asks. */
  answer: Promise<Inspection>;
  /** When it came; null while it is on its way. */
  readAt: number | null;
}

/** Looks at a cluster that are shared by all viewers. Kept in memory only: a lost one is read again. */
export class Inspections {
  readonly #read: (runtime: RuntimeRef) => Promise<Inspection>;
  readonly #now: () => number;
  readonly #readings = new Map<string, Reading>();

  constructor(read: (runtime: RuntimeRef) => Promise<Inspection>, now: () => number) {
    this.#read = read;
    this.#now = now;
  }

  look(runtime: RuntimeRef): Promise<Inspection> {
    const key = `${runtime.owner}/${runtime.id}@${runtime.version}`;
    const known = this.#readings.get(key);
    if (known && (known.readAt === null || this.#now() - known.readAt < FRESH_MS)) return known.answer;
    const reading: Reading = { answer: this.#read(runtime), readAt: null };
    this.#readings.delete(key);
    this.#readings.set(key, reading);
    for (const oldest of this.#readings.keys()) {
      if (this.#readings.size <= MAX_KEPT) break;
      this.#readings.delete(oldest);
    }
    reading.answer.then(
      () => {
        reading.readAt = this.#now();
      },
      // What failed on the way is not kept: the next viewer asks again.
      () => {
        if (this.#readings.get(key) === reading) this.#readings.delete(key);
      },
    );
    return reading.answer;
  }

  /** Something was changed on the cluster: the next look is a new one. */
  forget(): void {
    this.#readings.clear();
  }
}
