import { OUTCOME_STREAM_BYTES, type Outcome } from "../../contracts/job.ts";
import type { Failure } from "../../contracts/run.ts";
import { base64Forms } from "../../contracts/secret-forms.ts";
import { fromBase64, toBase64 } from "../auth/digest.ts";

/** Shorter values would mask ordinary text; runners keep the same bound. */
const MIN_BYTES = 8;
const MASK = "***";
/** A piece of a value at the cut of a tail is masked from this length on. */
const EDGE_CHARS = 4;
/** Nothing but values for so long is shown as one mask. */
const STUCK_BYTES = 65_536;

const latin = (bytes: Uint8Array): string => {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return text;
};

interface Span {
  start: number;
  end: number;
}

/** All places of all patterns, overlapping ones joined. */
function spansOf(data: string, patterns: readonly string[]): Span[] {
  const found: Span[] = [];
  for (const pattern of patterns)
    for (let at = data.indexOf(pattern); at >= 0; at = data.indexOf(pattern, at + 1))
      found.push({ start: at, end: at + pattern.length });
  found.sort((a, b) => a.start - b.start);
  const joined: Span[] = [];
  for (const span of found) {
    const last = joined.at(-1);
    if (last && span.start < last.end) last.end = Math.max(last.end, span.end);
    else joined.push({ ...span });
  }
  return joined;
}

/** First position from which the rest of the data could be the start of a pattern. */
function openFrom(data: string, patterns: readonly string[]): number {
  let open = data.length;
  for (const pattern of patterns) {
    const first = pattern.charAt(0);
    for (
      let at = data.indexOf(first, Math.max(0, data.length - pattern.length + 1));
      at >= 0 && at < open;
      at = data.indexOf(first, at + 1)
    )
      if (pattern.startsWith(data.slice(at))) open = at;
  }
  return open;
}

const bytesOf = (text: string): Uint8Array => Uint8Array.from(text, (char) => char.charCodeAt(0));

/** Replaces secret values, plain and in base64, in what a job wrote. What runs on a cluster is masked here, as runners do. */
export class Masking {
  readonly #text: string[];
  readonly #bytes: string[];

  constructor(values: Iterable<string>) {
    const known = [...new Set(values)]
      .map((value) => ({ value, bytes: new TextEncoder().encode(value) }))
      .filter(({ bytes }) => bytes.length >= MIN_BYTES);
    const coded = known.flatMap(({ bytes }) => base64Forms(bytes));
    // Longest first: a value may hold another.
    const longest = (a: string, b: string) => b.length - a.length;
    this.#text = [...known.map(({ value }) => value), ...coded].sort(longest);
    this.#bytes = [...known.map(({ bytes }) => latin(bytes)), ...coded].sort(longest);
  }

  text(text: string): string {
    return this.#text.reduce((masked, value) => masked.replaceAll(value, MASK), text);
  }

  /** A tail: what its cut left of a value at its start is masked too. */
  tail(text: string): string {
    let edge = 0;
    for (const value of this.#text)
      for (let size = Math.min(value.length - 1, text.length); size > edge && size >= EDGE_CHARS; size--)
        if (text.startsWith(value.slice(value.length - size))) edge = size;
    return edge === 0 ? this.text(text) : MASK + this.text(text.slice(edge));
  }

  /**
   * A piece of a stream. What may be the beginning of a value is held back, unless nothing comes after it.
   * @returns what may be shown, and of how many bytes of the piece it is all; the rest is given again with what follows
   */
  piece(raw: Uint8Array, final: boolean): { shown: Uint8Array; used: number } {
    if (this.#bytes.length === 0) return { shown: raw, used: raw.length };
    const data = latin(raw);
    const spans = spansOf(data, this.#bytes);
    const open = final ? data.length : openFrom(data, this.#bytes);
    // A value that reaches over the open end waits with it, so that no mask stands for half of one.
    const straddling = spans.find(({ start, end }) => start < open && end > open)?.start ?? open;
    const limit = straddling === 0 && data.length >= STUCK_BYTES ? data.length : straddling;
    const out: string[] = [];
    let shown = 0;
    for (const { start, end } of spans) {
      if (start >= limit) break;
      out.push(data.slice(shown, start), MASK);
      shown = end;
    }
    out.push(data.slice(shown, Math.max(shown, limit)));
    return { shown: bytesOf(out.join("")), used: limit };
  }

  outcome(outcome: Outcome): Outcome {
    if (this.#text.length === 0) return outcome;
    const files = Object.fromEntries(
      Object.entries(outcome.files).map(([path, file]) => [path, { ...file, base64: this.#file(file.base64) }]),
    );
    const diff = outcome.diff === null ? null : this.text(outcome.diff);
    const setupStep = outcome.setupStep === undefined ? {} : { setupStep: this.text(outcome.setupStep) };
    return {
      ...outcome,
      stdout: this.#end(outcome.stdout, outcome.stdoutBytes),
      stderr: this.#end(outcome.stderr, outcome.stderrBytes),
      ...setupStep,
      files,
      diff,
    };
  }

  /** The last bytes of a stream: when some are left out, a cut stands at their start. */
  #end(text: string, bytes: number): string {
    return bytes > OUTCOME_STREAM_BYTES ? this.tail(text) : this.text(text);
  }

  failure(failure: Failure): Failure {
    const logTail = failure.logTail === undefined ? {} : { logTail: this.tail(failure.logTail) };
    const placement =
      failure.placement === undefined
        ? {}
        : { placement: { ...failure.placement, events: failure.placement.events.map((event) => this.text(event)) } };
    return { ...failure, message: this.text(failure.message), ...logTail, ...placement };
  }

  #file(base64: string): string {
    const before = latin(fromBase64(base64));
    const after = this.#bytes.reduce((masked, value) => masked.replaceAll(value, MASK), before);
    return after === before ? base64 : toBase64(bytesOf(after));
  }
}
