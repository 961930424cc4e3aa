import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { expect, test } from "vitest";
import { decodeFrame, encodeFrame, encodeJson, FRAME, RELAY_PROTOCOL } from "../../contracts/relay-protocol.ts";
import type { Relay } from "../../durable-objects/relay/object.ts";
import { apiWith, dev, env, keyFor, NOMAD, POLL, workspace } from "./support.ts";

const SERVER = "https://10.20.30.40:6443";
const K8S = { kind: "k8s", id: "pool", version: "1.0.0", image: "busybox:1.36", namespace: "evals" };
const anyone = apiWith({ EVERDICT_ENV: "production" });

/** A relay's connection, as far as it greets. */
async function connect(token: string, hello: Record<string, unknown> = {}): Promise<WebSocket> {
  const response = await anyone.fetch(
    new Request("http://127.0.0.1:8787/relay/connect", {
      headers: { upgrade: "websocket", authorization: `Bearer ${token}` },
    }),
  );
  const socket = response.webSocket;
  if (!socket) throw new Error(`no socket: ${response.status}`);
  socket.accept();
  const welcomed = new Promise((resolve) => socket.addEventListener("message", resolve, { once: true }));
  const greeting = { type: "hello", protocol: RELAY_PROTOCOL, instanceId: "i", version: "0.1.0", hostname: "box" };
  socket.send(JSON.stringify({ ...greeting, contexts: ["prod"], hosts: ["10.20.30.40"], exec: ["aws"], ...hello }));
  await welcomed;
  return socket;
}

test("a relay is paired, shown with what it may reach, and revoked", async () => {
  const { api, id: ws } = await workspace();
  const paired = await api.call("POST", "/workspace/relays", { label: "office" });
  expect(paired.status).toBe(201);
  expect(paired.headers.get("cache-control")).toBe("no-store");
  expect(paired.body).toMatchObject({ id: expect.stringMatching(/^rly-/), label: "office" });
  const { token, id, command } = paired.body;
  expect(command).toBe(`npx everdict relay --pair ${token} --api-url http://127.0.0.1:8787`);
  const list = async () => (await api.call("GET", "/workspace/relays")).body.items;
  expect(await list()).toEqual([
    expect.objectContaining({ id, label: "office", online: false, lastSeenAt: null, contexts: [], lastError: null }),
  ]);
  expect(JSON.stringify(await list())).not.toContain(token.split(".")[1]);
  const socket = await connect(token);
  expect(await list()).toEqual([
    expect.objectContaining({ online: true, version: "0.1.0", hostname: "box", contexts: ["prod"], exec: ["aws"] }),
  ]);
  const closed = new Promise<CloseEvent>((resolve) => socket.addEventListener("close", resolve, { once: true }));
  expect((await api.call("DELETE", `/workspace/relays/${id}`)).status).toBe(204);
  expect((await closed).code).toBe(4003);
  expect(await list()).toEqual([]);
  await expect(connect(token)).rejects.toThrow("401");
  const { items } = (await api.call("GET", "/audit")).body;
  expect(items.map((item: { action: string }) => item.action)).toEqual(
    expect.arrayContaining(["relay.pair", "relay.revoke"]),
  );
  expect((await dev.call("DELETE", `/workspace/relays/${id}`, undefined, { "x-everdict-workspace": ws })).status).toBe(
    404,
  );
});

test("the MCP tools are the same operations", async () => {
  const { api } = await workspace();
  const client = await api.mcp();
  const paired = await client.callTool({ name: "pair_relay", arguments: { label: "by-tool" } });
  expect(paired.structuredContent).toMatchObject({ label: "by-tool", token: expect.stringMatching(/^rly_/) });
  const listed = await client.callTool({ name: "list_relays", arguments: {} });
  expect(listed.structuredContent).toMatchObject({ items: [{ label: "by-tool" }] });
  await client.close();
});

test("a label is a name that runtimes use: well formed, and one relay's only", async () => {
  const { api } = await workspace();
  await api.call("POST", "/workspace/relays", { label: "office" });
  const again = await api.call("POST", "/workspace/relays", { label: "office" });
  expect(again).toMatchObject({
    status: 409,
    body: { detail: expect.stringContaining("revoke it or choose another") },
  });
  for (const label of ["", "Office", "a b", "rly-01", "-a", "a".repeat(64)])
    expect((await api.call("POST", "/workspace/relays", { label })).status, label).toBe(400);
  const odd = await api.call("POST", "/workspace/relays", { label: "b", hosts: ["x"] });
  expect(odd.body.issues).toEqual([{ path: "hosts", message: "unknown key; remove it" }]);
});

test("pairing repeated with one Idempotency-Key is one relay, and shows no token again", async () => {
  const { api } = await workspace();
  const key = { "idempotency-key": "pair-1" };
  const first = await api.call("POST", "/workspace/relays", { label: "office" }, key);
  const second = await api.call("POST", "/workspace/relays", { label: "office" }, key);
  expect(second.body).toMatchObject({ id: first.body.id, token: null });
});

test("members see relays, admins pair and revoke them, other workspaces know nothing of them", async () => {
  const { api, id } = await workspace();
  const { body } = await api.call("POST", "/workspace/relays", { label: "office" });
  const member = await keyFor(id, "member", "write");
  const rival = await workspace();
  expect((await member.call("GET", "/workspace/relays")).body.items).toHaveLength(1);
  expect((await member.call("POST", "/workspace/relays", { label: "b" })).status).toBe(403);
  expect((await member.call("DELETE", `/workspace/relays/${body.id}`)).status).toBe(403);
  expect((await rival.api.call("GET", "/workspace/relays")).body.items).toEqual([]);
  expect((await rival.api.call("DELETE", `/workspace/relays/${body.id}`)).status).toBe(404);
});

test("each token is good for one thing: a relay's leases no job and reads no API, a runner's connects no relay", async () => {
  const { api, token: key } = await workspace();
  const relay = (await api.call("POST", "/workspace/relays", { label: "office" })).body.token;
  const runner = (await api.call("POST", "/workspace/runners", { label: "box" })).body.token;
  const lease = (token: string) => anyone.call("POST", "/runner/lease", POLL, { authorization: `Bearer ${token}` });
  expect((await lease(runner)).status).toBe(204);
  expect(await lease(relay)).toMatchObject({ status: 401, body: { detail: expect.stringContaining("rnr_") } });
  const read = await anyone.call("GET", "/runtimes", undefined, { authorization: `Bearer ${relay}` });
  expect(read).toMatchObject({ status: 401, body: { detail: expect.stringContaining("good for the relay only") } });
  for (const wrong of [runner, key, `${relay}x`, relay.replace("rly_", "rnr_")])
    await expect(connect(wrong), wrong).rejects.toThrow("401");
  const plain = await anyone.call("GET", "/relay/connect", undefined, { authorization: `Bearer ${relay}` });
  expect(plain).toMatchObject({ status: 426, body: { detail: expect.stringContaining("WebSocket") } });
  const forged = `${relay.split(".")[0]}.${"a".repeat(43)}`;
  const tried = await anyone.call("GET", "/relay/connect", undefined, { authorization: `Bearer ${forged}` });
  expect(tried).toMatchObject({ status: 401, body: { detail: expect.stringContaining("not known or was revoked") } });
});

test("a runtime of another workspace that names this relay, by label or by id, does not get it", async () => {
  const owner = await workspace();
  const rival = await workspace();
  const { id, token } = (await owner.api.call("POST", "/workspace/relays", { label: "office" })).body;
  const socket = await connect(token);
  let messages = 0;
  socket.addEventListener("message", () => messages++);
  for (const relay of ["office", id]) {
    const body = { ...K8S, context: "prod", relay };
    const probe = await rival.api.call("POST", "/runtimes/probe", body);
    expect(probe.body).toMatchObject({ reachable: false, reason: "relay" });
    expect(probe.body.detail).toContain(`has no relay '${relay}'`);
    await rival.api.call("POST", "/runtimes", { ...body, id: `pool-${relay}` });
    const shown = await rival.api.call("GET", `/runtimes/pool-${relay}/versions/1.0.0`);
    expect(shown.body.relay).toMatchObject({ name: relay, id: null, online: false });
  }
  expect(messages).toBe(0);
});

test("a runtime shows its relay and how it is", async () => {
  const { api } = await workspace();
  const { id, token } = (await api.call("POST", "/workspace/relays", { label: "office" })).body;
  await api.call("POST", "/runtimes", { ...K8S, context: "prod", relay: "office" });
  const relayOf = async () => (await api.call("GET", "/runtimes")).body.items[0].relay;
  expect(await relayOf()).toEqual({ name: "office", id, online: false, lastSeenAt: null, lastError: null });
  const probe = await api.call("POST", "/runtimes/probe", { ...K8S, context: "prod", relay: "office" });
  expect(probe.body).toMatchObject({
    reachable: false,
    reason: "relay-offline",
    detail: "relay 'office' is offline, it has never connected",
  });
  const socket = await connect(token);
  expect(await relayOf()).toMatchObject({ online: true });
  socket.close(1000, "");
  await expect.poll(relayOf).toMatchObject({ online: false, lastSeenAt: expect.stringMatching(/Z$/) });
});

test("a probe and a look give the same reason, whatever keeps a relay from answering", async () => {
  const { api } = await workspace();
  const both = async (id: string, spec: object) => {
    const body = { ...K8S, id, ...spec };
    expect((await api.call("POST", "/runtimes", body)).status).toBe(201);
    const probe = (await api.call("POST", "/runtimes/probe", body)).body;
    const look = (await api.call("GET", `/runtimes/${id}/versions/latest/inspect`)).body;
    expect([look.reachable, look.reason, look.detail], id).toEqual([false, probe.reason, probe.detail]);
    return probe.reason;
  };
  const named = { context: "prod", relay: "office" };
  expect(await both("unpaired", named)).toBe("relay");
  expect(await both("unnamed", { kubeconfigSecret: "KUBE" })).toBe("relay");
  await api.call("POST", "/workspace/relays", { label: "office" });
  expect(await both("offline", named)).toBe("relay-offline");
  expect(
    await both("nomad", {
      ...NOMAD,
      id: "nomad",
      addr: "http://10.0.0.1:4646",
      authSecret: undefined,
      relay: "office",
    }),
  ).toBe("relay-offline");
});

test("validate says why a relay is needed and what to run; with the relay there is nothing left to do", async () => {
  const { api } = await workspace();
  const validate = async (spec: object) =>
    (await api.call("POST", "/runtimes/validate", { ...K8S, ...spec })).body.reachability;
  const byAddress = await validate({ server: SERVER, authSecret: "T" });
  expect(byAddress).toMatchObject({ verdict: "relay", reasons: ["private-address"] });
  expect(byAddress.command).toContain("everdict relay --pair");
  expect(byAddress.command).toContain("--allow-host 10.20.30.40:6443");
  const named = await validate({ context: "prod", relay: "office" });
  expect(named).toMatchObject({ verdict: "relay", reasons: ["context", "named"] });
  expect(named.command).toContain("--allow-context prod");
  await api.call("POST", "/workspace/relays", { label: "office" });
  expect(await validate({ context: "prod", relay: "office" })).toMatchObject({ verdict: "relay", command: null });
  expect(await validate({ server: "https://k8s.acme.dev", authSecret: "T" })).toMatchObject({
    verdict: "direct",
    command: null,
  });
});

test("validate reads of an uploaded kubeconfig why it needs a relay and what that one must allow, and tells nothing else of it", async () => {
  const { api } = await workspace();
  const store = (user: string, cluster = "") =>
    api.call("PUT", "/secrets/KUBE", {
      value: `
apiVersion: v1
current-context: prod
clusters:
- name: c
  cluster: {server: "${SERVER}"${cluster}}
contexts:
- {name: prod, context: {cluster: c, user: u}}
users:
- name: u
  user: ${user}
`,
      use: "cluster",
      hosts: ["10.20.30.40"],
    });
  const validate = async () =>
    (await api.call("POST", "/runtimes/validate", { ...K8S, kubeconfigSecret: "KUBE" })).body;
  await store(
    "{client-certificate-data: QQ==, client-key-data: c2VjcmV0LWNhbmFyeQ==}",
    ", certificate-authority-data: QQ==",
  );
  const first = await validate();
  expect(first.reachability).toMatchObject({
    verdict: "relay",
    reasons: ["kubeconfig", "private-address", "private-ca", "client-certificate"],
    command: expect.stringContaining("--allow-host 10.20.30.40:6443; "),
  });
  await store("{exec: {command: aws, args: [eks, get-token, secret-canary]}}", ', proxy-url: "http://10.0.0.9:3128"');
  const second = await validate();
  expect(second.reachability.reasons).toEqual(["kubeconfig", "private-address", "exec-plugin", "proxy"]);
  expect(second.reachability.command).toContain("--allow-host 10.20.30.40:6443,10.0.0.9:3128 --allow-exec aws;");
  await store("{token-file: /etc/secret-canary}", ", certificate-authority: /etc/ca.crt");
  const third = await validate();
  expect(third.warnings).toEqual(
    expect.arrayContaining([
      expect.stringContaining("certificate-authority, which no relay reads"),
      expect.stringContaining("token-file, which no relay reads"),
    ]),
  );
  await store("*missing secret-canary");
  const fourth = await validate();
  expect(fourth.reachability).toMatchObject({
    reasons: ["kubeconfig"],
    command: expect.stringContaining("--allow-host <"),
  });
  const probe = await api.call("POST", "/runtimes/probe", { ...K8S, kubeconfigSecret: "KUBE" });
  for (const answer of [first, second, third, fourth, probe.body])
    expect(JSON.stringify(answer)).not.toMatch(/secret-canary|c2VjcmV0/);
});

test("validate and create say that an uploaded text is no kubeconfig, and show nothing of it", async () => {
  const { api } = await workspace();
  const bomb = `a: &a [secret-canary]\n${"bcdefghij"
    .split("")
    .map((name, i) => `${name}: &${name} [${`*${"abcdefghi"[i]}, `.repeat(9)}]`)
    .join("\n")}`;
  const [broken, contexts] = ["is no kubeconfig", "names no current-context that it describes"];
  for (const [value, words] of [
    ["hello secret-canary", broken],
    ["*missing secret-canary", broken],
    [bomb, broken],
    ["[".repeat(16_000), broken],
    ["clusters: []\ncurrent-context: secret-canary", contexts],
    [`clusters: [{name: secret-canary, cluster: {server: "${SERVER}"}}]`, contexts],
  ] as const) {
    await api.call("PUT", "/secrets/KUBE", { value, use: "cluster", hosts: ["10.20.30.40"] });
    const body = { ...K8S, kubeconfigSecret: "KUBE" };
    const validated = await api.call("POST", "/runtimes/validate", body);
    expect(validated.body.warnings, value.slice(0, 20)).toContainEqual(expect.stringContaining(words));
    expect(JSON.stringify(validated.body)).not.toMatch(/secret-canary|\[\[\[/);
  }
  const created = await api.call("POST", "/runtimes", { ...K8S, kubeconfigSecret: "KUBE", context: "prod" });
  expect(created.status).toBe(201);
  expect(created.body.warnings).toContainEqual(expect.stringContaining("has no context 'prod' that it describes"));
});

test("validate and create say that the named relay is not paired in this workspace", async () => {
  const { api } = await workspace();
  const rival = await workspace();
  const { id } = (await rival.api.call("POST", "/workspace/relays", { label: "office" })).body;
  const warnings = async (relay: string, path = "/runtimes/validate") =>
    (await api.call("POST", path, { ...K8S, context: "prod", relay })).body.warnings;
  const unpaired = expect.stringContaining(
    "relay 'office' is not paired in this workspace; pair it with POST /workspace/relays",
  );
  expect(await warnings("office")).toContainEqual(unpaired);
  expect(await warnings("office", "/runtimes")).toContainEqual(unpaired);
  expect(await warnings(id)).toContainEqual(expect.stringContaining(`relay '${id}' is not paired in this workspace`));
  await api.call("POST", "/workspace/relays", { label: "office" });
  expect(await warnings("office")).toEqual([]);
});

test("of several errors in a row the newest is shown, also after the object was gone from memory", async () => {
  const { api, id: ws } = await workspace();
  const { id, token } = (await api.call("POST", "/workspace/relays", { label: "office" })).body;
  const socket = await connect(token);
  socket.binaryType = "arraybuffer";
  const words: string[] = [];
  socket.addEventListener("message", ({ data }) => {
    const frame = data instanceof ArrayBuffer ? decodeFrame(new Uint8Array(data)) : null;
    if (frame?.type !== FRAME.open) return;
    const reset = { code: "connect", message: words.shift() ?? "", sent: false };
    socket.send(encodeFrame(FRAME.reset, frame.stream, encodeJson(reset)));
  });
  // SAFETY: the class that wrangler.toml binds.
  const stub = env.RELAY.getByName(`relay:${id}`) as unknown as DurableObjectStub<Relay>;
  const failing = async (message: string) => {
    words.push(message);
    const target = { kind: "address" as const, url: SERVER };
    const request = { method: "GET" as const, path: "/", headers: {}, target, deadlineMs: 5_000 };
    const answer = await stub.call({ id: crypto.randomUUID(), workspace: ws, request, body: null });
    expect(answer).toMatchObject({ ok: false, reset: { message } });
  };
  const stored = () =>
    runInDurableObject(stub, (_relay, { storage }) => storage.kv.get<{ message: string }>("lastError")?.message);
  const shown = async () => (await api.call("GET", "/workspace/relays")).body.items[0].lastError.message;
  for (const message of ["one", "two", "three"]) await failing(message);
  expect(await shown()).toBe("three");
  await expect.poll(stored, { timeout: 15_000 }).toBe("three");
  for (const message of ["four", "five"]) await failing(message);
  socket.close(1000, "");
  await expect.poll(async () => (await stub.state()).online).toBe(false);
  await evictDurableObject(stub);
  expect(await shown()).toBe("five");
});
