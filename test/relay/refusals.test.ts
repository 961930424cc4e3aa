import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { WebSocketServer } from "ws";
import {
  decodeFrame,
  decodeJson,
  encodeFrame,
  encodeJson,
  FRAME,
  isPlainPath,
  RelayReset,
  type RelayTarget,
} from "../../contracts/relay-protocol.ts";
import { dispatcherFor } from "../../runner/relay/dialler.ts";
import { HostPolicy } from "../../runner/relay/host-policy.ts";
import { type BulkServer, bulkServer } from "../support/bulk-server.ts";
import { until } from "../support/control-plane.ts";
import { kubeconfig } from "../support/kubeconfig.ts";
import { RelayLab, type RelayProcess, relayProcess } from "../support/relay-lab.ts";

/* A relay does nothing that its operator did not name. Whatever is refused here reaches no server. */

let server: BulkServer;
let other: BulkServer;
let lab: RelayLab;
let relay: RelayProcess;

beforeAll(async () => {
  server = await bulkServer();
  other = await bulkServer();
  lab = await RelayLab.open();
  relay = await relayProcess(lab.url, await lab.pair("rly-01", "lab"), [
    "--allow-host",
    `127.0.0.1:${server.port},localhost:${other.port}`,
    "--allow-context",
    "prod",
    "--allow-exec",
    "allowed-login,aws",
  ]);
  const config = join(relay.folder, "kubeconfig");
  await writeFile(
    config,
    JSON.stringify({
      contexts: ["prod", "staging"].map((name) => ({ name, context: { cluster: "c", user: "u" } })),
      clusters: [{ name: "c", cluster: { server: server.address } }],
      users: [{ name: "u", user: { token: "own" } }],
    }),
  );
  Object.assign(relay.env, { KUBECONFIG: config });
  await relay.up();
});
afterEach(() => {
  server.seen.length = 0;
  other.seen.length = 0;
});
afterAll(async () => {
  await relay?.stop();
  await lab?.close();
  await server?.close();
  await other?.close();
});

const ask = (target: RelayTarget, parts: { path?: string; headers?: Record<string, string> } = {}, text?: string) =>
  lab.through("rly-01", target, text).fetch({
    method: "GET",
    path: "/x",
    headers: {},
    signal: AbortSignal.timeout(10_000),
    ...parts,
  });

let digests = 0;
const uploaded = (text: string, hosts = ["127.0.0.1:*"]) =>
  ask(
    { kind: "kubeconfig", digest: `digest-of-a-text-${digests++}`, secret: "K", context: null, hosts, text: null },
    {},
    text,
  );
const refused = (message: string | RegExp) =>
  expect.objectContaining({
    code: "UPSTREAM_MISCONFIGURED",
    message: typeof message === "string" ? expect.stringContaining(message) : expect.stringMatching(message),
  });
const nothingCame = () => expect([...server.seen, ...other.seen]).toEqual([]);

test("what is allowed is done", async () => {
  expect((await ask({ kind: "address", url: server.address })).status).toBe(200);
  expect((await ask({ kind: "context", context: "prod" })).status).toBe(200);
  expect(server.seen.map(({ headers }) => headers.authorization)).toEqual([undefined, "Bearer own"]);
  const text = kubeconfig({ server: server.address, user: { token: "uploaded" } });
  expect((await uploaded(text)).status).toBe(200);
  expect(server.seen.at(-1)?.headers.authorization).toBe("Bearer uploaded");
});

test.each([
  ["another port", () => `http://127.0.0.1:${other.port}`],
  ["another address", () => `http://127.0.0.2:${server.port}`],
  ["an address in another writing", () => `http://2130706433:${server.port + 1}`],
  ["the metadata service", () => "http://169.254.169.254"],
  ["a name", () => `http://example.com:${server.port}`],
])("an unlisted host: %s", async (_, url) => {
  await expect(ask({ kind: "address", url: url() })).rejects.toEqual(refused("--allow-host"));
  await expect(uploaded(kubeconfig({ server: url(), user: {} }), ["*"])).rejects.toEqual(
    refused(/--allow-host|may not be used for/),
  );
  nothingCame();
});

test("an allowed name that leads to this machine itself, whose address is not listed", async () => {
  await expect(ask({ kind: "address", url: `http://localhost:${other.port}` })).rejects.toEqual(
    refused(/localhost resolves to (127\.0\.0\.1|::1), which a name may not lead to/),
  );
  nothingCame();
});

test("a name that leads elsewhere after it was checked: the address that was checked is the one dialled", async () => {
  let asked = 0;
  // Checked once as good; whoever asks again gets an address of another server.
  const policy = new HostPolicy([`cluster.test:${server.port}`, `127.0.0.1:${server.port}`], ((
    _name: string,
    _options: unknown,
    answer: (error: null, found: { address: string; family: number }[]) => void,
  ) => {
    asked++;
    answer(null, [{ address: asked === 1 ? "127.0.0.1" : "127.0.0.3", family: 4 }]);
  }) as never);
  const url = new URL(`http://cluster.test:${server.port}`);
  policy.check(url);
  const first = dispatcherFor(url, {}, policy, null);
  const answer = await first.request({ origin: url.origin, path: "/pinned", method: "GET" });
  expect(answer.statusCode).toBe(200);
  await answer.body.dump();
  expect(asked).toBe(1);
  await first.destroy();
  const second = dispatcherFor(url, {}, policy, null);
  await expect(second.request({ origin: url.origin, path: "/moved", method: "GET" })).rejects.toThrow("127.0.0.3");
  await second.destroy();
  expect(server.seen.map(({ url: path }) => path)).toEqual(["/pinned"]);
});

test("an unlisted context, also when the kubeconfig has it", async () => {
  await expect(ask({ kind: "context", context: "staging" })).rejects.toEqual(refused("--allow-context staging"));
  nothingCame();
});

test.each([
  ["an unlisted one", { command: "other-login" }, "--allow-exec other-login"],
  ["a path that ends like a listed one", { command: "/tmp/allowed-login" }, "--allow-exec /tmp/allowed-login"],
  ["a relative path", { command: "./allowed-login" }, "--allow-exec ./allowed-login"],
  ["a shell", { command: "sh", args: ["-c", "id"] }, "--allow-exec sh"],
  ["a listed tool for another purpose", { command: "aws", args: ["s3", "ls"] }, "only as 'aws eks get-token'"],
  ["one that needs a person", { command: "allowed-login", interactiveMode: "Always" }, "interactiveMode Always"],
  ["an old protocol", { command: "allowed-login", apiVersion: "client.authentication.k8s.io/v1alpha1" }, "v1alpha1"],
  ["a listed one that is not there", { command: "allowed-login" }, "not in its PATH"],
])("an exec plugin of an uploaded kubeconfig: %s", async (_, exec, words) => {
  const full = { apiVersion: "client.authentication.k8s.io/v1", ...exec };
  await expect(uploaded(kubeconfig({ server: server.address, user: { exec: full } }))).rejects.toEqual(refused(words));
  nothingCame();
});

test.each([
  ["certificate-authority", { cluster: { "certificate-authority": "/etc/passwd" } }, "give certificate-authority-data"],
  ["client-certificate", { user: { "client-certificate": "/etc/passwd" } }, "give client-certificate-data"],
  ["client-key", { user: { "client-key": "/root/.ssh/id_rsa" } }, "give client-key-data"],
  ["token-file", { user: { "token-file": "/etc/shadow" } }, "give token"],
  ["tokenFile", { user: { tokenFile: "/etc/shadow" } }, "give token"],
  [
    "auth-provider",
    { user: { "auth-provider": { name: "gcp", config: { "cmd-path": "/bin/sh" } } } },
    "give an exec plugin or a token",
  ],
])("a kubeconfig that names a file or program of the relay's machine: %s", async (field, parts, fix) => {
  const text = kubeconfig({ server: server.address, user: { token: "t" }, ...parts });
  const error = await uploaded(text).catch((thrown: unknown) => thrown);
  expect(error).toEqual(refused(field));
  expect(error).toEqual(refused(fix));
  expect(String(error)).not.toMatch(/passwd|shadow|id_rsa|bin\/sh/);
  nothingCame();
});

test.each([
  ["a proxy that is not allowed", { cluster: { "proxy-url": "http://10.1.2.3:3128" } }, "proxy-url"],
  ["no check of certificates", { cluster: { "insecure-skip-tls-verify": true } }, "--allow-insecure"],
  ["no context", { current: null }, "current-context"],
])("a kubeconfig with %s", async (_, parts, words) => {
  const text = kubeconfig({ server: server.address, user: { token: "t" }, ...parts });
  await expect(uploaded(text)).rejects.toEqual(refused(words));
  nothingCame();
});

test("a kubeconfig that is none, or a bomb of aliases", async () => {
  for (const text of ["", "- 1", "a: [", "\u0000", `a: &a [x]\n${"b: [*a,*a,*a]\n".repeat(1)}c: {clusters: 5}`])
    await expect(uploaded(text)).rejects.toEqual(refused(/kubeconfig/));
  const bomb = ["a: &a [x,x,x,x,x,x,x,x,x]"];
  for (let n = 1; n < 12; n++) bomb.push(`${"b".repeat(n)}: &b${n} [${`*${n === 1 ? "a" : `b${n - 1}`},`.repeat(9)}]`);
  await expect(uploaded(bomb.join("\n"))).rejects.toEqual(refused("not readable YAML"));
});

test("a kubeconfig for a host that its secret may not be used for", async () => {
  const text = kubeconfig({ server: server.address, user: { token: "t" } });
  await expect(uploaded(text, ["k8s.acme.dev"])).rejects.toEqual(refused("add 127.0.0.1"));
  nothingCame();
});

test("a redirect is not followed, and where it leads is not told", async () => {
  const to = encodeURIComponent(`http://127.0.0.1:${other.port}/stolen`);
  const answer = await ask({ kind: "address", url: server.address }, { path: `/redirect?to=${to}` });
  expect(answer.status).toBe(302);
  expect(answer.headers.get("location")).toBeNull();
  expect(other.seen).toEqual([]);
});

const BAD_PATHS = [
  "/../secrets",
  "/a/../../b",
  "/a/%2e%2e/b",
  "/a/%2E./b",
  "/a/..%2fb",
  "/a/..%5cb",
  "/./a",
  "//evil.example/x",
  "http://evil.example/x",
  "evil",
  "",
  "/a b",
  "/a\r\nx-injected: 1",
  "/a%0d%0ax-injected:%201",
  "/a\\b",
  "/a#b",
  "/a%00",
  "/a%252e%252e/b",
];
const BAD_HEADERS: Record<string, string>[] = [
  { host: "evil.example" },
  { "content-length": "0" },
  { "transfer-encoding": "chunked" },
  { connection: "upgrade" },
  { upgrade: "h2c" },
  { te: "trailers" },
  { "proxy-authorization": "x" },
  { "x-forwarded-for": "127.0.0.1" },
  { "x-a": "1\r\nx-b: 2" },
  { "x-a": "1\n\nGET / HTTP/1.1" },
  { "x-a\r\nx-b": "1" },
  { "x a": "1" },
];

test("plain paths pass, with encoded names and queries", () => {
  for (const path of ["/", "/v1/var/nomad%2Fjobs%2Fevd-1", "/api?a=../b&c=%0d", "/a..b/c...", "/%7Ea", "/a/.b"])
    expect(isPlainPath(path), path).toBe(true);
  for (const path of BAD_PATHS) expect(isPlainPath(path), path).toBe(false);
});

test("a request that would end elsewhere or hide another is not carried, by whoever sees it first", async () => {
  for (const path of BAD_PATHS)
    await expect(ask({ kind: "address", url: server.address }, { path }), path).rejects.toEqual(
      refused("no relay carries"),
    );
  for (const headers of BAD_HEADERS)
    await expect(ask({ kind: "address", url: server.address }, { headers }), JSON.stringify(headers)).rejects.toEqual(
      refused("no relay carries"),
    );
  nothingCame();
});

test("the relay refuses the same from a control plane that lets it pass", { timeout: 60_000 }, async () => {
  const plane = new WebSocketServer({ port: 0, host: "127.0.0.1", path: "/relay/connect" });
  await once(plane, "listening");
  // SAFETY: a server that listens on TCP has an address with a port.
  const { port } = plane.address() as AddressInfo;
  const resets = new Map<number, RelayReset>();
  const connected = once(plane, "connection");
  const hand = await relayProcess(`http://127.0.0.1:${port}`, `rly_x.${"a".repeat(43)}`, [
    "--allow-host",
    `127.0.0.1:${server.port}`,
  ]);
  await hand.launch();
  const [socket] = await connected;
  socket.on("message", (data: Buffer, isBinary: boolean) => {
    const frame = isBinary ? decodeFrame(data) : null;
    const reset = frame?.type === FRAME.reset ? decodeJson(frame.payload, RelayReset) : null;
    if (frame && reset) resets.set(frame.stream, reset);
    if (!isBinary && data.toString().includes("hello"))
      socket.send(JSON.stringify({ type: "welcome", workspace: "acme", label: "x", generation: 1 }));
  });
  await until("it has greeted", 10_000, async () => hand.output.includes("relay connected"));
  const good = {
    method: "GET",
    path: "/x",
    headers: {},
    target: { kind: "address", url: server.address },
    deadlineMs: 5_000,
    body: false,
    first: false,
  };
  const wrongs = [
    ...BAD_PATHS.map((path) => ({ ...good, path })),
    ...BAD_HEADERS.map((headers) => ({ ...good, headers })),
    { ...good, method: "CONNECT" },
    { ...good, target: { kind: "address", url: `http://user:pw@127.0.0.1:${server.port}` } },
    { ...good, target: { kind: "address", url: "file:///etc/passwd" } },
    { ...good, target: { kind: "file", path: "/etc/passwd" } },
  ];
  for (const [stream, open] of wrongs.entries()) socket.send(encodeFrame(FRAME.open, stream, encodeJson(open)));
  await until("all are refused", 10_000, async () => resets.size === wrongs.length);
  expect([...resets.values()].every(({ code }) => code === "protocol")).toBe(true);
  nothingCame();
  await hand.stop();
  plane.close();
});

test("a server without TLS behind https: is no matter of trust", async () => {
  const url = server.address.replace("http:", "https:");
  const words = "the cluster's server does not speak TLS (ERR_SSL_WRONG_VERSION_NUMBER)";
  await expect(ask({ kind: "address", url })).rejects.toMatchObject({ message: expect.stringContaining(words) });
});

test("a server that does not answer in HTTP is an error in words", async () => {
  const rubbish: Server = createServer((socket) => socket.end("SSH-2.0-OpenSSH\r\n"));
  await new Promise<void>((resolve) => rubbish.listen(0, "127.0.0.1", resolve));
  // SAFETY: a server that listens on TCP has an address with a port.
  const { port } = rubbish.address() as AddressInfo;
  const extra = await relayProcess(lab.url, await lab.pair("rly-02", "lab"), ["--allow-host", "127.0.0.1"]);
  await extra.up();
  const way = lab.through("rly-02", { kind: "address", url: `http://127.0.0.1:${port}` });
  await expect(
    way.fetch({ method: "GET", path: "/", headers: {}, signal: AbortSignal.timeout(5_000) }),
  ).rejects.toMatchObject({ code: "UPSTREAM_ERROR", reason: "connect" });
  await extra.stop();
  rubbish.close();
});
