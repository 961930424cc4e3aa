import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const CHUNK = Buffer.alloc(64 * 1024, "0123456789abcdef0123456789abcde\n");

export interface BulkServer {
  address: string;
  port: number;
  /** Every request line and its headers, as they came. */
  seen: { method: string; url: string; headers: IncomingMessage["headers"]; body: string }[];
  /** Requests that hang and whose client has not gone. */
  hanging(): number;
  close(): Promise<void>;
}

/** Something to ask over HTTP: /small, /bulk?bytes=, /drip?ms=, /hang, /echo, /redirect?to=, /cut, /unauthorized. */
export async function bulkServer(): Promise<BulkServer> {
  const seen: BulkServer["seen"] = [];
  let hanging = 0;
  const server = createServer((incoming, outgoing) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("end", () => {
      const body = Buffer.concat(parts).toString();
      const { method = "", url = "", headers } = incoming;
      seen.push({ method, url, headers, body });
      answer(new URL(url, "http://bulk"), outgoing, body);
    });
  });
  const answer = (url: URL, outgoing: ServerResponse, body: string): void => {
    const { pathname, searchParams } = url;
    if (pathname === "/hang") {
      hanging++;
      outgoing.once("close", () => hanging--);
    } else if (pathname === "/bulk") void bulk(outgoing, Number(searchParams.get("bytes")));
    else if (pathname === "/drip") void drip(outgoing, Number(searchParams.get("ms")));
    else if (pathname === "/echo") outgoing.end(body);
    else if (pathname === "/redirect") outgoing.writeHead(302, { location: searchParams.get("to") ?? "" }).end("moved");
    else if (pathname === "/cut") outgoing.write("half", () => outgoing.destroy());
    else if (pathname === "/unauthorized") outgoing.writeHead(401).end("who?");
    else outgoing.writeHead(200, { "x-part": ["a", "b"], "set-cookie": "c=1" }).end(`small ${pathname}`);
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // SAFETY: a server that listens on TCP has an address with a port.
  const { port } = server.address() as AddressInfo;
  return {
    address: `http://127.0.0.1:${port}`,
    port,
    seen,
    hanging: () => hanging,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

const drained = (outgoing: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const done = (): void => {
      outgoing.off("drain", done).off("close", done);
      resolve();
    };
    outgoing.on("drain", done).on("close", done);
  });

async function bulk(outgoing: ServerResponse, bytes: number): Promise<void> {
  for (let left = bytes; left > 0 && !outgoing.destroyed; left -= CHUNK.length)
    if (!outgoing.write(left < CHUNK.length ? CHUNK.subarray(0, left) : CHUNK)) await drained(outgoing);
  outgoing.end();
}

async function drip(outgoing: ServerResponse, ms: number): Promise<void> {
  for (let n = 0; !outgoing.destroyed; n++) {
    outgoing.write(`line ${n}\n`);
    await new Promise((resolve) => setTimeout(resolve, ms));
  }
}
