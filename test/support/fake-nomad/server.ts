import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TransportRequest } from "../../../worker/backends/transport/transport.ts";
import type { FakeNomad } from "./fake-nomad.ts";

const METHODS = ["GET", "POST", "PUT", "DELETE"] as const;

export interface FakeServer {
  /** For example http://127.0.0.1:40123. */
  address: string;
  close(): Promise<void>;
}

/** The fake behind a real socket on the loopback; its faults become broken connections and silence. */
export async function serveFakeNomad(nomad: FakeNomad): Promise<FakeServer> {
  const transport = nomad.transport();
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.on("end", () => {
      const gone = new AbortController();
      outgoing.once("close", () => gone.abort(new Error("the client has gone")));
      const token = incoming.headers["x-nomad-token"];
      const method = METHODS.find((known) => known === incoming.method);
      if (!method) {
        outgoing.writeHead(405).end("Invalid method");
        return;
      }
      const request: TransportRequest = {
        method,
        path: incoming.url ?? "/",
        headers: typeof token === "string" ? { "x-nomad-token": token } : {},
        ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks).toString() }),
        signal: gone.signal,
      };
      transport.fetch(request).then(
        ({ status, headers, body }) => send(outgoing, status, headers, body),
        () => incoming.socket.destroy(),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // SAFETY: a server that listens on TCP has an address with a port.
  const { port } = server.address() as AddressInfo;
  return {
    address: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

async function send(
  outgoing: ServerResponse,
  status: number,
  headers: Headers,
  body: ReadableStream<Uint8Array> | null,
): Promise<void> {
  outgoing.writeHead(status, Object.fromEntries(headers));
  const reader = body?.getReader();
  while (reader && !outgoing.destroyed) {
    const { done, value } = await reader.read();
    if (done) break;
    if (!outgoing.write(value)) await new Promise((resolve) => outgoing.once("drain", resolve).once("close", resolve));
  }
  outgoing.end();
}
