import { drizzle } from "drizzle-orm/d1";
import { expect, test, vi } from "vitest";
import { startSession } from "../../worker/auth/session.ts";
import { configOf } from "../../worker/environment.ts";
import { members } from "../../worker/store/schema.ts";
import { apiWith, CASE, dev, env, workspace } from "./support.ts";

const ORIGIN = "http://127.0.0.1:8787";
const production = apiWith({});
const OWN_PAGE = { origin: ORIGIN, "sec-fetch-site": "same-origin" };

const cookieOf = (headers: Headers): string => (headers.get("set-cookie") ?? "").split(";")[0] ?? "";

/** A fresh workspace, a key of it, and a session made from the key. */
async function signedIn(
  role: "viewer" | "member" | "admin" = "admin",
  scope: "read" | "write" | "admin" = "admin",
): Promise<{ id: string; token: string; cookie: string; headers: Record<string, string> }> {
  const { id, token } = await workspace(role, scope);
  const made = await production.call("POST", "/session", { apiKey: token });
  expect(made.status).toBe(201);
  const cookie = cookieOf(made.headers);
  return { id, token, cookie, headers: { cookie, ...OWN_PAGE } };
}

test("signing in with a key sets a cookie that scripts cannot read, and never shows the key", async () => {
  const { id, token } = await workspace("member", "write");
  const made = await production.call("POST", "/session", { apiKey: token });
  expect(made.body).toMatchObject({
    session: { method: "api-key", personal: false, workspace: id, role: "member", scope: "write", operator: false },
    methods: ["api-key"],
    issuer: null,
    ended: null,
  });
  const cookie = made.headers.get("set-cookie") ?? "";
  expect(cookie).toMatch(/^everdict-session-[A-Za-z0-9]{8}=[\w.-]+; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/);
  expect(made.headers.get("cache-control")).toBe("no-store");
  const left = Date.parse(made.body.session.expiresAt) - Date.now();
  expect(left).toBeGreaterThan(43_100_000);
  expect(left).toBeLessThanOrEqual(43_200_000);
  const told =
    JSON.stringify(made.body) + cookie + atob((cookie.split(".")[1] ?? "").replaceAll("-", "+").replaceAll("_", "/"));
  expect(told).not.toContain(token);
  expect(told).not.toContain(token.slice(3));
});

test("signing in and out is in the audit trail of the workspace, with the key and never its value", async () => {
  const { id, token, cookie, headers } = await signedIn();
  expect((await production.call("DELETE", "/session", undefined, headers)).status).toBe(204);
  // A second time ends nothing.
  await production.call("DELETE", "/session", undefined, { cookie, ...OWN_PAGE });
  const trail = (await production.call("GET", "/audit", undefined, { authorization: `Bearer ${token}` })).body.items;
  const sessions = trail.filter(({ action }: { action: string }) => action.startsWith("session."));
  expect(sessions).toMatchObject([
    { action: "session.end", actor: expect.stringMatching(/^key:/), detail: { method: "api-key" } },
    { action: "session.start", actor: expect.stringMatching(/^key:/), detail: { method: "api-key" } },
  ]);
  expect(JSON.stringify(trail)).not.toContain(token);
  const other = await workspace();
  const foreign = await production.call("GET", "/audit", undefined, { authorization: `Bearer ${other.token}` });
  expect(JSON.stringify(foreign.body)).not.toContain(id);
});

test("over https the cookie is Secure and bound to this host", async () => {
  const { token } = await workspace();
  const request = (path: string, init: RequestInit = {}) =>
    production.fetch(new Request(`https://edge.example${path}`, init));
  const made = await request("/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ apiKey: token }),
  });
  const cookie = made.headers.get("set-cookie") ?? "";
  expect(cookie).toMatch(/^__Host-everdict-session=[\w.-]+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  const me = await request("/me", { headers: { cookie: cookie.split(";")[0] ?? "" } });
  expect(me.status).toBe(200);
  // The plain name is for http only: another host's page could set it.
  const value = (cookie.split(";")[0] ?? "").split("=")[1] ?? "";
  const plain = cookieOf((await production.call("POST", "/session", { apiKey: token })).headers).split("=")[0];
  expect((await request("/me", { headers: { cookie: `${plain}=${value}` } })).status).toBe(401);
});

test("a deployment behind something that ends TLS sets the cookie as https wants it", async () => {
  const { token } = await workspace();
  const behind = apiWith({ EVERDICT_PUBLIC_URL: "https://edge.example" });
  const made = await behind.call("POST", "/session", { apiKey: token }, { origin: "https://edge.example" });
  expect(made.status).toBe(201);
  expect(made.headers.get("set-cookie")).toMatch(/^__Host-everdict-session=.*Secure/);
  const cookie = cookieOf(made.headers);
  const own = { cookie, origin: "https://edge.example" };
  expect((await behind.call("POST", "/api-keys", { name: "k" }, own)).status).toBe(201);
  expect(
    (await behind.call("POST", "/api-keys", { name: "k" }, { ...own, origin: "https://evil.example" })).status,
  ).toBe(403);
});

test("the session does what its key may do, no more: a viewer's stays a viewer's", async () => {
  const viewer = await signedIn("viewer", "read");
  expect((await production.call("GET", "/runs", undefined, viewer.headers)).status).toBe(200);
  expect((await production.call("GET", "/me", undefined, viewer.headers)).body).toMatchObject({
    role: "viewer",
    scope: "read",
  });
  for (const [method, path, body] of [
    ["POST", "/runs", { harness: { spec: { kind: "command", command: "true" } }, case: CASE, runtime: "self:ws" }],
    ["POST", "/api-keys", { name: "k" }],
    ["PUT", "/members/eve", { role: "viewer" }],
    ["GET", "/secrets", undefined],
    ["GET", "/audit", undefined],
  ] as const)
    expect((await production.call(method, path, body, viewer.headers)).status, `${method} ${path}`).toBe(403);
  const narrow = await signedIn("admin", "read");
  expect((await production.call("POST", "/api-keys", { name: "k" }, narrow.headers)).status).toBe(403);
});

test("a key's session stays in the key's workspace", async () => {
  const { headers } = await signedIn();
  const other = await workspace();
  const answer = await production.call("GET", "/runs", undefined, { ...headers, "x-everdict-workspace": other.id });
  expect(answer.status).toBe(403);
});

test("what a session did is told of the key", async () => {
  const { headers } = await signedIn();
  const made = await production.call("POST", "/api-keys", { name: "k" }, headers);
  expect(made.status).toBe(201);
  const { items } = (await production.call("GET", "/audit", undefined, headers)).body;
  expect(items[0]).toMatchObject({ action: "api-key.create", actor: expect.stringMatching(/^key:key_/) });
});

test("a revoked key ends its sessions at once", async () => {
  const { id, cookie, headers } = await signedIn();
  const [row] = (await production.call("GET", "/api-keys", undefined, headers)).body.items;
  expect((await dev.call("DELETE", `/api-keys/${row.id}`, undefined, { "x-everdict-workspace": id })).status).toBe(204);
  const after = await production.call("GET", "/runs", undefined, headers);
  expect(after).toMatchObject({ status: 401, body: { data: { session: "revoked" } } });
  expect((await production.call("GET", "/session", undefined, { cookie })).body).toMatchObject({
    session: null,
    ended: expect.stringContaining("revoked"),
  });
});

test("a personal key's session ends when the person is no member any more", async () => {
  const { id } = await workspace();
  const made = await dev.call("POST", "/api-keys", { name: "mine", personal: true }, { "x-everdict-workspace": id });
  const cookie = cookieOf((await production.call("POST", "/session", { apiKey: made.body.token })).headers);
  expect((await production.call("GET", "/me", undefined, { cookie })).body).toMatchObject({
    personal: true,
    role: "admin",
  });
  const store = drizzle(env.DB, { casing: "snake_case" });
  await store.delete(members);
  expect((await production.call("GET", "/me", undefined, { cookie })).status).toBe(401);
});

test("signing out makes copies of the cookie worthless", async () => {
  const { cookie, headers } = await signedIn();
  const out = await production.call("DELETE", "/session", undefined, headers);
  expect(out.status).toBe(204);
  expect(out.headers.get("set-cookie")).toMatch(/^everdict-session-\w+=; Max-Age=0; Path=\/; HttpOnly; SameSite=Lax/);
  expect(await production.call("GET", "/runs", undefined, { cookie })).toMatchObject({
    status: 401,
    body: { data: { session: "ended" } },
  });
  expect((await production.call("DELETE", "/session", undefined, headers)).status).toBe(204);
  expect((await production.call("DELETE", "/session", undefined, OWN_PAGE)).status).toBe(204);
});

test("an expired session is told as such", async () => {
  const { token, headers } = await signedIn();
  const { items } = (await production.call("GET", "/api-keys", undefined, headers)).body;
  const request = new Request(`${ORIGIN}/session`);
  const old = async (ageMs: number) => {
    const subject = { method: "api-key" as const, keyId: String(items[0].id), keyHash: "" };
    return (await startSession(request, configOf(env), subject, Date.now() - ageMs)).split(";")[0] ?? "";
  };
  expect((await production.call("GET", "/me", undefined, { cookie: await old(11 * 3_600_000) })).status).toBe(200);
  const expired = { cookie: await old(12 * 3_600_000 + 1_000) };
  expect(await production.call("GET", "/me", undefined, expired)).toMatchObject({
    status: 401,
    body: { data: { session: "expired" } },
  });
  expect((await production.call("GET", "/session", undefined, expired)).body.ended).toContain("expired");
  // Nor does the development server take it for nobody, who may do everything there.
  expect((await dev.call("GET", "/me", undefined, expired)).status).toBe(401);
  expect(
    (await production.call("GET", "/me", undefined, { ...expired, authorization: `Bearer ${token}` })).status,
  ).toBe(200);
});

test("a cookie that was changed, forged or made for something else is refused", async () => {
  const { cookie } = await signedIn("viewer", "read");
  const [name = "", value = ""] = cookie.split("=");
  const [header = "", payload = "", signature = ""] = value.split(".");
  const encode = (json: unknown) =>
    btoa(JSON.stringify(json)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const claims = JSON.parse(atob(payload.replaceAll("-", "+").replaceAll("_", "/")));
  const forged = {
    "another key's id": `${header}.${encode({ ...claims, keyId: "key_00000000000000000000000000" })}.${signature}`,
    "a later end": `${header}.${encode({ ...claims, exp: claims.exp + 1 })}.${signature}`,
    "algorithm none": `${encode({ alg: "none", typ: "everdict-session+jwt" })}.${payload}.`,
    "no signature": `${header}.${payload}.`,
    "cut off": value.slice(0, -4),
    "not a token": "x",
    empty: "",
  };
  for (const [what, token] of Object.entries(forged))
    expect((await production.call("GET", "/me", undefined, { cookie: `${name}=${token}` })).status, what).toBe(401);
  const rotated = apiWith({ EVERDICT_SIGNING_KEY: btoa("another-key-of-thirty-two-bytes!") });
  expect((await rotated.call("GET", "/me", undefined, { cookie })).status).toBe(401);
});

test("a session of another deployment on the same machine is not ours to refuse", async () => {
  const { token } = await workspace();
  const other = apiWith({ EVERDICT_SIGNING_KEY: btoa("another-key-of-thirty-two-bytes!"), EVERDICT_ENV: "dev" });
  const cookie = cookieOf((await other.call("POST", "/session", { apiKey: token })).headers);
  expect((await other.call("GET", "/session", undefined, { cookie })).body.session.method).toBe("api-key");
  expect((await dev.call("GET", "/session", undefined, { cookie })).body.session.method).toBe("dev");
});

test("with a cookie, what changes something must be asked for by our own page", async () => {
  const { cookie } = await signedIn();
  const post = (headers: Record<string, string>, body: unknown = { name: "k" }) =>
    production.call("POST", "/api-keys", body, { cookie, ...headers });
  for (const [what, headers] of Object.entries<Record<string, string>>({
    "no word of where from": {},
    "another site": { "sec-fetch-site": "cross-site", origin: "https://evil.example" },
    "a sibling host": { "sec-fetch-site": "same-site", origin: ORIGIN },
    "typed by hand": { "sec-fetch-site": "none" },
    "another origin": { origin: "https://evil.example" },
    "another port": { origin: "http://127.0.0.1:9999" },
    "a sandboxed frame": { origin: "null" },
    "a look-alike": { origin: `${ORIGIN}.evil.example` },
  }))
    expect((await post(headers)).status, what).toBe(403);
  expect((await post({ origin: ORIGIN })).status).toBe(201);
  expect((await post({ "sec-fetch-site": "same-origin" })).status).toBe(201);
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "TEXT/PLAIN",
  ])
    expect((await post({ ...OWN_PAGE, "content-type": type }, JSON.stringify({ name: "k" }))).status, type).toBe(415);
  // Also where there is no body to be parsed.
  const cancel = await production.fetch(
    new Request(`${ORIGIN}/runs/run_00000000000000000000000000/cancel`, {
      method: "POST",
      headers: { cookie, ...OWN_PAGE, "content-type": "text/plain" },
    }),
  );
  expect(cancel.status).toBe(415);
  for (const [method, path] of [
    ["PUT", "/members/eve"],
    ["DELETE", "/secrets/X"],
    ["POST", "/mcp"],
    ["DELETE", "/session"],
  ] as const)
    expect(
      (await production.call(method, path, method === "PUT" ? { role: "viewer" } : undefined, { cookie })).status,
      path,
    ).toBe(403);
  expect((await production.call("GET", "/session", undefined, { cookie })).body.session).not.toBeNull();
});

test("another site's page cannot sign anybody in", async () => {
  const { token } = await workspace();
  const from = (headers: Record<string, string>) => production.call("POST", "/session", { apiKey: token }, headers);
  expect((await from({ "sec-fetch-site": "cross-site", origin: "https://evil.example" })).status).toBe(403);
  expect((await from({ origin: "https://evil.example" })).status).toBe(403);
  expect((await from({ "content-type": "text/plain" })).status).toBe(415);
  expect((await from(OWN_PAGE)).status).toBe(201);
});

test("a key that is not one, is not known, or came as something else signs nobody in", async () => {
  const { id } = await workspace();
  const unknown = await production.call("POST", "/session", { apiKey: `ak_${"x".repeat(43)}` });
  expect(unknown).toMatchObject({ status: 401, body: { code: "UNAUTHENTICATED" } });
  expect(unknown.headers.get("set-cookie")).toBeNull();
  for (const body of [
    {},
    { apiKey: "" },
    { apiKey: "rnr_x.y" },
    { apiKey: 1 },
    { apiKey: `ak_${"x".repeat(43)}`, workspace: id },
  ])
    expect((await production.call("POST", "/session", body)).status, JSON.stringify(body)).toBe(400);
});

test("GET /session answers everybody, and says how one can sign in", async () => {
  expect((await production.call("GET", "/session")).body).toEqual({
    session: null,
    ended: null,
    methods: ["api-key"],
    issuer: null,
  });
  expect((await dev.call("GET", "/session")).body).toMatchObject({
    session: { method: "dev", subject: "dev", workspace: "default", role: "admin", operator: true, expiresAt: null },
    methods: ["api-key", "dev"],
  });
  const { cookie, id } = await signedIn("member", "write");
  expect((await dev.call("GET", "/session", undefined, { cookie })).body.session).toMatchObject({
    method: "api-key",
    workspace: id,
    role: "member",
    operator: false,
  });
});

test("an event stream works by cookie, and names its workspace in the address", async () => {
  const { id, cookie } = await signedIn();
  const other = await workspace();
  const run = (
    await production.call(
      "POST",
      "/runs",
      { harness: { spec: { kind: "command", command: "true" } }, case: CASE, runtime: "self:ws" },
      { cookie, ...OWN_PAGE },
    )
  ).body;
  const stream = (query: string, headers: Record<string, string> = {}) =>
    production.fetch(new Request(`${ORIGIN}/runs/${run.id}/logs/stream${query}`, { headers: { cookie, ...headers } }));
  for (const query of ["", `?workspace=${id}`]) {
    const answer = await stream(query);
    expect(answer.headers.get("content-type")).toContain("text/event-stream");
    const reader = answer.body?.getReader();
    let text = "";
    while (!text.includes("event: run")) text += new TextDecoder().decode((await reader?.read())?.value);
    await reader?.cancel();
  }
  expect((await stream(`?workspace=${other.id}`)).status).toBe(403);
  expect((await stream(`?workspace=${id}`, { "x-everdict-workspace": other.id })).status).toBe(400);
  expect((await stream("?workspace=NOT%20ONE")).status).toBe(400);
  expect((await stream("?workspce=x")).status).toBe(400);
  // Everything else names it by the header only.
  expect((await production.call("GET", `/runs?workspace=${id}`, undefined, { cookie })).status).toBe(400);
});

test("an open event stream ends soon after its session did", async () => {
  const { cookie, headers } = await signedIn();
  const submit = { harness: { spec: { kind: "command", command: "true" } }, case: CASE, runtime: "self:ws" };
  const { id } = (await production.call("POST", "/runs", submit, { cookie, ...OWN_PAGE })).body;
  const stream = await production.fetch(new Request(`${ORIGIN}/runs/${id}/logs/stream`, { headers: { cookie } }));
  const reader = stream.body?.getReader();
  await reader?.read();
  expect((await production.call("DELETE", "/session", undefined, headers)).status).toBe(204);
  const signedOut = Date.now();
  while (!(await reader?.read())?.done) expect(Date.now() - signedOut).toBeLessThan(20_000);
});

test("no log line holds a key or a cookie", async () => {
  const lines: string[] = [];
  const spy = vi.spyOn(console, "log").mockImplementation((line) => void lines.push(String(line)));
  const { token, cookie, headers } = await signedIn();
  await production.call("POST", "/api-keys", { name: "k" }, headers);
  await production.call("GET", "/me", undefined, { cookie: `${cookie}x` });
  await production.call("DELETE", "/session", undefined, headers);
  spy.mockRestore();
  expect(lines.length).toBeGreaterThan(3);
  const text = lines.join("\n");
  for (const value of [token, cookie, cookie.split("=")[1] ?? "", (cookie.split(".")[2] ?? "").slice(0, 20)])
    expect(text.includes(value)).toBe(false);
});
