import { ClusterError } from "./cluster-error.ts";
import type { TransportResponse } from "./transport.ts";

/**
 * The whole body, cut off with an error beyond `maxBytes`: an endless answer ends here.
 * @throws ClusterError UPSTREAM_ERROR when it is larger
 */
export async function readBody(response: TransportResponse, maxBytes: number): Promise<string> {
  const { body } = response;
  if (body === null) return "";
  const decoder = new TextDecoder();
  const reader = body.getReader();
  const parts: string[] = [];
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
    parts.push(decoder.decode(value, { stream: true }));
  }
  parts.push(decoder.decode());
  return parts.join("");
}

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
