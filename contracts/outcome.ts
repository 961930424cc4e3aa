import { COMPACT_OUTCOME_BYTES, OUTCOME_MAX_BYTES, OUTCOME_STREAM_BYTES, Outcome, RESULT_MARK } from "./job.ts";

/*
 * How an Outcome travels. The program cannot build JSON safely in a shell, so it prints records: one header line of
 * words, then the bytes that the header announces. The whole is base64 on one line behind the mark and the nonce:
 *
 *   everdict 1                      version of this format
 *   exit 0 | exit -                 exit status of the agent; - when setup failed before it
 *   setup 3 +6⏎cd foo⏎              exit status and text of the setup step that failed
 *   ms 412, timeout 0, node +6⏎…    duration in ms, watchdog mark, machine
 *   out 1234 +1024⏎…, err 0 +0⏎⏎    bytes written by the agent, bytes kept from the end
 *   grader 1 +4⏎test⏎               exit status and name of a command grader
 *   file 12 +7 +12⏎out.txt⏎…⏎       size, path, content kept from the start
 *   diff 90 +90⏎…                   git diff
 *   cut +7⏎graders⏎                 a part left out
 */

/** Thrown for bytes that are not an Outcome; callers treat the line as forged or damaged. */
export class OutcomeFormatError extends Error {
  override readonly name = "OutcomeFormatError";
}

const utf8 = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
const encoder = new TextEncoder();

class Records {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#at >= this.#bytes.length;
  }

  words(): string[] {
    const end = this.#bytes.indexOf(10, this.#at);
    if (end < 0 || end - this.#at > 200) throw new OutcomeFormatError("a record header has no end");
    const text = utf8.decode(this.#bytes.subarray(this.#at, end));
    this.#at = end + 1;
    return text.split(" ");
  }

  body(length: number): Uint8Array {
    const end = this.#at + length;
    if (this.#bytes[end] !== 10) throw new OutcomeFormatError("a record body is cut");
    const body = this.#bytes.subarray(this.#at, end);
    this.#at = end + 1;
    return body;
  }
}

function count(word: string | undefined): number {
  if (word === undefined || !/^\+?\d{1,15}$/.test(word)) throw new OutcomeFormatError("a record lacks a number");
  return Number(word);
}

function bytesOf(base64: string): Uint8Array {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  } catch {
    throw new OutcomeFormatError("not base64");
  }
}

/** Base64 of bytes of any length. */
export function base64Of(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8_192) binary += String.fromCharCode(...bytes.subarray(at, at + 8_192));
  return btoa(binary);
}

/** A tail may start inside a character: its continuation bytes are dropped, so that no replacement mark is invented. */
function tailText(tail: Uint8Array, total: number): string {
  let start = 0;
  if (total > tail.length) while (start < 3 && ((tail[start] ?? 0) & 0xc0) === 0x80) start++;
  return utf8.decode(tail.subarray(start));
}

interface Draft extends Outcome {
  truncated: string[];
}

function emptyDraft(): Draft {
  return {
    exitCode: null,
    signal: null,
    durationMs: 0,
    timedOut: false,
    stdout: "",
    stderr: "",
    stdoutBytes: 0,
    stderrBytes: 0,
    graderExits: {},
    files: {},
    diff: null,
    node: "",
    truncated: [],
  };
}

function readStream(draft: Draft, records: Records, words: string[], stream: "stdout" | "stderr"): void {
  const total = count(words[1]);
  const kept = records.body(count(words[2]));
  draft[stream] = tailText(kept, total);
  draft[stream === "stdout" ? "stdoutBytes" : "stderrBytes"] = total;
  if (kept.length < Math.min(total, OUTCOME_STREAM_BYTES)) draft.truncated.push(stream);
}

function readFile(draft: Draft, records: Records, words: string[]): void {
  const bytes = count(words[1]);
  const path = utf8.decode(records.body(count(words[2])));
  const kept = records.body(count(words[3]));
  const cut = kept.length < bytes;
  draft.files[path] = { bytes, base64: base64Of(kept), ...(cut ? { truncated: true } : {}) };
  if (cut) draft.truncated.push(path);
}

function readRecord(draft: Draft, records: Records): void {
  const words = records.words();
  switch (words[0]) {
    case "exit":
      if (words[1] !== "-") {
        const code = count(words[1]);
        draft.exitCode = code;
        // A shell reports a death by signal n as 128 + n; beyond 64 there are no signals.
        if (code > 128 && code <= 192) draft.signal = code - 128;
      }
      return;
    case "setup":
      draft.setupExitCode = count(words[1]);
      draft.setupStep = utf8.decode(records.body(count(words[2]))).slice(0, 500);
      return;
    case "ms":
      draft.durationMs = count(words[1]);
      return;
    case "timeout":
      draft.timedOut = words[1] === "1";
      return;
    case "node":
      draft.node = utf8.decode(records.body(count(words[1]))).slice(0, 253);
      return;
    case "out":
      readStream(draft, records, words, "stdout");
      return;
    case "err":
      readStream(draft, records, words, "stderr");
      return;
    case "grader":
      draft.graderExits[utf8.decode(records.body(count(words[2])))] = count(words[1]);
      return;
    case "file":
      readFile(draft, records, words);
      return;
    case "diff": {
      const total = count(words[1]);
      const kept = records.body(count(words[2]));
      draft.diff = utf8.decode(kept);
      if (kept.length < total) draft.truncated.push("diff");
      return;
    }
    case "cut":
      draft.truncated.push(utf8.decode(records.body(count(words[1]))));
      return;
    default:
      throw new OutcomeFormatError("an unknown record");
  }
}

/**
 * Turns the base64 part of a result line, or a whole result line, into an Outcome; invalid UTF-8 is replaced.
 * @throws OutcomeFormatError when it is not one
 */
export function decodeOutcome(line: string): Outcome {
  const words = line.trim().split(" ");
  const payload = words[words.length - 1] ?? "";
  if (payload.length > OUTCOME_MAX_BYTES) throw new OutcomeFormatError("larger than any Outcome");
  const records = new Records(bytesOf(payload));
  const head = records.words();
  if (head[0] !== "everdict" || head[1] !== "1") throw new OutcomeFormatError("not an Outcome");
  const draft = emptyDraft();
  let last = 0;
  for (; !records.done; last++) {
    if (last > 2_000) throw new OutcomeFormatError("too many records");
    readRecord(draft, records);
  }
  const { truncated, ...rest } = draft;
  const cut = [...new Set(truncated)].slice(0, 100);
  const parsed = Outcome.safeParse(cut.length > 0 ? { ...rest, truncated: cut } : rest);
  if (!parsed.success) throw new OutcomeFormatError("its values are out of range");
  return parsed.data;
}

/** An Outcome of a line, or null when the line is damaged or forged. */
export function tryDecodeOutcome(line: string): Outcome | null {
  try {
    return decodeOutcome(line);
  } catch (error) {
    if (error instanceof OutcomeFormatError) return null;
    throw error;
  }
}

/**
 * The Outcome in a file or termination message that holds one result line.
 * @returns null when the mark, the nonce or the content is not right
 */
export function outcomeOfText(text: string, nonce: string): Outcome | null {
  const words = text.trim().split(" ");
  if (words.length !== 3 || words[0] !== RESULT_MARK || words[1] !== nonce) return null;
  return tryDecodeOutcome(words[2] ?? "");
}

/**
 * Finds the result line in a stream and passes everything else on. Lines with another nonce, or with a payload that is
 * not an Outcome, are ordinary output. It holds back at most one result line (256 KiB), whatever the length of a line.
 */
export class ResultScanner {
  readonly #mark: Uint8Array;
  readonly #which: "first" | "last";
  /** Bytes since the last newline that may still become a result line. */
  #held: Uint8Array[] = [];
  #heldBytes = 0;
  /** Whether the current line can no longer be a result line. */
  #plain = false;
  #outcome: Outcome | null = null;

  /** @param which which of several valid lines counts: the first, or the last where the nonce could have been read */
  constructor(nonce: string, which: "first" | "last" = "first") {
    this.#mark = encoder.encode(`${RESULT_MARK} ${nonce} `);
    this.#which = which;
  }

  /** The Outcome found so far. */
  get outcome(): Outcome | null {
    return this.#outcome;
  }

  /** Takes the next bytes of the stream. @returns the bytes that belong to the log */
  push(chunk: Uint8Array): Uint8Array {
    const out: Uint8Array[] = [];
    let at = 0;
    while (at < chunk.length) {
      const newline = chunk.indexOf(10, at);
      const end = newline < 0 ? chunk.length : newline + 1;
      this.#piece(chunk.subarray(at, end), newline >= 0, out);
      at = end;
    }
    return concat(out);
  }

  /** The stream is over. @returns the rest of the log */
  end(): Uint8Array {
    const out: Uint8Array[] = [];
    if (this.#heldBytes > 0) this.#close(out);
    return concat(out);
  }

  #piece(piece: Uint8Array, complete: boolean, out: Uint8Array[]): void {
    if (this.#plain) {
      out.push(piece);
      this.#plain = !complete;
      return;
    }
    this.#held.push(piece);
    this.#heldBytes += piece.length;
    const tooLong = this.#heldBytes > OUTCOME_MAX_BYTES + 2;
    if (tooLong || !this.#mayBeMark()) {
      out.push(...this.#held);
      this.#reset();
      this.#plain = !complete;
    } else if (complete) this.#close(out);
  }

  #mayBeMark(): boolean {
    let at = 0;
    for (const part of this.#held) {
      for (const byte of part) {
        if (at === this.#mark.length) return true;
        if (byte !== this.#mark[at]) return false;
        at++;
      }
    }
    return true;
  }

  #close(out: Uint8Array[]): void {
    const line = concat(this.#held);
    this.#reset();
    const outcome = line.length > this.#mark.length ? tryDecodeOutcome(utf8.decode(line)) : null;
    if (outcome === null) out.push(line);
    else if (this.#outcome === null || this.#which === "last") this.#outcome = outcome;
  }

  #reset(): void {
    this.#held = [];
    this.#heldBytes = 0;
  }
}

/** The Outcome in a whole log, or null. */
export function findOutcome(log: string | Uint8Array, nonce: string, which: "first" | "last"): Outcome | null {
  const scanner = new ResultScanner(nonce, which);
  scanner.push(typeof log === "string" ? encoder.encode(log) : log);
  scanner.end();
  return scanner.outcome;
}

function concat(parts: Uint8Array[]): Uint8Array {
  const [only] = parts;
  if (parts.length === 1 && only) return only;
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Raw bytes that fit a line of `lineBytes` once in base64 behind mark, nonce (32) and newline. */
const rawRoom = (lineBytes: number): number => Math.floor((lineBytes - RESULT_MARK.length - 1 - 32 - 1 - 1) / 4) * 3;
/** Room for records in a whole Outcome line, in bytes before base64. */
export const OUTCOME_RAW_BYTES = rawRoom(OUTCOME_MAX_BYTES);
/** Room for records in a compact Outcome. */
export const COMPACT_RAW_BYTES = rawRoom(COMPACT_OUTCOME_BYTES);
