import type { Readable } from "node:stream";
import {
  decodeCredit,
  decodeJson,
  encodeCredit,
  encodeFrame,
  encodeJson,
  FRAME,
  FRAME_BYTES,
  type Frame,
  MAX_REQUEST_BYTES,
  MAX_STREAMS,
  type RelayHead,
  RelayOpen,
  type RelayReset,
  WINDOW_BYTES,
} from "../../contracts/relay-protocol.ts";
import type { Outbox } from "./outbox.ts";
import { Refusal } from "./refusal.ts";

/** The answer of a cluster. */
export interface ClusterAnswer {
  head: RelayHead;
  body: Readable;
}

/** Carries one request to a cluster. @throws Refusal, or whatever the network throws */
export type Carry = (open: RelayOpen, body: Buffer | null, signal: AbortSignal) => Promise<ClusterAnswer>;

export interface StreamsOptions {
  outbox: Outbox;
  carry: Carry;
  /** A request came to nothing; for the log. */
  failed(open: RelayOpen | null, reset: RelayReset): void;
}

/** Bytes of request bodies that are held at once over all streams. */
const BODIES_BYTES = 64 * 1024 * 1024;
const GRANT_BYTES = WINDOW_BYTES / 2;

class Stream {
  readonly id: number;
  readonly open: RelayOpen;
  readonly abort = new AbortController();
  readonly parts: Buffer[] = [];
  received = 0;
  /** Bytes the object may still send. */
  granted = WINDOW_BYTES;
  #credit = WINDOW_BYTES;
  #creditCame: (() => void) | null = null;
  /** The request has gone out, so that the cluster may have acted on it. */
  sent = false;
  over = false;
  timer: ReturnType<typeof setTimeout> | undefined;

  constructor(id: number, open: RelayOpen) {
    this.id = id;
    this.open = open;
  }

  addCredit(bytes: number): void {
    this.#credit += bytes;
    this.#creditCame?.();
    this.#creditCame = null;
  }

  /** Waits until something may be sent. @returns how much, at most `wanted`; 0 when the stream is over */
  async takeCredit(wanted: number): Promise<number> {
    while (this.#credit === 0 && !this.over) {
      await new Promise<void>((resolve) => {
        this.#creditCame = resolve;
      });
    }
    if (this.over) return 0;
    const taken = Math.min(wanted, this.#credit);
    this.#credit -= taken;
    return taken;
  }
}

/** The relay's side of all streams. */
export class Streams {
  readonly #options: StreamsOptions;
  readonly #streams = new Map<number, Stream>();
  #held = 0;

  constructor(options: StreamsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#streams.size;
  }

  take({ type, stream: id, payload }: Frame): void {
    if (type === FRAME.open) {
      this.#open(id, payload);
      return;
    }
    // A word about a stream that has ended is late, not wrong.
    const stream = this.#streams.get(id);
    if (!stream) return;
    if (type === FRAME.data) this.#data(stream, payload);
    else if (type === FRAME.end) this.#begin(stream);
    else if (type === FRAME.credit) stream.addCredit(decodeCredit(payload));
    else if (type === FRAME.reset) this.#finish(stream);
    else this.#reset(stream, { code: "protocol", message: "the object does not answer requests", sent: stream.sent });
  }

  /** The connection is gone: everything that was on its way ends. */
  cut(): void {
    for (const stream of [...this.#streams.values()]) this.#finish(stream);
    this.#options.outbox.release();
  }

  #open(id: number, payload: Uint8Array): void {
    const open = decodeJson(payload, RelayOpen);
    if (open?.first) this.cut();
    const refuse = (code: RelayReset["code"], message: string): void => {
      const reset: RelayReset = { code, message, sent: false };
      this.#options.outbox.control(encodeFrame(FRAME.reset, id, encodeJson(reset)));
      this.#options.failed(open, reset);
    };
    if (open === null || this.#streams.has(id)) {
      refuse("protocol", "a request of an unknown shape; is this relay too old?");
      return;
    }
    if (this.#streams.size >= MAX_STREAMS) {
      refuse("busy", `this relay carries ${MAX_STREAMS} requests already`);
      return;
    }
    const stream = new Stream(id, open);
    stream.timer = setTimeout(
      () =>
        this.#reset(stream, {
          code: "timeout",
          message: `no answer from the cluster within ${open.deadlineMs / 1_000} s`,
          sent: stream.sent,
        }),
      open.deadlineMs,
    );
    this.#streams.set(id, stream);
    if (!open.body) this.#begin(stream);
  }

  #data(stream: Stream, payload: Uint8Array): void {
    stream.granted -= payload.length;
    stream.received += payload.length;
    this.#held += payload.length;
    if (stream.sent || stream.granted < 0 || stream.received > MAX_REQUEST_BYTES) {
      this.#reset(stream, { code: "protocol", message: "a request's body that was not granted", sent: stream.sent });
      return;
    }
    stream.parts.push(Buffer.from(payload));
    this.#grant(stream);
  }

  #grant(stream: Stream): void {
    const due = WINDOW_BYTES - stream.granted;
    if (stream.sent || due < GRANT_BYTES || this.#held > BODIES_BYTES) return;
    stream.granted += due;
    this.#options.outbox.control(encodeFrame(FRAME.credit, stream.id, encodeCredit(due)));
  }

  #begin(stream: Stream): void {
    if (stream.sent) return;
    const body = stream.open.body ? Buffer.concat(stream.parts) : null;
    stream.parts.length = 0;
    stream.sent = true;
    this.#exchange(stream, body).catch((error: unknown) => this.#reset(stream, resetOf(error)));
  }

  async #exchange(stream: Stream, body: Buffer | null): Promise<void> {
    const { outbox, carry } = this.#options;
    const answer = await carry(stream.open, body, stream.abort.signal);
    if (stream.over) {
      answer.body.destroy();
      return;
    }
    // Whoever ends the stream ends the body, and its reading here with it.
    stream.abort.signal.addEventListener("abort", () => answer.body.destroy(), { once: true });
    outbox.control(encodeFrame(FRAME.head, stream.id, encodeJson(answer.head)));
    for await (const chunk of answer.body) {
      const bytes: Buffer = chunk;
      for (let at = 0; at < bytes.length; ) {
        const size = await stream.takeCredit(Math.min(FRAME_BYTES, bytes.length - at));
        if (size === 0) return;
        await outbox.data(encodeFrame(FRAME.data, stream.id, bytes.subarray(at, at + size)), () => stream.over);
        if (stream.over) return;
        at += size;
      }
    }
    if (stream.over) return;
    outbox.control(encodeFrame(FRAME.end, stream.id));
    this.#finish(stream);
  }

  #reset(stream: Stream, reset: RelayReset): void {
    if (stream.over) return;
    this.#options.outbox.control(encodeFrame(FRAME.reset, stream.id, encodeJson(reset)));
    this.#finish(stream);
    this.#options.failed(stream.open, reset);
  }

  #finish(stream: Stream): void {
    if (stream.over) return;
    stream.over = true;
    clearTimeout(stream.timer);
    this.#streams.delete(stream.id);
    this.#held -= stream.received;
    stream.abort.abort();
    stream.addCredit(0);
    // There may be room for bodies again that had to wait.
    for (const other of this.#streams.values()) this.#grant(other);
  }
}

/** What the object hears of an error: known words only, as others may hold what must not leave. */
function resetOf(error: unknown): RelayReset {
  const refusal = refusalIn(error);
  if (refusal) {
    // A connection that broke may have carried the request before.
    return { code: refusal.code, message: refusal.message.slice(0, 1_000), sent: refusal.code === "connect" };
  }
  return { code: "connect", message: "the connection to the cluster broke", sent: true };
}

/** A refusal may come up wrapped by who called the dialler. */
function refusalIn(error: unknown): Refusal | null {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof Refusal) return at;
  return null;
}
