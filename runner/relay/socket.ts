import type { Agent } from "node:http";
import { HttpProxyAgent, HttpsProxyAgent } from "hpagent";
import { getProxyForUrl } from "proxy-from-env";
import WebSocket from "ws";
import {
  CLOSE,
  decodeFrame,
  MAX_HEAD_BYTES,
  PING,
  PING_MS,
  type RelayHello,
  RelayWelcome,
  SILENCE_MS,
} from "../../contracts/relay-protocol.ts";
import { Backoff, sleep } from "../backoff.ts";
import type { Logger } from "../log.ts";
import { EXIT, FatalError } from "../session.ts";
import type { Outbox } from "./outbox.ts";
import type { Streams } from "./streams.ts";

export interface SocketOptions {
  apiUrl: string;
  token: string;
  hello: RelayHello;
  streams: Streams;
  outbox: Outbox;
  log: Logger;
}

const HANDSHAKE_MS = 10_000;

/** What ended a connection. */
interface End {
  code: number;
  reason: string;
  /** HTTP status, when the upgrade was refused. */
  status: number | null;
  welcomed: boolean;
}

/** The relay's way to the control plane: one WebSocket, made anew whenever it breaks. */
export class RelaySocket {
  readonly #options: SocketOptions;
  readonly #stop = new AbortController();
  #socket: WebSocket | null = null;
  #online = false;

  constructor(options: SocketOptions) {
    this.#options = options;
  }

  get online(): boolean {
    return this.#online;
  }

  /**
   * Stays connected until closed.
   * @throws FatalError when going on makes no sense
   */
  async run(): Promise<void> {
    const { log } = this.#options;
    const backoff = new Backoff(250, 30_000);
    while (!this.#stop.signal.aborted) {
      const end = await this.#connect();
      if (this.#stop.signal.aborted) return;
      const fatal = fatalOf(end);
      if (fatal) throw fatal;
      if (end.welcomed) backoff.reset();
      const waitMs = backoff.next();
      log.warn("not connected to the control plane; trying again", {
        reason: end.status === null ? end.reason || `closed with ${end.code}` : refusalWords(end.status),
        waitMs: Math.round(waitMs),
      });
      await sleep(waitMs, this.#stop.signal);
    }
  }

  close(): void {
    this.#stop.abort();
    this.#socket?.close(1001, "the relay ends");
    this.#options.streams.cut();
  }

  #connect(): Promise<End> {
    const { apiUrl, token, hello, streams, outbox, log } = this.#options;
    const url = `${apiUrl.replace(/\/+$/, "").replace(/^http/, "ws")}/relay/connect`;
    const socket = new WebSocket(url, {
      headers: { authorization: `Bearer ${token}` },
      perMessageDeflate: false,
      handshakeTimeout: HANDSHAKE_MS,
      maxPayload: MAX_HEAD_BYTES + 64,
      followRedirects: false,
      ...agentFor(url),
    });
    this.#socket = socket;
    let heardAt = performance.now();
    let welcomed = false;
    let status: number | null = null;
    let reason = "";
    const beat = setInterval(() => {
      if (performance.now() - heardAt > SILENCE_MS) socket.terminate();
      else if (socket.readyState === WebSocket.OPEN) socket.send(PING);
    }, PING_MS);
    return new Promise((resolve) => {
      socket.on("open", () => socket.send(JSON.stringify(hello)));
      socket.on("unexpected-response", (_request, response) => {
        status = response.statusCode ?? 0;
        // Whoever listens for this event must end the socket: ws leaves it half open otherwise.
        socket.terminate();
      });
      socket.on("error", (error) => {
        reason = error.message;
      });
      socket.on("message", (data: Buffer, isBinary) => {
        heardAt = performance.now();
        if (isBinary) {
          const frame = decodeFrame(data);
          if (frame) streams.take(frame);
          else socket.close(CLOSE.protocol, "a frame of no known form");
          return;
        }
        const welcome = welcomeOf(data.toString());
        if (welcome === null) return;
        welcomed = true;
        this.#online = true;
        outbox.attach({
          get bufferedBytes() {
            return socket.bufferedAmount;
          },
          send: (bytes, sent) => socket.send(bytes, sent),
        });
        const { workspace, label, generation } = welcome;
        log.info("relay connected", { workspace, label, generation });
      });
      socket.on("close", (code, text) => {
        clearInterval(beat);
        this.#online = false;
        this.#socket = null;
        outbox.attach(null);
        streams.cut();
        resolve({ code, reason: text.toString() || reason, status, welcomed });
      });
    });
  }
}

function welcomeOf(text: string): RelayWelcome | null {
  try {
    const parsed = RelayWelcome.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

/** Proxies of the environment (HTTPS_PROXY, NO_PROXY). */
function agentFor(url: string): { agent?: Agent } {
  const proxy = getProxyForUrl(url.replace(/^ws/, "http"));
  if (proxy === "") return {};
  return { agent: url.startsWith("wss:") ? new HttpsProxyAgent({ proxy }) : new HttpProxyAgent({ proxy }) };
}

/** Why an upgrade that is worth another try was refused. */
const refusalWords = (status: number): string =>
  status === 426 ? "HTTP 426: something on the way (a proxy?) removes the WebSocket upgrade" : `HTTP ${status}`;

function fatalOf({ code, status }: End): FatalError | null {
  if (status === 401 || status === 403 || code === CLOSE.revoked) {
    return new FatalError(
      "the token of this relay was revoked or is not known; pair again: create a relay (POST /workspace/relays) and start `everdict relay --pair <token>`",
      EXIT.revoked,
    );
  }
  if (code === CLOSE.upgrade)
    return new FatalError(
      "this relay is too old for the control plane; upgrade it: npm install -g everdict",
      EXIT.upgrade,
    );
  if (code === CLOSE.replaced) {
    return new FatalError(
      "another process connected with this relay's token and took its place; give each machine a token of its own",
      EXIT.replaced,
    );
  }
  return null;
}
