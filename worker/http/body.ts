import { EverdictError } from "../../contracts/errors.ts";

export const DEFAULT_MAX_BODY_BYTES = 1024 * 1024;

const tooLarge = (max: number) =>
  new EverdictError("PAYLOAD_TOO_LARGE", `the body is larger than ${max} bytes, the most this operation takes`, {
    data: { maxBytes: max },
  });

/** The whole body, read no further than `max` bytes. @throws EverdictError PAYLOAD_TOO_LARGE */
export async function readBytes(request: Request, max: number): Promise<Uint8Array> {
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > max) throw tooLarge(max);
  if (!request.body) return new Uint8Array();
  // The server reads no further than what was declared; reading it whole costs a fraction of reading it by chunks.
  if (declared !== null) return new Uint8Array(await request.arrayBuffer());
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of request.body) {
    total += chunk.byteLength;
    if (total > max) throw tooLarge(max);
    chunks.push(chunk);
  }
  if (chunks.length === 1 && chunks[0]) return chunks[0];
  const whole = new Uint8Array(total);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.byteLength;
  }
  return whole;
}

/**
 * The JSON of a body. An empty one is undefined.
 * @throws EverdictError UNSUPPORTED_MEDIA_TYPE, BAD_REQUEST, PAYLOAD_TOO_LARGE
 */
export async function readJson(request: Request, max: number): Promise<{ text: string; value: unknown }> {
  const bytes = await readBytes(request, max);
  if (bytes.length === 0) return { text: "", value: undefined };
  const type = (request.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (type !== "application/json" && !type.endsWith("+json")) {
    throw new EverdictError(
      "UNSUPPORTED_MEDIA_TYPE",
      `send the body as application/json, not '${type.slice(0, 100) || "nothing"}'`,
    );
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw new EverdictError("BAD_REQUEST", "the body is not valid UTF-8");
  }
  try {
    return { text, value: JSON.parse(text) };
  } catch (error) {
    const where =
      error instanceof SyntaxError ? /at position \d+|line \d+ column \d+/.exec(error.message)?.[0] : undefined;
    throw new EverdictError("BAD_REQUEST", `the body is not valid JSON${where ? ` (${where})` : ""}`, {
      issues: [{ path: "(body)", message: "must be one JSON document" }],
    });
  }
}
