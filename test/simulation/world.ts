/** A seeded source of chance (mulberry32): the same seed gives the same world. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  hits(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(list: readonly T[]): T {
    const item = list[this.below(list.length)];
    if (item === undefined) throw new Error("nothing to pick from");
    return item;
  }
}

interface Timed {
  at: number;
  seq: number;
  run: () => void;
}

/** What may go wrong, as probabilities; all zero once faults have stopped. */
export interface Faults {
  loss: number;
  duplicate: number;
  longDelay: number;
  crash: number;
  eviction: number;
  lateAlarm: number;
  lostAlarm: number;
  doubleAlarm: number;
  pause: number;
  runnerCrash: number;
  failingListing: number;
  hangingCall: number;
  staleListing: number;
  d1Stall: number;
}

export const NO_FAULTS: Faults = {
  loss: 0,
  duplicate: 0,
  longDelay: 0,
  crash: 0,
  eviction: 0,
  lateAlarm: 0,
  lostAlarm: 0,
  doubleAlarm: 0,
  pause: 0,
  runnerCrash: 0,
  failingListing: 0,
  hangingCall: 0,
  staleListing: 0,
  d1Stall: 0,
};

/** Simulated time with its agenda, and a network that loses, delays, doubles and reorders. */
export class World {
  readonly chance: Chance;
  faults: Faults;
  now = 1_000_000_000;
  events = 0;
  readonly #heap: Timed[] = [];
  #seq = 0;

  constructor(seed: number, faults: Faults) {
    this.chance = new Chance(seed);
    this.faults = faults;
  }

  at(time: number, run: () => void): void {
    this.#seq += 1;
    this.#push({ at: Math.max(this.now, time), seq: this.#seq, run });
  }

  after(ms: number, run: () => void): void {
    this.at(this.now + ms, run);
  }

  /** Sends a message: it may be lost, come twice, or come late and out of order. */
  send(deliver: () => void): void {
    const { faults, chance } = this;
    if (chance.hits(faults.loss)) return;
    const copies = chance.hits(faults.duplicate) ? 2 : 1;
    for (let copy = 0; copy < copies; copy++) {
      const delay = chance.hits(faults.longDelay) ? chance.between(1_000, 40_000) : chance.between(1, 80);
      this.after(delay, deliver);
    }
  }

  /** Runs what comes next. @returns false when the agenda is empty */
  step(): boolean {
    const next = this.#pop();
    if (!next) return false;
    this.now = Math.max(this.now, next.at);
    this.events += 1;
    next.run();
    return true;
  }

  #push(item: Timed): void {
    const heap = this.#heap;
    let index = heap.push(item) - 1;
    while (index > 0) {
      const up = (index - 1) >> 1;
      const parent = heap[up];
      if (!parent || before(parent, item)) break;
      heap[index] = parent;
      index = up;
    }
    heap[index] = item;
  }

  #pop(): Timed | undefined {
    const heap = this.#heap;
    const top = heap[0];
    const item = heap.pop();
    if (!item || !top || heap.length === 0) return top;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      const left = heap[child];
      if (!left) break;
      const right = heap[child + 1];
      if (right && before(right, left)) child += 1;
      const smallest = heap[child];
      if (!smallest || before(item, smallest)) break;
      heap[index] = smallest;
      index = child;
    }
    heap[index] = item;
    return top;
  }
}

const before = (a: Timed, b: Timed): boolean => a.at < b.at || (a.at === b.at && a.seq < b.seq);
