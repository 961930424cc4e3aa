import type { TransportResponse } from "../../../worker/backends/transport/transport.ts";
import type { Answer } from "./model.ts";

export type Fault =
  /** The connection is refused: nothing happened. */
  | { kind: "drop" }
  /** The request took effect and its answer was lost. */
  | { kind: "lost-answer" }
  /** The connection stays open and silent. */
  | { kind: "hang" }
  /** A body without an end. */
  | { kind: "endless" }
  /** Another answer than the server's. */
  | { kind: "answer"; answer: Answer };

/** Trouble between a client and the server, for requests that match. */
export class Faults {
  #planned: { match: RegExp; fault: Fault; times: number }[] = [];

  /** @param match against "METHOD path?query" @param times how often; Infinity until `clear` */
  plan(match: RegExp, fault: Fault, times = 1): void {
    this.#planned.push({ match, fault, times });
  }

  clear(): void {
    this.#planned = [];
  }

  take(line: string): Fault | null {
    const found = this.#planned.find(({ match, times }) => times > 0 && match.test(line));
    if (!found) return null;
    found.times--;
    return found.fault;
  }

  hang(signal: AbortSignal): Promise<TransportResponse> {
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
  }

  endless(): TransportResponse {
    const chunk = new TextEncoder().encode(`"${"x".repeat(65_536)}",`);
    const body = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(chunk) });
    return { status: 200, headers: new Headers({ "content-type": "application/json" }), body };
  }
}
