import { OUTCOME_STREAM_BYTES, type Outcome } from "../../contracts/job.ts";

/** What a grader looks at, and how much of it there was. */
export type Source =
  | {
      state: "known";
      /** For messages: "stdout" or "file 'out.txt'". */
      what: string;
      text: string;
      bytes: Uint8Array;
      /** Size of the whole, of which `bytes` may be a part. */
      totalBytes: number;
      /** Which part is known, in words; null when all of it is. */
      part: string | null;
    }
  | { state: "absent"; what: string }
  /** It existed or may have, but was cut from the Outcome: nothing can be said of it. */
  | { state: "cut"; what: string };

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A stream as the Outcome kept it: its end. */
export function streamSource(outcome: Outcome, stream: "stdout" | "stderr"): Source {
  const text = outcome[stream];
  const totalBytes = stream === "stdout" ? outcome.stdoutBytes : outcome.stderrBytes;
  const bytes = encoder.encode(text);
  const cut = totalBytes > OUTCOME_STREAM_BYTES || (outcome.truncated ?? []).includes(stream);
  if (cut && bytes.length === 0) return { state: "cut", what: stream };
  const part = cut ? `the last ${bytes.length} of ${totalBytes} bytes` : null;
  return { state: "known", what: stream, text, bytes, totalBytes, part };
}

/**
 * A collected file: its beginning where it was cut.
 * @throws when its content is not base64: the Outcome is damaged
 */
export function fileSource(outcome: Outcome, path: string): Source {
  const what = `file '${path}'`;
  const file = Object.hasOwn(outcome.files, path) ? outcome.files[path] : undefined;
  if (!file) return { state: (outcome.truncated ?? []).includes(path) ? "cut" : "absent", what };
  const bytes = Uint8Array.from(atob(file.base64), (char) => char.charCodeAt(0));
  if (bytes.length < file.bytes && bytes.length === 0) return { state: "cut", what };
  const cut = bytes.length < file.bytes || file.truncated === true;
  const part = cut ? `the first ${bytes.length} of ${file.bytes} bytes` : null;
  return { state: "known", what, text: decoder.decode(bytes), bytes, totalBytes: file.bytes, part };
}

/** The last `maxBytes` bytes of a text in UTF-8, starting at a whole character. */
export function tailOf(text: string, maxBytes: number): string {
  const bytes = encoder.encode(text);
  if (bytes.length <= maxBytes) return text;
  let start = bytes.length - maxBytes;
  while (start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  return decoder.decode(bytes.subarray(start));
}

/** A short quoted excerpt for a message: the beginning of a text, control characters escaped. */
export function quote(text: string, maxChars = 200): string {
  const chars = [...text.slice(0, maxChars * 2)];
  const shown = JSON.stringify(chars.slice(0, maxChars).join(""));
  return chars.length > maxChars || text.length > maxChars * 2 ? `${shown}…` : shown;
}

/** A short quoted excerpt from the end of a text. */
export function quoteEnd(text: string, maxChars = 200): string {
  const chars = [...text.slice(-maxChars * 2)];
  return chars.length > maxChars || text.length > maxChars * 2
    ? `…${JSON.stringify(chars.slice(-maxChars).join(""))}`
    : JSON.stringify(text);
}
