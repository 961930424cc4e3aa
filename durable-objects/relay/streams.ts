import type { RelayAnswer, RelayCall } from "../../contracts/relay.ts";
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
  RelayHead,
  type RelayOpen,
  RelayReset,
  WINDOW_BYTES,
} from "../../contracts/relay-protocol.ts";

/** One connection of the relay, as far as streams need it. */
export interface Connection {
  generation: number;
  send(bytes: Uint8Array): void;
  /** The other side broke the protocol: it is cut off. */
  fail(reason: string): void;
}

export interface StreamEvents {
  /** A stream ended without an answer, or in the middle of one. */
  failed(reset: RelayReset): void;
}

const GRANT_BYTES = WINDOW_BYTES / 2;
/** Beyond the relay's own deadline, for its word about it. */
const DEADLINE_SLACK_MS = 2_000;

type Pull = { controller: ReadableByteStreamController; done(): void };

/** One request on its way over one connection. */
class Stream {
  readonly id: number;
  readonly callId: string;
  readonly #connection: Connection;
  readonly #over: (stream: Stream) => void;
  readonly #events: StreamEvents;
  readonly #timer: ReturnType<typeof setTimeout>;
  #upload: Uint8Array | null;
  #uploaded = 0;
  #sendCredit = WINDOW_BYTES;
  /** Bytes the relay may still send. */
  #granted = WINDOW_BYTES;
  /** Bytes handed to the reader and not yet granted anew. */
  #consumed = 0;
  readonly #queue: Uint8Array[] = [];
  #ended = false;
  #reset: RelayReset | null = null;
  #pull: Pull | null = null;
  #isOver = false;
  #answer: ((answer: RelayAnswer) => void) | null = null;

  constructor(
    id: number,
    call: RelayCall,
    connection: Connection,
    first: boolean,
    events: StreamEvents,
    over: (stream: Stream) => void,
    answer: (answer: RelayAnswer) => void,
  ) {
    this.id = id;
    this.callId = call.id;
    this.#connection = connection;
    this.#events = events;
    this.#over = over;
    this.#answer = answer;
    this.#upload = call.body === null ? null : new TextEncoder().encode(call.body);
    this.#timer = setTimeout(
      () => this.cancel({ code: "timeout", message: "no answer from the relay in time", sent: true }),
      call.request.deadlineMs + DEADLINE_SLACK_MS,
    );
    const open: RelayOpen = { ...call.request, body: call.body !== null, first };
    connection.send(encodeFrame(FRAME.open, id, encodeJson(open)));
    this.#sendBody();
  }

  get generation(): number {
    return this.#connection.generation;
  }

  take({ type, payload }: Frame): void {
    if (type === FRAME.data) this.#data(payload);
    else if (type === FRAME.head) this.#head(payload);
    else if (type === FRAME.end) this.#end();
    else if (type === FRAME.credit) {
      this.#sendCredit += decodeCredit(payload);
      this.#sendBody();
    } else if (type === FRAME.reset) {
      this.fail(decodeJson(payload, RelayReset) ?? { code: "protocol", message: "the relay gave up", sent: true });
    } else this.#connection.fail("a relay does not open streams");
  }

  /** Ends the stream on both sides. */
  cancel(reset: RelayReset): void {
    if (this.#isOver) return;
    this.#connection.send(encodeFrame(FRAME.reset, this.id, encodeJson(reset)));
    this.fail(reset);
  }

  /** Ends the stream here: the other side knows, or is gone. */
  fail(reset: RelayReset): void {
    if (this.#isOver) return;
    this.#reset = reset;
    this.#queue.length = 0;
    this.#finish();
    if (reset.code !== "cancelled" && reset.code !== "kubeconfig-wanted") this.#events.failed(reset);
    this.#answer?.({ ok: false, reset, lastSeenAt: null });
    this.#answer = null;
    this.#pump();
  }

  #finish(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#upload = null;
    this.#over(this);
  }

  #sendBody(): void {
    const body = this.#upload;
    if (body === null) return;
    while (this.#sendCredit > 0 && this.#uploaded < body.length) {
      const size = Math.min(FRAME_BYTES, this.#sendCredit, body.length - this.#uploaded);
      this.#connection.send(encodeFrame(FRAME.data, this.id, body.subarray(this.#uploaded, this.#uploaded + size)));
      this.#uploaded += size;
      this.#sendCredit -= size;
    }
    if (this.#uploaded < body.length) return;
    this.#upload = null;
    this.#connection.send(encodeFrame(FRAME.end, this.id));
  }

  #head(payload: Uint8Array): void {
    const head = decodeJson(payload, RelayHead);
    const answer = this.#answer;
    if (!head || !answer) {
      this.#connection.fail("an answer of an unknown shape, or a second one");
      return;
    }
    this.#answer = null;
    const body = new ReadableStream({
      type: "bytes",
      pull: (controller) =>
        new Promise<void>((done) => {
          this.#pull = { controller, done };
          this.#pump();
        }),
      cancel: () => this.cancel({ code: "cancelled", message: "nobody reads the answer any more", sent: true }),
    });
    answer({ ok: true, status: head.status, headers: head.headers, body });
  }

  #data(payload: Uint8Array): void {
    this.#granted -= payload.length;
    if (this.#answer !== null || this.#ended || this.#granted < 0) {
      this.#connection.fail("data without credit, or outside an answer");
      return;
    }
    // The message's buffer is ours alone: nothing is copied.
    if (payload.length > 0) this.#queue.push(payload);
    this.#pump();
  }

  #end(): void {
    if (this.#answer !== null) {
      this.#connection.fail("an end before its answer");
      return;
    }
    this.#ended = true;
    this.#finish();
    this.#pump();
  }

  /** Hands the reader what it waits for, and grants the relay what was read. */
  #pump(): void {
    const pull = this.#pull;
    if (pull === null) return;
    const chunk = this.#queue.shift();
    if (chunk !== undefined) {
      this.#pull = null;
      this.#consumed += chunk.length;
      pull.controller.enqueue(chunk);
      pull.done();
      if (this.#isOver || this.#consumed < GRANT_BYTES) return;
      this.#granted += this.#consumed;
      this.#connection.send(encodeFrame(FRAME.credit, this.id, encodeCredit(this.#consumed)));
      this.#consumed = 0;
      return;
    }
    if (this.#reset) {
      this.#pull = null;
      pull.controller.error(new Error(this.#reset.message));
      pull.done();
    } else if (this.#ended) {
      this.#pull = null;
      pull.controller.close();
      // A reader with a buffer of its own waits for this.
      pull.controller.byobRequest?.respond(0);
      pull.done();
    }
  }
}

/** The object's side of all streams of one relay. */
export class Streams {
  readonly #byId = new Map<number, Stream>();
  readonly #byCall = new Map<string, Stream>();
  readonly #events: StreamEvents;
  /** Numbers of an earlier life of the object must not come again on the same socket. */
  #next: number = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
  /** Generation that heard of this life of the object. */
  #greeted: number | null = null;

  constructor(events: StreamEvents) {
    this.#events = events;
  }

  get size(): number {
    return this.#byId.size;
  }

  /** Sends a request; the answer comes with its head. */
  open(call: RelayCall, connection: Connection): Promise<RelayAnswer> {
    const refuse = (code: RelayReset["code"], message: string): Promise<RelayAnswer> =>
      Promise.resolve({ ok: false, reset: { code, message, sent: false }, lastSeenAt: null });
    if (this.#byId.size >= MAX_STREAMS) return refuse("busy", `the relay carries ${MAX_STREAMS} requests already`);
    if (call.body !== null && call.body.length > MAX_REQUEST_BYTES)
      return refuse("refused", `a request through a relay is at most ${MAX_REQUEST_BYTES} bytes`);
    return new Promise((resolve) => {
      const id = this.#nextId();
      const first = this.#greeted !== connection.generation;
      this.#greeted = connection.generation;
      const over = (stream: Stream): void => {
        this.#byId.delete(stream.id);
        if (this.#byCall.get(stream.callId) === stream) this.#byCall.delete(stream.callId);
      };
      const stream = new Stream(id, call, connection, first, this.#events, over, resolve);
      this.#byId.set(id, stream);
      this.#byCall.set(call.id, stream);
    });
  }

  /** A frame that came over a connection; one for a stream that has ended is late, not wrong. */
  take(frame: Frame, connection: Connection): void {
    const stream = this.#byId.get(frame.stream);
    // An old socket cannot answer for a new one.
    if (stream?.generation === connection.generation) stream.take(frame);
  }

  cancel(callId: string): void {
    this.#byCall.get(callId)?.cancel({ code: "cancelled", message: "cancelled by the control plane", sent: true });
  }

  /** Every stream of a generation ends: its connection broke. */
  cut(generation: number, message: string): void {
    for (const stream of [...this.#byId.values()])
      if (stream.generation === generation) stream.fail({ code: "cut", message, sent: true });
  }

  #nextId(): number {
    do this.#next = (this.#next + 1) >>> 0;
    while (this.#byId.has(this.#next));
    return this.#next;
  }
}
