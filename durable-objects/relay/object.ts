import { DurableObject } from "cloudflare:workers";
import * as z from "zod";
import {
  type RelayAnswer,
  type RelayCall,
  type RelayRecord,
  type RelayRpc,
  type RelayState,
  TOKEN_HASH_HEADER,
} from "../../contracts/relay.ts";
import {
  CLOSE,
  decodeFrame,
  PING,
  PONG,
  RELAY_PROTOCOL,
  RelayHello,
  type RelayReset,
  type RelayWelcome,
  SILENCE_MS,
} from "../../contracts/relay-protocol.ts";
import type { SchedulerRpc } from "../../contracts/rpc.ts";
import { Rate } from "./rate.ts";
import { RelayStore } from "./store.ts";
import { type Connection, Streams } from "./streams.ts";

/** What of a connection survives the object's sleep; what it greeted with is in the store, as an attachment is small. */
const Attachment = z.object({ generation: z.number(), connectedAt: z.number(), greeted: z.boolean() });
type Attachment = z.infer<typeof Attachment>;

const HELLO_CHARS = 64_000;
/** Errors are written so often at most, the newest each time: a broken cluster must not cost a write a request. */
const ERROR_WRITE_MS = 10_000;

const iso = (ms: number): string => new Date(ms).toISOString();

/** Bindings of a relay's object. */
export interface RelayEnv {
  SCHEDULER: { getByName(name: string): Pick<SchedulerRpc, "relayBack"> };
}

/** One relay: its socket, which sleeps with the object, and the requests that are on their way over it. */
export class Relay extends DurableObject<RelayEnv> implements RelayRpc {
  readonly #store: RelayStore;
  readonly #streams: Streams;
  readonly #rate = new Rate();
  readonly #connections = new WeakMap<WebSocket, Connection>();
  #lastError: RelayState["lastError"];
  #isErrorWritten = true;
  #errorWrittenAt = 0;
  /** Set while an error waits to be written; the object stays in memory so long. */
  #errorTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(ctx: DurableObjectState, env: RelayEnv) {
    super(ctx, env);
    this.#store = new RelayStore(ctx.storage.kv);
    this.#lastError = this.#store.lastError;
    this.#streams = new Streams({ failed: (reset) => this.#noteError(reset) });
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
  }

  async pair(relay: RelayRecord): Promise<void> {
    this.#store.pair(relay);
  }

  async revoke(): Promise<void> {
    for (const socket of this.ctx.getWebSockets()) this.#drop(socket, CLOSE.revoked, "the relay was revoked");
    this.#store.forget();
    await this.ctx.storage.deleteAll();
  }

  async state(awaitedBy?: string): Promise<RelayState> {
    const now = Date.now();
    const live = this.#live(now);
    if (live === null && awaitedBy !== undefined) this.#store.noteAwaited(awaitedBy);
    const known = this.#store.hello;
    // What an absent relay allows is not known.
    const hello = live === null ? null : known;
    return {
      online: live !== null,
      lastSeenAt: this.#lastSeen(now),
      connectedAt: live ? iso(live.attachment.connectedAt) : null,
      version: known?.version ?? null,
      hostname: known?.hostname ?? null,
      contexts: hello?.contexts ?? [],
      hosts: hello?.hosts ?? [],
      exec: hello?.exec ?? [],
      requestsPerSec: this.#rate.perSecond(now),
      inFlight: this.#streams.size,
      lastError: this.#lastError,
    };
  }

  async call(call: RelayCall): Promise<RelayAnswer> {
    const now = Date.now();
    const { row } = this.#store;
    const refused = (code: RelayReset["code"], message: string): RelayAnswer => ({
      ok: false,
      reset: { code, message, sent: false },
      lastSeenAt: this.#lastSeen(now),
    });
    if (row === null || row.workspace !== call.workspace)
      return refused("refused", "the relay is not paired in this workspace");
    const live = this.#live(now);
    if (live === null) return refused("offline", "the relay is not connected");
    this.#rate.note(now);
    return this.#streams.open(call, this.#connectionOf(live.socket, live.attachment.generation));
  }

  async cancel(callId: string): Promise<void> {
    this.#streams.cancel(callId);
  }

  /** The relay's own connection; the Worker has read the token's hash, the object knows whether it is the one. */
  override async fetch(request: Request): Promise<Response> {
    const { row } = this.#store;
    if (row === null || request.headers.get(TOKEN_HASH_HEADER) !== row.tokenHash)
      return new Response("the relay token is not known or was revoked", { status: 401 });
    if (request.headers.get("upgrade") === null) return new Response(null, { status: 426 });
    const { 0: client, 1: server } = new WebSocketPair();
    const generation = this.#store.nextGeneration(row);
    for (const socket of this.ctx.getWebSockets())
      this.#drop(socket, CLOSE.replaced, "another connection took the relay's place");
    this.ctx.acceptWebSocket(server);
    server.serializeAttachment({ generation, connectedAt: Date.now(), greeted: false } satisfies Attachment);
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const attachment = attachmentOf(socket);
    if (attachment === null) return;
    if (typeof message === "string") {
      this.#greet(socket, attachment, message);
      return;
    }
    const connection = this.#connectionOf(socket, attachment.generation);
    const frame = decodeFrame(new Uint8Array(message));
    if (frame === null || !attachment.greeted) connection.fail("a message of no known form");
    else this.#streams.take(frame, connection);
  }

  override async webSocketClose(socket: WebSocket, code: number, reason: string): Promise<void> {
    this.#gone(socket, Date.now());
    // 1005 and 1006 are for what was never sent; the runtime refuses to send them.
    socket.close(code === 1005 || code === 1006 ? 1000 : code, reason);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    this.#gone(socket, Date.now());
  }

  #greet(socket: WebSocket, attachment: Attachment, message: string): void {
    const { row } = this.#store;
    const hello = helloOf(message);
    if (row === null) return;
    if (hello === null) {
      this.#drop(socket, CLOSE.protocol, "the first message must be a greeting of protocol 1");
      return;
    }
    if (hello.protocol !== RELAY_PROTOCOL) {
      this.#drop(socket, CLOSE.upgrade, `the control plane speaks relay protocol ${RELAY_PROTOCOL}`);
      return;
    }
    socket.serializeAttachment({ ...attachment, greeted: true } satisfies Attachment);
    this.#store.greeted(hello, Date.now());
    const { workspace, label } = row;
    const { generation } = attachment;
    socket.send(JSON.stringify({ type: "welcome", workspace, label, generation } satisfies RelayWelcome));
    this.#tellWaiting();
  }

  // A lost word costs time only: a Scheduler tries by itself.
  #tellWaiting(): void {
    const { awaitedBy } = this.#store;
    if (awaitedBy.length === 0) return;
    for (const object of awaitedBy)
      this.env.SCHEDULER.getByName(object)
        .relayBack()
        .catch(() => undefined);
    this.#store.forgetAwaited();
  }

  #connectionOf(socket: WebSocket, generation: number): Connection {
    const known = this.#connections.get(socket);
    if (known) return known;
    const connection: Connection = {
      generation,
      send: (bytes) => {
        try {
          socket.send(bytes);
        } catch {
          // It is closing: its end cuts what is on the way.
        }
      },
      fail: (reason) => this.#drop(socket, CLOSE.protocol, reason),
    };
    this.#connections.set(socket, connection);
    return connection;
  }

  /** The connection that answers, if there is one that was heard of lately. */
  #live(now: number): { socket: WebSocket; attachment: Attachment } | null {
    for (const socket of this.ctx.getWebSockets()) {
      const attachment = attachmentOf(socket);
      if (!attachment?.greeted || attachment.generation !== this.#store.row?.generation) continue;
      if (now - this.#heardOf(socket, attachment) < SILENCE_MS) return { socket, attachment };
      this.#drop(socket, CLOSE.protocol, "silent for too long");
    }
    return null;
  }

  #heardOf(socket: WebSocket, attachment: Attachment): number {
    return Math.max(attachment.connectedAt, this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0);
  }

  #lastSeen(now: number): string | null {
    const times = this.ctx.getWebSockets().flatMap((socket) => {
      const attachment = attachmentOf(socket);
      return attachment?.greeted ? [this.#heardOf(socket, attachment)] : [];
    });
    const last = Math.max(this.#store.row?.lastSeenAt ?? 0, ...times);
    return last === 0 ? null : iso(Math.min(last, now));
  }

  #drop(socket: WebSocket, code: number, reason: string): void {
    const attachment = attachmentOf(socket);
    if (attachment) this.#gone(socket, this.#heardOf(socket, attachment));
    try {
      socket.close(code, reason);
    } catch {
      // It was closed already.
    }
  }

  /** What was on its way over a connection ends here, once; a later word of it is not heard. */
  #gone(socket: WebSocket, seenAt: number): void {
    const attachment = attachmentOf(socket);
    if (attachment === null) return;
    this.#streams.cut(attachment.generation, "the relay's connection broke while the request was on its way");
    if (attachment.greeted) this.#store.seen(seenAt);
    this.#storeError();
  }

  #noteError({ code, message }: RelayReset): void {
    this.#lastError = { at: iso(Date.now()), code, message };
    this.#isErrorWritten = false;
    const waitMs = this.#errorWrittenAt + ERROR_WRITE_MS - Date.now();
    if (waitMs <= 0) this.#storeError();
    else this.#errorTimer ??= setTimeout(() => this.#storeError(), waitMs);
  }

  #storeError(): void {
    if (this.#errorTimer !== null) clearTimeout(this.#errorTimer);
    this.#errorTimer = null;
    // One that was revoked keeps nothing.
    if (this.#isErrorWritten || this.#lastError === null || this.#store.row === null) return;
    this.#isErrorWritten = true;
    this.#errorWrittenAt = Date.now();
    this.#store.noteError(this.#lastError);
  }
}

function attachmentOf(socket: WebSocket): Attachment | null {
  const parsed = Attachment.safeParse(socket.deserializeAttachment());
  return parsed.success ? parsed.data : null;
}

function helloOf(message: string): RelayHello | null {
  if (message.length > HELLO_CHARS) return null;
  try {
    const parsed = RelayHello.safeParse(JSON.parse(message));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}
