import { createServer as createPlain, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import type { TransportRequest } from "../../../worker/backends/transport/transport.ts";
import type { FakeKubernetes } from "./fake-kubernetes.ts";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

export interface ServerOptions {
  fake: FakeKubernetes;
  /** Absent: plain HTTP. */
  tls?: { cert: string; key: string; ca: string };
  /** The fake's own token: who shows a trusted client certificate or a token known to `knows` speaks with it. */
  token: string;
  knows?: (token: string) => boolean;
  /** Sees each request first; true: it has answered it. */
  before?: (incoming: IncomingMessage, outgoing: ServerResponse) => boolean;
}

export interface FakeServer {
  address: string;
  port: number;
  close(): Promise<void>;
}

/** The fake behind a real socket on the loopback, with a private CA, client certificates and bearer tokens. */
export async function serveFakeKubernetes(options: ServerOptions): Promise<FakeServer> {
  const transport = options.fake.transport();
  const serve = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    if (options.before?.(incoming, outgoing)) return;
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const gone = new AbortController();
      outgoing.once("close", () => gone.abort(new Error("the client has gone")));
      const method = METHODS.find((known) => known === incoming.method);
      if (!method) {
        outgoing.writeHead(405).end("Invalid method");
        return;
      }
      const headers = Object.fromEntries(
        Object.entries(incoming.headers).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
      );
      const token = identity(incoming, options);
      if (token === null) delete headers.authorization;
      else headers.authorization = `Bearer ${token}`;
      const request: TransportRequest = {
        method,
        path: incoming.url ?? "/",
        headers,
        ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks).toString() }),
        signal: gone.signal,
      };
      transport.fetch(request).then(
        ({ status, headers: answered, body }) => send(outgoing, status, answered, body),
        () => incoming.socket.destroy(),
      );
    });
  };
  const { tls } = options;
  const server = tls
    ? createServer({ cert: tls.cert, key: tls.key, ca: tls.ca, requestCert: true, rejectUnauthorized: false }, serve)
    : createPlain(serve);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // SAFETY: a server that listens on TCP has an address with a port.
  const { port } = server.address() as AddressInfo;
  return {
    address: `${tls ? "https" : "http"}://127.0.0.1:${port}`,
    port,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

/** The token that the fake knows, for who may speak; what was sent otherwise. */
function identity(incoming: IncomingMessage, options: ServerOptions): string | null {
  const sent = /^Bearer (.+)$/.exec(incoming.headers.authorization ?? "")?.[1] ?? null;
  if (sent !== null) return options.knows?.(sent) ? options.token : sent;
  // SAFETY: requests of a TLS server come over TLS sockets.
  const socket = incoming.socket as TLSSocket;
  return socket.authorized === true ? options.token : null;
}

async function send(
  outgoing: ServerResponse,
  status: number,
  headers: Headers,
  body: ReadableStream<Uint8Array> | null,
): Promise<void> {
  outgoing.writeHead(status, Object.fromEntries(headers));
  outgoing.flushHeaders();
  const reader = body?.getReader();
  while (reader && !outgoing.destroyed) {
    const { done, value } = await reader.read();
    if (done) break;
    if (!outgoing.write(value)) await new Promise((resolve) => outgoing.once("drain", resolve).once("close", resolve));
  }
  outgoing.end();
}
