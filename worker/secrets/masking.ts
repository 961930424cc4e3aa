import type { Outcome } from "../../contracts/job.ts";
import type { Failure } from "../../contracts/run.ts";
import { fromBase64, toBase64 } from "../auth/digest.ts";

/** Shorter values would mask ordinary text; runners keep the same bound. */
const MIN_BYTES = 8;
const MASK = "***";

const latin = (bytes: Uint8Array): string => {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return text;
};

/** The base64 of a value wherever it starts in what is encoded: the characters that do not depend on its neighbours. */
function encodings(bytes: Uint8Array): string[] {
  return [0, 1, 2].map((lead) => {
    const whole = toBase64(new Uint8Array([...new Uint8Array(lead), ...bytes])).replace(/=+$/, "");
    const end = (lead + bytes.length) % 3 === 0 ? whole.length : whole.length - 1;
    return whole.slice(lead === 0 ? 0 : lead + 1, end);
  });
}

/** Replaces secret values, plain and in base64, in what a job wrote. What runs on a cluster is masked here, as runners do. */
export class Masking {
  readonly #text: string[];
  readonly #bytes: string[];

  constructor(values: Iterable<string>) {
    const known = [...new Set(values)]
      .map((value) => ({ value, bytes: new TextEncoder().encode(value) }))
      .filter(({ bytes }) => bytes.length >= MIN_BYTES);
    const coded = known.flatMap(({ bytes }) => encodings(bytes));
    // Longest first: a value may hold another.
    const longest = (a: string, b: string) => b.length - a.length;
    this.#text = [...known.map(({ value }) => value), ...coded].sort(longest);
    this.#bytes = [...known.map(({ bytes }) => latin(bytes)), ...coded].sort(longest);
  }

  text(text: string): string {
    return this.#text.reduce((masked, value) => masked.replaceAll(value, MASK), text);
  }

  outcome(outcome: Outcome): Outcome {
    if (this.#text.length === 0) return outcome;
    const files = Object.fromEntries(
      Object.entries(outcome.files).map(([path, file]) => [path, { ...file, base64: this.#file(file.base64) }]),
    );
    const diff = outcome.diff === null ? null : this.text(outcome.diff);
    return { ...outcome, stdout: this.text(outcome.stdout), stderr: this.text(outcome.stderr), files, diff };
  }

  failure(failure: Failure): Failure {
    const logTail = failure.logTail === undefined ? {} : { logTail: this.text(failure.logTail) };
    const placement =
      failure.placement === undefined
        ? {}
        : { placement: { ...failure.placement, events: failure.placement.events.map((event) => this.text(event)) } };
    return { ...failure, message: this.text(failure.message), ...logTail, ...placement };
  }

  #file(base64: string): string {
    const before = latin(fromBase64(base64));
    const after = this.#bytes.reduce((masked, value) => masked.replaceAll(value, MASK), before);
    return after === before ? base64 : toBase64(Uint8Array.from(after, (char) => char.charCodeAt(0)));
  }
}
