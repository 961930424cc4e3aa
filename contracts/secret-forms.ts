import { base64Of } from "./outcome.ts";

const NEWLINE = 10;

/**
 * The ways a secret's bytes stand in base64, in both alphabets, wherever they start in what is encoded. Of each alignment:
 * the characters that do not depend on what stands beside it, and the whole to its end where the encoded text ends with
 * the secret, or with the line that holds it (`echo … | base64`), padded and not.
 */
export function base64Forms(secret: Uint8Array): string[] {
  const forms = new Set<string>();
  for (const lead of [0, 1, 2]) {
    const size = lead + secret.length;
    const bytes = new Uint8Array(size + 1);
    bytes.set(secret, lead);
    bytes[size] = NEWLINE;
    // Characters that hold bits of what stands before.
    const from = Math.ceil((lead * 8) / 6);
    const last = base64Of(bytes.subarray(0, size)).slice(from);
    const line = base64Of(bytes).slice(from);
    forms.add(last.slice(0, Math.floor((size * 8) / 6) - from));
    if (size % 3 === 0) continue;
    for (const ending of [last, line]) forms.add(ending).add(ending.replace(/=+$/, ""));
  }
  const url = [...forms].map((form) => form.replaceAll("+", "-").replaceAll("/", "_"));
  return [...new Set([...forms, ...url])];
}
