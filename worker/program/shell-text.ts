import { base64Of } from "../../contracts/outcome.ts";

const encoder = new TextEncoder();

/** Base64 of a text's UTF-8 bytes. */
export function base64Text(text: string): string {
  return base64Of(encoder.encode(text));
}

/** Length of a text in UTF-8 bytes. */
export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** A single-quoted shell word with exactly this text. Only for files that are themselves delivered as base64. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Control characters that some shells treat as marks of their own parser, and NUL, which no word can hold. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

/** A command that writes exactly this text to `path` (a shell word); without a process unless the text needs one. */
export function writeFile(path: string, text: string): string {
  return UNSAFE.test(text)
    ? `printf %s '${base64Text(text)}' | base64 -d >${path}`
    : `printf %s ${quote(text)} >${path}`;
}
