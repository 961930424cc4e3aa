import { closeSync, openSync, readSync } from "node:fs";

const CHUNK_BYTES = 256 * 1024;
const POLL_MS = 100;

/** Follows a file that another process appends to. A file rather than a pipe: its writer survives our end. */
export class FileFollower {
  readonly #fd: number;
  readonly #take: (bytes: Uint8Array) => void;
  readonly #timer: NodeJS.Timeout;
  #offset = 0;
  #open = true;

  /** @param path an existing file */
  constructor(path: string, take: (bytes: Uint8Array) => void) {
    this.#fd = openSync(path, "r");
    this.#take = take;
    this.#timer = setInterval(() => this.read(), POLL_MS);
  }

  /** Takes what is there now. */
  read(): void {
    while (this.#open) {
      const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
      const length = readSync(this.#fd, buffer, 0, CHUNK_BYTES, this.#offset);
      if (length === 0) return;
      this.#offset += length;
      this.#take(buffer.subarray(0, length));
    }
  }

  /** Takes the rest and ends. */
  close(): void {
    if (!this.#open) return;
    clearInterval(this.#timer);
    this.read();
    this.#open = false;
    closeSync(this.#fd);
  }
}
