import { OUTCOME_STREAM_BYTES, type Outcome } from "../contracts/job.ts";
import type { Failure } from "../contracts/run.ts";
import { base64Forms } from "../contracts/secret-forms.ts";

/** Secrets shorter than this are not masked: they would hide ordinary text. */
export const MASK_MIN_BYTES = 8;
const MASK = Buffer.from("***");
/** A piece of a secret at the cut of a tail is masked from this length on. */
const EDGE_BYTES = 4;

/** What must never be shown: each value of 8 bytes or more, plain and base64, both alphabets. Longest first. */
export function maskPatterns(secrets: Iterable<string>): Buffer[] {
  const patterns = new Map<string, Buffer>();
  for (const secret of secrets) {
    const value = Buffer.from(secret);
    if (value.length < MASK_MIN_BYTES) continue;
    const coded = base64Forms(value).map((form) => Buffer.from(form));
    for (const form of [value, ...coded]) patterns.set(form.toString("latin1"), form);
  }
  return [...patterns.values()].sort((a, b) => b.length - a.length);
}

interface Span {
  start: number;
  end: number;
}

/** All places of all patterns, overlapping ones joined. */
function spansOf(data: Buffer, patterns: readonly Buffer[]): Span[] {
  const found: Span[] = [];
  for (const pattern of patterns) {
    for (let at = data.indexOf(pattern); at >= 0; at = data.indexOf(pattern, at + 1))
      found.push({ start: at, end: at + pattern.length });
  }
  found.sort((a, b) => a.start - b.start);
  const joined: Span[] = [];
  for (const span of found) {
    const last = joined[joined.length - 1];
    if (last && span.start < last.end) last.end = Math.max(last.end, span.end);
    else joined.push({ ...span });
  }
  return joined;
}

/** First position from which the rest of the data could be the start of a pattern. */
function openFrom(data: Buffer, patterns: readonly Buffer[]): number {
  let open = data.length;
  for (const pattern of patterns) {
    const first = pattern[0] ?? 0;
    const from = Math.max(0, data.length - pattern.length + 1);
    for (let at = data.indexOf(first, from); at >= 0 && at < open; at = data.indexOf(first, at + 1)) {
      if (pattern.subarray(0, data.length - at).equals(data.subarray(at))) open = at;
    }
  }
  return open;
}

/** Masks a stream. It holds back only bytes that may be the beginning of a secret, at most the longest one's length. */
export class Masker {
  readonly #patterns: readonly Buffer[];
  #held: Buffer = Buffer.alloc(0);
  /** Leading bytes of `#held` that an emitted mask already stands for. */
  #covered = 0;

  constructor(patterns: readonly Buffer[]) {
    this.#patterns = patterns;
  }

  /** @returns what may be shown now */
  push(chunk: Uint8Array): Buffer {
    if (this.#patterns.length === 0) return Buffer.from(chunk);
    return this.#emit(Buffer.concat([this.#held, chunk]), false);
  }

  /** The stream is over. @returns the rest */
  end(): Buffer {
    return this.#emit(this.#held, true);
  }

  #emit(data: Buffer, final: boolean): Buffer {
    const spans = spansOf(data, this.#patterns);
    const limit = final ? data.length : openFrom(data, this.#patterns);
    const out: Buffer[] = [];
    let shown = this.#covered;
    for (const span of spans) {
      if (span.start >= limit) break;
      // A span that overlaps what a mask already stands for belongs to the same mask.
      if (span.start >= shown) out.push(data.subarray(shown, span.start), MASK);
      shown = Math.max(shown, span.end);
    }
    if (shown < limit) out.push(data.subarray(shown, limit));
    this.#held = data.subarray(limit);
    this.#covered = Math.max(0, shown - limit);
    return Buffer.concat(out);
  }
}

/** Length of the piece of a secret that a cut left at the start of the data. */
function edgeAtStart(data: Buffer, patterns: readonly Buffer[]): number {
  let longest = 0;
  for (const pattern of patterns) {
    for (let size = Math.min(pattern.length - 1, data.length); size > longest && size >= EDGE_BYTES; size--) {
      if (data.subarray(0, size).equals(pattern.subarray(pattern.length - size))) longest = size;
    }
  }
  return longest;
}

/** Masks whole bytes. @param cut which ends are cuts, where a piece of a secret may stand */
export function maskBytes(
  data: Buffer,
  patterns: readonly Buffer[],
  cut: { start?: boolean; end?: boolean } = {},
): Buffer {
  if (patterns.length === 0) return data;
  const start = cut.start ? edgeAtStart(data, patterns) : 0;
  const open = cut.end ? openFrom(data, patterns) : data.length;
  const end = data.length - open >= EDGE_BYTES && open >= start ? open : data.length;
  const masker = new Masker(patterns);
  return Buffer.concat([
    start > 0 ? MASK : Buffer.alloc(0),
    masker.push(data.subarray(start, end)),
    masker.end(),
    end < data.length ? MASK : Buffer.alloc(0),
  ]);
}

function maskText(text: string, patterns: readonly Buffer[], cut: { start?: boolean; end?: boolean } = {}): string {
  return maskBytes(Buffer.from(text), patterns, cut).toString("utf8");
}

/** The Outcome without secrets: streams, files, diff and the words of a failed setup step. */
export function maskOutcome(outcome: Outcome, patterns: readonly Buffer[]): Outcome {
  if (patterns.length === 0) return outcome;
  const files: Outcome["files"] = {};
  for (const [path, file] of Object.entries(outcome.files)) {
    const content = maskBytes(Buffer.from(file.base64, "base64"), patterns, { end: file.truncated === true });
    files[path] = { ...file, base64: content.toString("base64") };
  }
  return {
    ...outcome,
    stdout: maskText(outcome.stdout, patterns, { start: outcome.stdoutBytes > OUTCOME_STREAM_BYTES }),
    stderr: maskText(outcome.stderr, patterns, { start: outcome.stderrBytes > OUTCOME_STREAM_BYTES }),
    diff: outcome.diff === null ? null : maskText(outcome.diff, patterns, { end: true }),
    ...(outcome.setupStep === undefined ? {} : { setupStep: maskText(outcome.setupStep, patterns, { end: true }) }),
    files,
  };
}

/** A failure without secrets in its words and its log tail. */
export function maskFailure(failure: Failure, patterns: readonly Buffer[]): Failure {
  if (patterns.length === 0) return failure;
  return {
    ...failure,
    message: maskText(failure.message, patterns),
    ...(failure.logTail === undefined ? {} : { logTail: maskText(failure.logTail, patterns, { start: true }) }),
  };
}
