import Anser from "anser";

export interface LogChunk {
  epoch: number;
  stream: "stdout" | "stderr";
  offset: number | null;
  text: string;
}

export interface LogLine {
  number: number;
  stream: "stdout" | "stderr";
  /** As it came, without the control sequences. */
  plain: string;
  raw: string;
}

/** Lines kept in the page; the server keeps 8 MiB, a browser need not. */
export const MAX_LINES = 100_000;
const MAX_LINE_CHARS = 10_000;
const ESC = "\u001b";
const BEL = "\u0007";
/** Control sequences (CSI, OSC) and control characters, except tab, line break and carriage return. */
const CONTROL = new RegExp(
  `${ESC}\\[[0-9;?]*[ -\\/]*[@-~]|${ESC}\\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)|[\\p{Cc}--[\\t\\n\\r]]`,
  "gv",
);

export const plainText = (raw: string): string => raw.replaceAll(CONTROL, "");

/** A progress bar rewrites its line after a carriage return: what stands last is what is seen. */
const lastState = (raw: string): string => {
  const trimmed = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
  return trimmed.slice(trimmed.lastIndexOf("\r") + 1);
};

/**
 * Turns chunks into lines as they come. Each stream has its own unfinished line, so that two streams never mix within one;
 * a hole in a stream's offsets is a line of its own.
 */
export class LogBuffer {
  lines: LogLine[] = [];
  epoch = 0;
  /** Lines dropped at the start because there were too many. */
  dropped = 0;
  #open = new Map<string, { line: LogLine; bytes: number }>();
  #next = new Map<string, number>();

  /** Takes chunks in order; a new attempt starts anew. */
  add(chunks: readonly LogChunk[]): void {
    for (const chunk of chunks) {
      if (chunk.epoch < this.epoch) continue;
      if (chunk.epoch > this.epoch) this.#reset(chunk.epoch);
      this.#take(chunk);
    }
    if (this.lines.length > MAX_LINES) {
      const over = this.lines.length - MAX_LINES;
      this.lines = this.lines.slice(over);
      this.dropped += over;
    }
  }

  #reset(epoch: number): void {
    this.epoch = epoch;
    this.lines = [];
    this.dropped = 0;
    this.#open.clear();
    this.#next.clear();
  }

  #push(stream: LogLine["stream"], raw: string): LogLine {
    const shown = lastState(raw).slice(0, MAX_LINE_CHARS);
    const line = { number: this.dropped + this.lines.length + 1, stream, raw: shown, plain: plainText(shown) };
    this.lines.push(line);
    return line;
  }

  #take({ stream, offset, text }: LogChunk): void {
    const expected = this.#next.get(stream);
    // A stream that begins anew repeats what is here.
    if (offset !== null && expected !== undefined && offset < expected) return;
    if (offset !== null) {
      if (expected !== undefined && offset > expected)
        this.#push(stream, `[${offset - expected} bytes of ${stream} are missing here]`);
      else if (expected === undefined && offset > 0) this.#push(stream, `[${offset} bytes before this were dropped]`);
      this.#next.set(stream, offset + new TextEncoder().encode(text).length);
    }
    const parts = text.split("\n");
    const open = this.#open.get(stream);
    for (const [at, part] of parts.entries()) {
      const last = at === parts.length - 1;
      if (at === 0 && open) {
        const raw = lastState(open.line.raw + part).slice(0, MAX_LINE_CHARS);
        const index = open.line.number - this.dropped - 1;
        const grown = { ...open.line, raw, plain: plainText(raw) };
        if (index >= 0) this.lines[index] = grown;
        if (last) this.#open.set(stream, { line: grown, bytes: 0 });
        else this.#open.delete(stream);
        continue;
      }
      if (last && part === "") continue;
      const line = this.#push(stream, part);
      if (last) this.#open.set(stream, { line, bytes: 0 });
    }
  }
}

export interface Piece {
  text: string;
  color: string | null;
  bold: boolean;
  dim: boolean;
  underline: boolean;
}

/** The coloured pieces of a line. Colours are our own tokens, so that they can be read in both themes. */
export function pieces(raw: string): Piece[] {
  if (!raw.includes(ESC)) return [{ text: plainText(raw), color: null, bold: false, dim: false, underline: false }];
  return Anser.ansiToJson(raw, { use_classes: true, remove_empty: true }).map(({ content, fg, decorations }) => ({
    text: plainText(content),
    color: fg ?? null,
    bold: decorations.includes("bold"),
    dim: decorations.includes("dim"),
    underline: decorations.includes("underline"),
  }));
}

const ERROR = /(error|exception|traceback|fatal|panic|failed|failure)\b/i;

/** The first line that speaks of an error, or null. */
export const firstError = (lines: readonly LogLine[]): LogLine | null =>
  lines.find(({ plain }) => ERROR.test(plain)) ?? null;
