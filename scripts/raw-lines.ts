/** A line that repeats is shown again after this long, with how often it came meanwhile. */
const QUIET_MS = 10 * 60_000;
/** Lines that are told apart; beyond it the oldest is forgotten. */
const MAX_KNOWN = 200;

interface Known {
  shownAt: number;
  folded: number;
  first: string;
}

/** Everything that differs between two reports of the same thing: addresses, numbers, ids. */
const kindOf = (line: string): string => line.replace(/0x[0-9a-f]+|[0-9a-f]*\d[0-9a-f]*/gi, "#").slice(0, 300);

const isContinuation = (line: string): boolean => /^(stack:|\s)/.test(line);

/**
 * What the runtime writes beside the Worker's own JSON lines. workerd prints an exception and its stack for each request
 * that finds no host, which a cluster that is away makes once a second: the first of a kind is shown whole, those that
 * follow are counted, and the count is said. JSON lines and reports of a crash are never folded.
 */
export class RawLines {
  readonly #say: (line: string) => void;
  readonly #now: () => number;
  readonly #known = new Map<string, Known>();
  /** Whether the line that a continuation belongs to was shown. */
  #showing = true;

  constructor(say: (line: string) => void, now: () => number) {
    this.#say = say;
    this.#now = now;
  }

  /** One message, of one line or more. */
  take(message: string): void {
    // The Worker's own, whatever stands in it.
    if (message.startsWith("{")) {
      this.#say(message);
      return;
    }
    for (const line of message.split("\n")) {
      if (!isContinuation(line)) this.#showing = this.#isNews(line);
      if (this.#showing) this.#say(line);
    }
  }

  /** Says what was folded and not told yet. */
  close(): void {
    for (const known of this.#known.values()) this.#tell(known);
    this.#known.clear();
  }

  #isNews(line: string): boolean {
    if (line.startsWith("*** ")) return true;
    const kind = kindOf(line);
    const known = this.#known.get(kind);
    const now = this.#now();
    if (known && now - known.shownAt < QUIET_MS) {
      known.folded++;
      return false;
    }
    if (known) this.#tell(known);
    this.#known.delete(kind);
    this.#known.set(kind, { shownAt: now, folded: 0, first: line.slice(0, 200) });
    for (const [oldest, forgotten] of this.#known) {
      if (this.#known.size <= MAX_KNOWN) break;
      this.#tell(forgotten);
      this.#known.delete(oldest);
    }
    return true;
  }

  #tell({ folded, first }: Known): void {
    if (folded > 0) this.#say(`(${folded} more like it: ${first})`);
  }
}
