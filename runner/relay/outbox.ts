/** What a socket has taken and not yet sent. */
export interface Sink {
  readonly bufferedBytes: number;
  /** @param sent called when the bytes are on their way */
  send(bytes: Uint8Array, sent: () => void): void;
}

/** Bytes that may wait in the socket before the next data frame is taken. */
const HIGH_WATER_BYTES = 256 * 1024;

/**
 * Gives streams their turn to send data: one frame each, in the order they asked, and only while the socket keeps up. So
 * a bulk stream delays another by a frame of each, and nothing piles up in memory.
 */
export class Outbox {
  #sink: Sink | null = null;
  readonly #waiting: (() => void)[] = [];

  /** The socket to send through from now on; null while there is none. */
  attach(sink: Sink | null): void {
    this.#sink = sink;
    if (sink) this.#serve();
  }

  /** A small frame, at once. */
  control(bytes: Uint8Array): void {
    this.#sink?.send(bytes, () => this.#serve());
  }

  /** One data frame, when it is this stream's turn; dropped when `isOver` says that nobody waits for it. */
  async data(bytes: Uint8Array, isOver: () => boolean): Promise<void> {
    await new Promise<void>((turn) => {
      this.#waiting.push(turn);
      this.#serve();
    });
    if (isOver()) this.#serve();
    else this.control(bytes);
  }

  /** Nobody waits any more: turns are given, so that who waited can see that it is over. */
  release(): void {
    for (const turn of this.#waiting.splice(0)) turn();
  }

  #serve(): void {
    if (this.#sink === null || this.#sink.bufferedBytes > HIGH_WATER_BYTES) return;
    this.#waiting.shift()?.();
  }
}
