import { ClusterError } from "./cluster-error.ts";
import type { TransportResponse } from "./transport.ts";

/**
 * The whole body, cut off with an error beyond `maxBytes`: an endless answer ends here.
 * @throws ClusterError UPSTREAM_ERROR when it is larger
 */
export async function readBytes(response: TransportResponse, maxBytes: number): Promise<Uint8Array> {
  const { body } = response;
  if (body === null) return new Uint8Array(0);
  const reader = body.getReader();
  const parts: Uint8Array[] = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    if (bytes > maxBytes) {
      await reader.cancel().catch(() => undefined);
      throw new ClusterError("UPSTREAM_ERROR", `the cluster's answer is larger than ${maxBytes} bytes`, {
        status: response.status,
        reason: "TooLarge",
      });
    }
    parts.push(value);
  }
  return joinBytes(parts);
}

export function joinBytes(parts: readonly Uint8Array[]): Uint8Array {
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

/** The whole body as text. @throws ClusterError as readBytes */
export const readBody = async (response: TransportResponse, maxBytes: number): Promise<string> =>
  new TextDecoder().decode(await readBytes(response, maxBytes));

/**
 * Hands the chunks of a body to `take` until it answers false, the body ends or `maxBytes` were seen.
 * @returns whether the body came to its own end
 */
export async function readChunks(
  response: TransportResponse,
  maxBytes: number,
  take: (chunk: Uint8Array) => boolean,
): Promise<boolean> {
  const { body } = response;
  if (body === null) return true;
  const reader = body.getReader();
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return true;
    bytes += value.length;
    if (!take(value) || bytes >= maxBytes) {
      await reader.cancel().catch(() => undefined);
      return false;
    }
  }
}
