import { beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type OidcIssuer, oidcIssuer } from "../support/oidc-issuer.ts";
import { type Api, apiWith, dev } from "./support.ts";

const ISSUER = "https://login.example";
const EDGE = "https://edge.example";
let provider: OidcIssuer;
let api: Api;
let workspaceId: string;
let asked: string[] = [];

beforeAll(async () => {
  provider = await oidcIssuer(ISSUER, [`${EDGE}/session/oidc/callback`]);
  vi.stubGlobal("fetch", (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init);
    asked.push(request.url);
    return request.url.startsWith(ISSUER) ? provider.fetch(request) : Promise.reject(new TypeError("no such host"));
  });
  api = apiWith({
    EVERDICT_OIDC_ISSUER: ISSUER,
    EVERDICT_OIDC_CLIENT_ID: provider.clientId,
    EVERDICT_OIDC_CLIENT_SECRET: provider.clientSecret,
    EVERDICT_OPERATORS: "root",
  });
  workspaceId = `sso-${Date.now().toString(36)}`;
  const admin = { "x-everdict-workspace": workspaceId };
  await dev.call("POST", "/workspaces", { id: workspaceId, name: "Acme" });
  await dev.call("PUT", "/members/ada", { role: "member" }, admin);
});
beforeEach(() => {
  provider.faults = {};
  asked = [];
});

const edge = (path: string, headers: Record<string, string> = {}, init: RequestInit = {}): Promise<Response> =>
  api.fetch(new Request(path.startsWith("https:") ? path : EDGE + path, { ...init, headers, redirect: "manual" }));

const cookies = (response: Response): Map<string, string> =>
  new Map(response.headers.getSetCookie().map((line) => [line.split("=")[0] ?? "", line]));
const pair = (line: string | undefined): string => line?.split(";")[0] ?? "";

/** Up to the moment where the provider sends the browser back. */
async function away(hint?: string, returnTo?: string): Promise<{ back: string; cookie: string; to: URL }> {
  const query = returnTo === undefined ? "" : `?returnTo=${encodeURIComponent(returnTo)}`;
  const start = await edge(`/session/oidc/start${query}`);
  expect(start.status).toBe(302);
  const to = new URL(start.headers.get("location") ?? "");
  if (hint !== undefined) to.searchParams.set("login_hint", hint);
  const answer = await provider.fetch(new Request(to));
  return {
    to,
    back: answer.headers.get("location") ?? "",
    cookie: pair(cookies(start).get("__Host-everdict-sign-in")),
  };
}

async function signIn(hint?: string, returnTo?: string): Promise<{ cookie: string; response: Response }> {
  const { back, cookie } = await away(hint, returnTo);
  const response = await edge(back, { cookie });
  return { response, cookie: pair(cookies(response).get("__Host-everdict-session")) };
}

test("the way to the provider carries state, nonce and a PKCE challenge, kept in a cookie for ten minutes", async () => {
  const start = await edge("/session/oidc/start");
  const to = new URL(start.headers.get("location") ?? "");
  expect(to.origin).toBe(ISSUER);
  expect(Object.fromEntries(to.searchParams)).toMatchObject({
    response_type: "code",
    client_id: provider.clientId,
    redirect_uri: `${EDGE}/session/oidc/callback`,
    scope: "openid",
    code_challenge_method: "S256",
  });
  for (const name of ["state", "nonce", "code_challenge"])
    expect(to.searchParams.get(name)?.length, name).toBeGreaterThan(40);
  expect(cookies(start).get("__Host-everdict-sign-in")).toMatch(
    /^__Host-everdict-sign-in=[\w.-]+; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  );
  expect(start.headers.get("cache-control")).toBe("no-store");
  const again = new URL((await edge("/session/oidc/start")).headers.get("location") ?? "");
  expect(again.searchParams.get("state")).not.toBe(to.searchParams.get("state"));
});

test("a person signs in and acts as a member where they are one", async () => {
  const { response, cookie } = await signIn();
  expect(response.status).toBe(302);
  expect(response.headers.get("location")).toBe("/dashboard");
  expect(cookies(response).get("__Host-everdict-session")).toMatch(
    /Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  );
  expect(cookies(response).get("__Host-everdict-sign-in")).toContain("Max-Age=0");
  expect(await (await edge("/session", { cookie })).json()).toMatchObject({
    session: { method: "oidc", subject: "ada", personal: true, workspace: null, role: null, operator: false },
    methods: ["api-key", "oidc"],
    issuer: ISSUER,
  });
  const here = { cookie, "x-everdict-workspace": workspaceId };
  expect(await (await edge("/me", here)).json()).toMatchObject({
    subject: "ada",
    role: "member",
    workspace: workspaceId,
  });
  expect((await edge("/audit", here)).status).toBe(403);
  expect((await edge("/runs", { cookie })).status).toBe(400);
  expect((await edge("/runs", { cookie, "x-everdict-workspace": "default" })).status).toBe(403);
  const change = { method: "PUT", body: JSON.stringify({ role: "admin" }) };
  const type = { "content-type": "application/json" };
  expect((await edge("/members/ada", { ...here, ...type, "sec-fetch-site": "same-origin" }, change)).status).toBe(403);
});

test("the role is the one the person has now, and an operator is one by configuration only", async () => {
  const admin = { "x-everdict-workspace": workspaceId };
  await dev.call("PUT", "/members/bob", { role: "admin" }, admin);
  const { cookie } = await signIn("bob");
  const here = { cookie, "x-everdict-workspace": workspaceId };
  const trail = await edge("/audit", here);
  expect(trail.status).toBe(200);
  expect(await trail.json()).toMatchObject({
    items: expect.arrayContaining([
      expect.objectContaining({ action: "session.start", actor: "bob", detail: { method: "oidc" } }),
    ]),
  });
  await dev.call("PUT", "/members/bob", { role: "viewer" }, admin);
  expect((await edge("/audit", here)).status).toBe(403);
  await dev.call("DELETE", "/members/bob", undefined, admin);
  expect((await edge("/runs", here)).status).toBe(403);
  const root = await signIn("root");
  expect(await (await edge("/session", { cookie: root.cookie })).json()).toMatchObject({ session: { operator: true } });
});

test("a person's session made for an issuer that is no longer used ends", async () => {
  const { cookie } = await signIn();
  const other = apiWith({ EVERDICT_OIDC_ISSUER: "https://new.example", EVERDICT_OIDC_CLIENT_ID: "x" });
  const answer = await other.fetch(new Request(`${EDGE}/me`, { headers: { cookie } }));
  expect(answer.status).toBe(401);
  expect((await apiWith({}).fetch(new Request(`${EDGE}/me`, { headers: { cookie } }))).status).toBe(401);
});

test("the browser goes back to a page of this site, never elsewhere", async () => {
  expect((await signIn(undefined, "/dashboard/runs/run_1?tab=log#x")).response.headers.get("location")).toBe(
    "/dashboard/runs/run_1?tab=log#x",
  );
  for (const bad of [
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/a\\b",
    "javascript:alert(1)",
    "dashboard",
    "",
    "/a b",
    "/\t/evil.example",
    "/\n/evil.example",
    " /x",
  ]) {
    const answer = await edge(`/session/oidc/start?returnTo=${encodeURIComponent(bad)}`);
    expect(answer.status, JSON.stringify(bad)).toBe(400);
    expect(answer.headers.get("set-cookie")).toBeNull();
  }
  const twice = await edge("/session/oidc/start?returnTo=/a&returnTo=//evil.example");
  expect(twice.status).toBe(400);
});

/** Nobody is signed in, and the half-made sign-in is forgotten. */
async function refused(what: string, response: Response): Promise<void> {
  expect(response.status, what).toBe(401);
  expect(cookies(response).has("__Host-everdict-session"), what).toBe(false);
  expect(cookies(response).get("__Host-everdict-sign-in"), what).toContain("Max-Age=0");
}

test("what comes back must belong to what this browser was sent away with", async () => {
  const one = await away();
  const two = await away();
  const changed = (url: string, name: string, value: string | null) => {
    const out = new URL(url);
    if (value === null) out.searchParams.delete(name);
    else out.searchParams.set(name, value);
    return out.toString();
  };
  await refused("another sign-in's cookie", await edge(one.back, { cookie: two.cookie }));
  await refused("no cookie", await edge(one.back));
  await refused("a changed state", await edge(changed(one.back, "state", "x".repeat(43)), { cookie: one.cookie }));
  await refused("no state", await edge(changed(one.back, "state", null), { cookie: one.cookie }));
  await refused("another issuer", await edge(changed(one.back, "iss", "https://evil.example"), { cookie: one.cookie }));
  await refused("no issuer", await edge(changed(one.back, "iss", null), { cookie: one.cookie }));
  await refused("no code", await edge(changed(one.back, "code", null), { cookie: one.cookie }));
  await refused("a code of nobody's", await edge(changed(one.back, "code", "made-up"), { cookie: one.cookie }));
  const foreignCode = new URL(two.back).searchParams.get("code") ?? "";
  await refused("another's code: PKCE", await edge(changed(one.back, "code", foreignCode), { cookie: one.cookie }));
  await refused("a changed cookie", await edge(one.back, { cookie: `${one.cookie.slice(0, -6)}AAAAAA` }));
  const session = (await signIn()).cookie.replace("__Host-everdict-session", "__Host-everdict-sign-in");
  await refused("a session in its place", await edge(one.back, { cookie: session }));
  expect((await edge(one.back, { cookie: one.cookie })).status).toBe(302);
  await refused("the same code twice", await edge(one.back, { cookie: one.cookie }));
});

test("a sign-in cookie is no session", async () => {
  const { cookie } = await away();
  const value = cookie.split("=")[1] ?? "";
  expect((await edge("/me", { cookie: `__Host-everdict-session=${value}` })).status).toBe(401);
});

test("an ID token that is not right signs nobody in", async () => {
  const now = Math.floor(Date.now() / 1_000);
  for (const [what, faults] of Object.entries<OidcIssuer["faults"]>({
    "another nonce": { claims: { nonce: "other" } },
    "no nonce": { claims: { nonce: undefined } },
    "another audience": { claims: { aud: "someone-else" } },
    "another issuer": { claims: { iss: "https://evil.example" } },
    expired: { claims: { iat: now - 600, exp: now - 300 } },
    "no subject": { claims: { sub: undefined } },
    "a subject without end": { claims: { sub: "x".repeat(301) } },
    "a key nobody published": { foreignKey: true },
  })) {
    const { back, cookie } = await away();
    provider.faults = faults;
    await refused(what, await edge(back, { cookie }));
    provider.faults = {};
  }
});

test("a refusal of the provider is told in its own code; a browser is shown the sign-in page", async () => {
  const { back, cookie } = await away("nobody");
  const program = await edge(back, { cookie });
  await refused("access_denied", program);
  expect(await program.json()).toMatchObject({ detail: "the identity provider refused: access_denied" });
  const browser = await edge(back, { cookie, accept: "text/html,application/xhtml+xml" });
  expect(browser.status).toBe(302);
  expect(browser.headers.get("location")).toBe("/dashboard/sign-in?error=UNAUTHENTICATED&provider=access_denied");
  expect(cookies(browser).has("__Host-everdict-session")).toBe(false);
});

test("without a provider, or with one that does not answer, signing in says so", async () => {
  const none = await apiWith({}).fetch(new Request(`${EDGE}/session/oidc/start`, { redirect: "manual" }));
  expect(none.status).toBe(404);
  const silent = apiWith({ EVERDICT_OIDC_ISSUER: "https://silent.example", EVERDICT_OIDC_CLIENT_ID: "x" });
  const answer = await silent.fetch(new Request(`${EDGE}/session/oidc/start`, { redirect: "manual" }));
  expect(answer.status).toBe(503);
  expect(answer.headers.get("retry-after")).toBe("5");
  const half = apiWith({ EVERDICT_OIDC_CLIENT_ID: "x" });
  expect((await half.call("GET", "/healthz")).status).toBe(503);
  const odd = apiWith({ EVERDICT_OIDC_ISSUER: "https://x.example", EVERDICT_OIDC_JWKS: "{}" });
  expect((await odd.call("GET", "/healthz")).status).toBe(503);
});

test("neither code, tokens, secret nor cookies are logged", async () => {
  const lines: string[] = [];
  const spy = vi.spyOn(console, "log").mockImplementation((line) => void lines.push(String(line)));
  const { back, cookie } = await away();
  const { cookie: session } = await signIn();
  await edge(back, { cookie: `${cookie}x` });
  await edge("/me", { cookie: session });
  spy.mockRestore();
  const text = lines.join("\n");
  expect(lines.length).toBeGreaterThan(3);
  const code = new URL(back).searchParams.get("code") ?? "";
  const state = new URL(back).searchParams.get("state") ?? "";
  for (const value of [code, state, provider.clientSecret, cookie.split("=")[1] ?? "", session.split("=")[1] ?? ""]) {
    expect(value.length).toBeGreaterThan(10);
    expect(text.includes(value)).toBe(false);
  }
  // Discovery and keys were read once for all of this.
  expect(asked.filter((url) => url.includes("openid-configuration"))).toEqual([]);
});
