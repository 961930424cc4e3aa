import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { RelayOpen, RelayTarget } from "../../contracts/relay-protocol.ts";
import { type Allowed, Targets } from "../../runner/relay/targets.ts";
import { type Authority, certificateAuthority } from "../support/certificates.ts";
import { FakeKubernetes } from "../support/fake-kubernetes/fake-kubernetes.ts";
import { type FakeServer, serveFakeKubernetes } from "../support/fake-kubernetes/server.ts";
import { kubeconfig, pemData } from "../support/kubeconfig.ts";
import { execPlugin } from "./scorecards.ts";

/* Every way in which a kubeconfig says who one is and whom one trusts, against a real TLS server. */

const TOKEN = "a-token";
let folder: string;
let authority: Authority;
let fake: FakeKubernetes;
/** Certificate for 127.0.0.1, and one for a name only. */
let server: FakeServer;
let named: FakeServer;
let seen: IncomingMessage["headers"][] = [];
let knows = (_token: string): boolean => false;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "everdict-kubeconfig-"));
  authority = await certificateAuthority();
  fake = new FakeKubernetes({ namespace: "evals", token: TOKEN });
  const serve = async (issued: { cert: string; key: string }) =>
    serveFakeKubernetes({
      fake,
      token: TOKEN,
      tls: { ...issued, ca: authority.ca },
      knows: (token) => knows(token),
      before: ({ headers }) => {
        seen.push(headers);
        return false;
      },
    });
  server = await serve(await authority.server());
  named = await serve(await authority.named("cluster.internal"));
});
afterAll(async () => {
  await server.close();
  await named.close();
  fake.dispose();
  await rm(folder, { recursive: true, force: true });
});

const allowed = (parts: Partial<Allowed> = {}): Allowed => ({
  contexts: [],
  hosts: ["127.0.0.1"],
  exec: [],
  insecure: false,
  caFiles: [],
  ...parts,
});
const targetsOf = (parts: Partial<Allowed> = {}, own?: string, now?: () => number) =>
  new Targets({
    allowed: allowed(parts),
    kubeconfig: own,
    tempDir: join(folder, "temp"),
    ...(now === undefined ? {} : { now }),
  });

let digests = 0;
async function ask(target: RelayTarget, targets: Targets): Promise<number> {
  const open: RelayOpen = {
    method: "GET",
    path: "/version",
    headers: {},
    target,
    deadlineMs: 10_000,
    body: false,
    first: false,
  };
  const { head, body } = await targets.carry(open, null, AbortSignal.timeout(10_000));
  body.resume();
  await once(body, "close");
  return head.status;
}
const uploaded = (text: string, digest = `digest-of-a-text-${digests++}`): RelayTarget => ({
  kind: "kubeconfig",
  digest,
  secret: "K",
  context: null,
  hosts: ["127.0.0.1"],
  text,
});
const given = (
  user: Record<string, unknown>,
  cluster: Record<string, unknown> = {},
  at = server,
  ca: string | null = authority.ca,
) => uploaded(kubeconfig({ server: at.address, ca, user, cluster }));

test("a private authority is trusted by its data, and by nothing else", async () => {
  expect(await ask(given({ token: TOKEN }), targetsOf())).toBe(200);
  await expect(ask(given({ token: TOKEN }, {}, server, null), targetsOf())).rejects.toMatchObject({ code: "tls" });
  const other = await certificateAuthority("other-ca");
  await expect(ask(given({ token: TOKEN }, {}, server, other.ca), targetsOf())).rejects.toMatchObject({ code: "tls" });
  const garbage = { "certificate-authority-data": "bm8gUEVN" };
  await expect(ask(given({ token: TOKEN }, garbage, server, null), targetsOf())).rejects.toThrow("not base64 of PEM");
});

test("a token, a password, a person acted for, a client certificate", async () => {
  const { cert, key } = await authority.client("everdict");
  expect(await ask(given({ token: `${TOKEN}-wrong` }), targetsOf())).toBe(401);
  expect(
    await ask(given({ "client-certificate-data": pemData(cert), "client-key-data": pemData(key) }), targetsOf()),
  ).toBe(200);
  expect(await ask(given({}), targetsOf())).toBe(401);
  seen = [];
  await ask(given({ username: "u", password: "p" }), targetsOf());
  await ask(given({ token: TOKEN, as: "somebody" }), targetsOf());
  expect(seen.map((headers) => [headers.authorization, headers["impersonate-user"]])).toEqual([
    [`Basic ${Buffer.from("u:p").toString("base64")}`, undefined],
    [`Bearer ${TOKEN}`, "somebody"],
  ]);
});

test("tls-server-name is the name that the certificate must have", async () => {
  await expect(ask(given({ token: TOKEN }, {}, named), targetsOf())).rejects.toMatchObject({ code: "tls" });
  const asked = { "tls-server-name": "cluster.internal" };
  expect(await ask(given({ token: TOKEN }, asked, named), targetsOf())).toBe(200);
  await expect(
    ask(given({ token: TOKEN }, { "tls-server-name": "other.internal" }, named), targetsOf()),
  ).rejects.toMatchObject({ code: "tls" });
});

test("insecure-skip-tls-verify works only where the operator allows it", async () => {
  const target = () => given({ token: TOKEN }, { "insecure-skip-tls-verify": true }, named, null);
  await expect(ask(target(), targetsOf())).rejects.toMatchObject({ code: "refused" });
  expect(await ask(target(), targetsOf({ insecure: true }))).toBe(200);
});

test("proxy-url leads through an allowed proxy, which is asked for the cluster's own host", async () => {
  const tunnels: string[] = [];
  const proxy = createServer();
  proxy.on("connect", (request: IncomingMessage, client: Socket) => {
    tunnels.push(`${request.url} ${request.headers["proxy-authorization"] ?? ""}`);
    const [host = "", port] = (request.url ?? "").split(":");
    const upstream = connect(Number(port), host, () => {
      client.write("HTTP/1.1 200 OK\r\n\r\n");
      upstream.pipe(client).pipe(upstream);
    });
    upstream.on("error", () => client.destroy());
    client.on("error", () => upstream.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  // SAFETY: a server that listens on TCP has an address with a port.
  const { port } = proxy.address() as AddressInfo;
  const through = { "proxy-url": `http://user:pass@127.0.0.1:${port}` };
  const hosts = [`127.0.0.1:${server.port}`, `127.0.0.1:${port}`];
  expect(await ask(given({ token: TOKEN }, through), targetsOf({ hosts }))).toBe(200);
  expect(tunnels).toEqual([`127.0.0.1:${server.port} Basic ${Buffer.from("user:pass").toString("base64")}`]);
  await expect(ask(given({ token: TOKEN }, through), targetsOf({ hosts: hosts.slice(0, 1) }))).rejects.toMatchObject({
    code: "refused",
  });
  const socks = { "proxy-url": `socks5://127.0.0.1:${port}` };
  await expect(ask(given({ token: TOKEN }, socks), targetsOf({ hosts }))).rejects.toThrow("not supported");
  expect(tunnels).toHaveLength(1);
  proxy.closeAllConnections();
  proxy.close();
});

test("a plugin may give a client certificate instead of a token", async () => {
  const { cert, key } = await authority.client("everdict");
  const status = { clientCertificateData: cert, clientKeyData: key };
  const apiVersion = "client.authentication.k8s.io/v1";
  const printed = JSON.stringify({ apiVersion, kind: "ExecCredential", status });
  const command = await execPlugin(join(folder, "bin"), "cert-login", `console.log(${JSON.stringify(printed)})`);
  const target = given({ exec: { apiVersion, command, args: [] } });
  expect(await ask(target, targetsOf({ exec: [command] }))).toBe(200);
});

test("a credential that the cluster refuses is renewed once, for plugins only, and the request sent again", async () => {
  const apiVersion = "client.authentication.k8s.io/v1";
  const count = join(folder, "count");
  writeFileSync(count, "");
  const command = await execPlugin(
    join(folder, "bin"),
    "count-login",
    `const fs = require("node:fs"); fs.appendFileSync(${JSON.stringify(count)}, "x");
const token = "try-" + fs.readFileSync(${JSON.stringify(count)}, "utf8").length;
console.log(JSON.stringify({ apiVersion: ${JSON.stringify(apiVersion)}, kind: "ExecCredential", status: { token } }));`,
  );
  const target = given({ exec: { apiVersion, command } });
  const targets = targetsOf({ exec: [command] });
  knows = (token) => token === "try-2";
  seen = [];
  expect(await ask(target, targets)).toBe(200);
  expect(seen.map(({ authorization }) => authorization)).toEqual(["Bearer try-1", "Bearer try-2"]);
  knows = () => false;
  seen = [];
  expect(await ask(target, targets)).toBe(401);
  expect(seen.map(({ authorization }) => authorization)).toEqual(["Bearer try-2", "Bearer try-3"]);
  seen = [];
  expect(await ask(given({ token: "fixed" }), targetsOf())).toBe(401);
  expect(seen).toHaveLength(1);
  knows = () => false;
});

test("a text is asked for once, kept for 15 minutes, and dropped when the secret changes", async () => {
  let now = 0;
  const targets = targetsOf({}, undefined, () => now);
  const text = kubeconfig({ server: server.address, ca: authority.ca, user: { token: TOKEN } });
  const changed = kubeconfig({ server: server.address, ca: authority.ca, user: { token: "another" } });
  const bare = (digest: string): RelayTarget => ({ ...uploaded("", digest), text: null }) as RelayTarget;
  const wanted = { code: "kubeconfig-wanted" };
  await expect(ask(bare("digest-of-the-text-1"), targets)).rejects.toMatchObject(wanted);
  expect(await ask(uploaded(text, "digest-of-the-text-1"), targets)).toBe(200);
  expect(await ask(bare("digest-of-the-text-1"), targets)).toBe(200);
  await expect(ask(bare("digest-of-the-text-2"), targets)).rejects.toMatchObject(wanted);
  expect(await ask(uploaded(changed, "digest-of-the-text-2"), targets)).toBe(401);
  await expect(ask(bare("digest-of-the-text-1"), targets)).rejects.toMatchObject(wanted);
  expect(await ask(bare("digest-of-the-text-2"), targets)).toBe(401);
  now += 15 * 60_000 + 1;
  await expect(ask(bare("digest-of-the-text-2"), targets)).rejects.toMatchObject(wanted);
});

test("the machine's own kubeconfig may name files, and is read anew after a while", async () => {
  const { cert, key } = await authority.client("everdict");
  await writeFile(join(folder, "ca.crt"), authority.ca);
  await writeFile(join(folder, "own.crt"), cert);
  await writeFile(join(folder, "own.key"), key);
  const own = join(folder, "own");
  await writeFile(
    own,
    `apiVersion: v1
clusters:
- {name: c, cluster: {server: "${server.address}", certificate-authority: ca.crt}}
users:
- {name: u, user: {client-certificate: own.crt, client-key: own.key}}
contexts:
- {name: prod, context: {cluster: c, user: u}}
- {name: broken, context: {cluster: none, user: u}}
`,
  );
  const targets = targetsOf({ contexts: ["prod", "broken", "absent"], hosts: [] }, own);
  expect(await ask({ kind: "context", context: "prod" }, targets)).toBe(200);
  for (const context of ["broken", "absent"])
    await expect(ask({ kind: "context", context }, targets)).rejects.toThrow(`no context '${context}'`);
  await expect(
    ask({ kind: "context", context: "prod" }, targetsOf({ contexts: ["prod"] }, join(folder, "nowhere"))),
  ).rejects.toMatchObject({ code: "misconfigured" });
});

test("an allowed address with a private authority is trusted by --ca-file", async () => {
  await writeFile(join(folder, "ca.crt"), authority.ca);
  const target: RelayTarget = { kind: "address", url: server.address };
  await expect(ask(target, targetsOf())).rejects.toMatchObject({ code: "tls" });
  expect(await ask(target, targetsOf({ caFiles: [join(folder, "ca.crt")] }))).toBe(401);
});
