/** The engine's framing of two streams on one connection: type, three zero bytes, length, payload. */
const HEADER = 8;

/** Takes frames apart as they arrive; payloads are passed on in pieces, so memory does not grow with a frame. */
export class FrameSplitter {
  readonly #take: (stream: "stdout" | "stderr", bytes: Uint8Array) => void;
  #header: Buffer = Buffer.alloc(0);
  #left = 0;
  #stream: "stdout" | "stderr" = "stdout";

  constructor(take: (stream: "stdout" | "stderr", bytes: Uint8Array) => void) {
    this.#take = take;
  }

  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#left === 0) {
        const wanted = HEADER - this.#header.length;
        this.#header = Buffer.concat([this.#header, rest.subarray(0, wanted)]);
        rest = rest.subarray(wanted);
        if (this.#header.length < HEADER) return;
        this.#stream = this.#header[0] === 2 ? "stderr" : "stdout";
        this.#left = this.#header.readUInt32BE(4);
        this.#header = Buffer.alloc(0);
      }
      const payload = rest.subarray(0, this.#left);
      this.#left -= payload.length;
      rest = rest.subarray(payload.length);
      if (payload.length > 0) this.#take(this.#stream, payload);
    }
  }
}
