import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import WebSocket from "ws";
import {
  CLOSE,
  decodeFrame,
  encodeFrame,
  encodeJson,
  FRAME,
  type Frame,
  RELAY_PROTOCOL,
  type RelayHello,
} from "../../contracts/relay-protocol.ts";
import { childEnvironment, ROOT } from "../../scripts/environment.ts";
import { ended, until } from "../support/control-plane.ts";
import { RelayLab, relayProcess } from "../support/relay-lab.ts";

/* What an object takes from whom: relays that are written by hand here, to say what the real one never says. */

let lab: RelayLab;
beforeAll(async () => {
  lab = await RelayLab.open();
});
afterAll(() => lab?.close());

const HELLO: RelayHello = {
  type: "hello",
  protocol: RELAY_PROTOCOL,
  instanceId: "by-hand",
  version: "0.0.0",
  hostname: "here",
  contexts: [],
  hosts: [],
  exec: [],
};

class HandRelay {
  readonly socket: WebSocket;
  readonly frames: Frame[] = [];
  closed: { code: number; reason: string } | null = null;

  constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on("message", (data: Buffer, isBinary) => {
      const frame = isBinary ? decodeFrame(data) : null;
      if (frame) this.frames.push(frame);
    });
    socket.on("close", (code, reason) => {
      this.closed = { code, reason: reason.toString() };
    });
  }

  static async connect(token: string, hello: unknown = HELLO): Promise<HandRelay> {
    const socket = new WebSocket(`${lab.url.replace("http", "ws")}/relay/connect`, {
      headers: { authorization: `Bearer ${token}` },
    });
    const relay = new HandRelay(socket);
    await once(socket, "open");
    socket.send(JSON.stringify(hello));
    await Promise.race([once(socket, "message"), once(socket, "close")]);
    return relay;
  }

  opened(): Promise<Frame> {
    return until("a request came", 5_000, async () => this.frames.find(({ type }) => type === FRAME.open));
  }

  answer(stream: number, text: string): void {
    this.socket.send(encodeFrame(FRAME.head, stream, encodeJson({ status: 200, headers: [] })));
    this.socket.send(encodeFrame(FRAME.data, stream, new TextEncoder().encode(text)));
    this.socket.send(encodeFrame(FRAME.end, stream));
  }
}

const get = (id: string, workspace?: string) =>
  lab
    .through(id, { kind: "address", url: "http://10.0.0.1" }, undefined, workspace)
    .fetch({ method: "GET", path: "/", headers: {}, signal: AbortSignal.timeout(10_000) });

/** HTTP status of an upgrade that is refused. */
async function refusal(headers: Record<string, string>): Promise<number> {
  const socket = new WebSocket(`${lab.url.replace("http", "ws")}/relay/connect`, { headers });
  return new Promise((resolve) => {
    socket.on("error", () => undefined);
    socket.on("unexpected-response", (request, response) => {
      request.destroy();
      resolve(response.statusCode ?? 0);
    });
  });
}

test("nobody connects without this relay's own token", async () => {
  const token = await lab.pair("rly-a1", "a");
  const other = await lab.pair("rly-a2", "b");
  const forged = `${token.split(".")[0]}.${other.split(".")[1]}`;
  expect(await refusal({})).toBe(401);
  expect(await refusal({ authorization: `Bearer ${forged}` })).toBe(401);
  expect(await refusal({ authorization: `Bearer rnr_w-acme.${"a".repeat(43)}` })).toBe(401);
  expect(await refusal({ authorization: "Bearer ak_x", "x-everdict-token-hash": "0" })).toBe(401);
  expect(await refusal({ authorization: `Bearer rly_unknown.${"a".repeat(43)}` })).toBe(401);
  await lab.revoke("rly-a1");
  expect(await refusal({ authorization: `Bearer ${token}` })).toBe(401);
});

test("a relay answers for its own workspace only", async () => {
  await HandRelay.connect(await lab.pair("rly-b1", "b", "acme"));
  await expect(get("rly-b1", "rival")).rejects.toMatchObject({
    code: "UPSTREAM_MISCONFIGURED",
    message: expect.stringContaining("not paired in this workspace"),
  });
});

test("an old connection cannot answer for a new one, nor finish what began on itself", async () => {
  const token = await lab.pair("rly-c1", "c");
  const old = await HandRelay.connect(token);
  const first = expect(get("rly-c1")).rejects.toMatchObject({ reason: "cut" });
  const { stream } = await old.opened();
  // It does not see that it is replaced, and talks on.
  old.socket.pause();
  const fresh = await HandRelay.connect(token);
  await first;
  const second = get("rly-c1");
  const opened = await fresh.opened();
  old.answer(stream, "late");
  old.answer(opened.stream, "forged");
  await new Promise((resolve) => setTimeout(resolve, 100));
  fresh.answer(opened.stream, "genuine");
  expect(await new Response((await second).body).text()).toBe("genuine");
  old.socket.resume();
  await until("the old one is told", 5_000, async () => old.closed?.code === CLOSE.replaced);
});

test("a relay that breaks the protocol is cut off: data without credit, a second head, an end before it, rubbish", async () => {
  const token = await lab.pair("rly-d1", "d");
  const chunk = new Uint8Array(32 * 1024);
  // More than the windows and buffers of everybody on the way hold together, since nobody reads.
  const chunks = (64 * 1024 ** 2) / chunk.length;
  const wrongs: ((relay: HandRelay, stream: number) => void)[] = [
    (relay, stream) => {
      relay.socket.send(encodeFrame(FRAME.head, stream, encodeJson({ status: 200, headers: [] })));
      for (let n = 0; n < chunks; n++) relay.socket.send(encodeFrame(FRAME.data, stream, chunk));
    },
    (relay, stream) => {
      const head = encodeFrame(FRAME.head, stream, encodeJson({ status: 200, headers: [] }));
      relay.socket.send(head);
      relay.socket.send(head);
    },
    (relay, stream) => relay.socket.send(encodeFrame(FRAME.end, stream)),
    (relay, stream) => relay.socket.send(encodeFrame(FRAME.head, stream, encodeJson({ status: 99, headers: [] }))),
    (relay, stream) => relay.socket.send(encodeFrame(FRAME.open, stream)),
    (relay) => relay.socket.send(new Uint8Array([99, 0, 0, 0, 1])),
  ];
  for (const wrong of wrongs) {
    const relay = await HandRelay.connect(token);
    const call = get("rly-d1").then(({ body }) =>
      until("it is cut off", 10_000, async () => relay.closed).then(() => new Response(body).text()),
    );
    const outcome = expect(call).rejects.toThrow();
    const { stream } = await relay.opened();
    wrong(relay, stream);
    await until("it is cut off", 5_000, async () => relay.closed?.code === CLOSE.protocol);
    await outcome;
  }
  const odd = await HandRelay.connect(token, { type: "hello" });
  await until("it is cut off", 5_000, async () => odd.closed?.code === CLOSE.protocol);
  const old = await HandRelay.connect(token, { ...HELLO, protocol: 99 });
  await until("it is told", 5_000, async () => old.closed?.code === CLOSE.upgrade);
});

test("a revoked relay's process ends and says so; one whose token is used elsewhere too", async () => {
  const token = await lab.pair("rly-e1", "e");
  const one = await relayProcess(lab.url, token, []);
  await one.up();
  const child = one.child;
  const two = await relayProcess(lab.url, token, []);
  await two.up();
  expect(child && (await ended(child))).toBe(5);
  expect(one.output).toContain("took its place");
  const second = two.child;
  await lab.revoke("rly-e1");
  expect(second && (await ended(second))).toBe(3);
  expect(two.output).toContain("revoked");
  await one.stop();
  await two.stop();
});

test("a token given as an argument leaves the process list before the first request", async () => {
  const token = await lab.pair("rly-f1", "f");
  const relay = await relayProcess(lab.url, "", ["--pair", token]);
  await relay.up();
  const command = readFileSync(`/proc/${relay.pid}/cmdline`, "latin1");
  expect(command).toContain("relay");
  expect(command + readFileSync(`/proc/${relay.pid}/environ`, "latin1")).not.toContain(token);
  await relay.stop();
});

test("a relay whose token is refused ends at once, with the words and the status of a revoked one", async () => {
  const token = await lab.pair("rly-g1", "g");
  const forged = `${token.split(".")[0]}.${"a".repeat(43)}`;
  const relay = await relayProcess(lab.url, forged, []);
  await relay.launch();
  const { child } = relay;
  await until("it ends", 15_000, async () => child?.exitCode !== null);
  expect(child?.exitCode).toBe(3);
  expect(relay.output).toContain("was revoked or is not known");
  await relay.stop();
}, 30_000);

test("an upgrade that is refused otherwise is tried again within seconds; 403 is a refused token", async () => {
  for (const [status, ends] of [
    [403, true],
    [426, false],
    [503, false],
  ] as const) {
    let asked = 0;
    let closed = 0;
    const server = createServer();
    server.on("upgrade", (_request, socket) => {
      asked++;
      // The connection stays open: what ends it must be the relay.
      socket.write(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`);
      socket.on("error", () => undefined).on("close", () => closed++);
      socket.resume().on("end", () => socket.end());
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const relay = await relayProcess(`http://127.0.0.1:${port}`, `rly_x.${"a".repeat(43)}`, []);
    await relay.launch();
    const { child } = relay;
    if (ends) {
      await until("it ends", 15_000, async () => child?.exitCode !== null);
      expect(child?.exitCode).toBe(3);
    } else {
      await until(`it is asked again after ${status}`, 15_000, async () => asked >= 3);
      expect(child?.exitCode).toBeNull();
      expect(relay.output).toContain(`HTTP ${status}`);
    }
    await relay.stop();
    await until("none of its connections is left", 5_000, async () => closed === asked);
    await new Promise((resolve) => server.close(resolve));
  }
}, 60_000);

/** What `everdict relay doctor` says of its control plane. */
async function doctorOf(folder: string): Promise<{ ok: boolean; detail: string; fix: string | null }> {
  const args = [join(ROOT, "dist/everdict.mjs"), "relay", "doctor", "--json", "--state-dir", folder];
  const stdout = await new Promise<string>((resolve) =>
    execFile("node", args, { env: childEnvironment(), timeout: 30_000 }, (_error, out) => resolve(out)),
  );
  const { findings } = JSON.parse(stdout);
  return findings.find(({ what }: { what: string }) => what === `control plane ${lab.url}`);
}

test("doctor tries the token, and leaves the relay that runs with it connected", async () => {
  const token = await lab.pair("rly-h1", "h");
  const relay = await relayProcess(lab.url, token, []);
  await relay.up();
  const { connectedAt } = await lab.state("rly-h1");
  expect(await doctorOf(relay.folder)).toMatchObject({ ok: true, detail: "paired, knows the token" });
  expect(await lab.state("rly-h1")).toMatchObject({ online: true, connectedAt });
  expect(relay.child?.exitCode).toBeNull();
  await lab.revoke("rly-h1");
  expect(await doctorOf(relay.folder)).toMatchObject({
    ok: false,
    detail: "the token was revoked or is not known",
    fix: expect.stringContaining("--pair"),
  });
  await relay.stop();
});
