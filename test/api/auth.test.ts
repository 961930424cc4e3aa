import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { beforeAll, expect, test } from "vitest";
import { type Api, apiWith, CASE, dev, POLL, workspace } from "./support.ts";

const ISSUER = "https://issuer.example";
const AUDIENCE = "everdict";
type Claims = { iss?: string; aud?: string; sub?: string; exp?: string | number; alg?: string };

let api: Api;
let token: (claims?: Claims) => Promise<string>;
let foreign: string;
let workspaceId: string;
let withHmac: string;

beforeAll(async () => {
  const own = await generateKeyPair("ES256", { extractable: true });
  const other = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(own.publicKey)), kid: "k1", alg: "ES256" };
  const make =
    (key: CryptoKey) =>
    (claims: Claims = {}) =>
      new SignJWT({ scope: "x" })
        .setProtectedHeader({ alg: "ES256", kid: "k1" })
        .setIssuer(claims.iss ?? ISSUER)
        .setAudience(claims.aud ?? AUDIENCE)
        .setSubject(claims.sub ?? "ada")
        .setIssuedAt()
        .setExpirationTime(claims.exp ?? "5m")
        .sign(key);
  token = make(own.privateKey);
  foreign = await make(other.privateKey)();
  // The public key used as an HMAC secret: the classic confusion of algorithms.
  withHmac = await new SignJWT({})
    .setProtectedHeader({ alg: "HS256", kid: "k1" })
    .setIssuer(ISSUER)
    .setAudience(AUDIENCE)
    .setSubject("ada")
    .setExpirationTime("5m")
    .sign(new TextEncoder().encode(JSON.stringify(jwk)));
  api = apiWith({
    EVERDICT_OIDC_ISSUER: ISSUER,
    EVERDICT_OIDC_AUDIENCE: AUDIENCE,
    EVERDICT_OIDC_JWKS: JSON.stringify({ keys: [jwk] }),
    EVERDICT_OPERATORS: "root",
  });
  const bearer = { authorization: `Bearer ${await token({ sub: "root" })}` };
  workspaceId = `oidc-${Date.now().toString(36)}`;
  expect((await api.call("POST", "/workspaces", { id: workspaceId, name: "Acme" }, bearer)).status).toBe(201);
  expect(
    (await api.call("PUT", "/members/ada", { role: "member" }, { ...bearer, "x-everdict-workspace": workspaceId }))
      .status,
  ).toBe(200);
});

const as = (bearer: string, workspace?: string) => ({
  authorization: `Bearer ${bearer}`,
  ...(workspace === undefined ? {} : { "x-everdict-workspace": workspace }),
});

test("the development subject is admin of every workspace it is told of, whichever one it names", async () => {
  for (const headers of [{}, { "x-everdict-workspace": workspaceId }, { "x-everdict-workspace": "default" }]) {
    const { body } = await dev.call("GET", "/me", undefined, headers);
    const roles = body.workspaces.map(({ id, role }: { id: string; role: string }) => [id, role]);
    expect(roles).toContainEqual(["default", "admin"]);
    expect(roles.filter(([, role]: [string, string]) => role !== "admin")).toEqual([]);
  }
});

test("a person's token is good where the person is a member, with the role they have there", async () => {
  const me = await api.call("GET", "/me", undefined, as(await token(), workspaceId));
  expect(me.body).toMatchObject({
    subject: "ada",
    workspace: workspaceId,
    role: "member",
    operator: false,
    personal: true,
  });
  expect((await api.call("GET", "/runs", undefined, as(await token(), "default"))).status).toBe(403);
  expect(await api.call("GET", "/runs", undefined, as(await token()))).toMatchObject({
    status: 400,
    body: { detail: expect.stringContaining("X-Everdict-Workspace") },
  });
  expect(
    (await api.call("GET", "/workspaces", undefined, as(await token()))).body.items.map(({ id }: { id: string }) => id),
  ).toEqual([workspaceId]);
});

test("a token with a wrong issuer, audience, time, signature or algorithm is refused", async () => {
  const encode = (value: unknown) => btoa(JSON.stringify(value)).replaceAll("=", "");
  const good = (await token()).split(".");
  const bad = {
    issuer: await token({ iss: "https://other.example" }),
    audience: await token({ aud: "other" }),
    expired: await token({ exp: Math.floor(Date.now() / 1_000) - 3_600 }),
    "signature of another key": foreign,
    "algorithm none": `${encode({ alg: "none", kid: "k1" })}.${good[1]}.`,
    "HMAC with the public key": withHmac,
    "changed payload": `${good[0]}.${encode({ iss: ISSUER, aud: AUDIENCE, sub: "root", exp: 9_999_999_999 })}.${good[2]}`,
    "not a token": "abc.def.ghi",
  };
  for (const [what, bearer] of Object.entries(bad)) {
    const answer = await api.call("GET", "/me", undefined, as(bearer, workspaceId));
    expect(answer.status, what).toBe(401);
    expect(answer.body.code).toBe("UNAUTHENTICATED");
    expect(answer.headers.get("www-authenticate")).toContain("Bearer");
  }
});

test("a member who is removed loses their personal API keys with the membership, and a demoted one the rights", async () => {
  const bearer = as(await token({ sub: "root" }), workspaceId);
  await api.call("PUT", "/members/bob", { role: "admin" }, bearer);
  const asBob = as(await token({ sub: "bob" }), workspaceId);
  const key = (await api.call("POST", "/api-keys", { name: "laptop", personal: true, scope: "admin" }, asBob)).body
    .token;
  expect((await api.call("GET", "/audit", undefined, as(key))).status).toBe(200);
  await api.call("PUT", "/members/bob", { role: "member" }, bearer);
  expect((await api.call("GET", "/audit", undefined, as(key))).status).toBe(403);
  await api.call("DELETE", "/members/bob", undefined, bearer);
  expect((await api.call("GET", "/me", undefined, as(key))).status).toBe(401);
  expect((await api.call("GET", "/me", undefined, asBob)).status).toBe(403);
});

test("the only admin cannot be removed or demoted", async () => {
  const bearer = as(await token({ sub: "root" }), workspaceId);
  expect((await api.call("DELETE", "/members/root", undefined, bearer)).status).toBe(409);
  expect((await api.call("PUT", "/members/root", { role: "viewer" }, bearer)).status).toBe(409);
});

test("API keys, runner tokens and log tokens are each good for one thing", async () => {
  const { api: own, token: key, id } = await workspace();
  const runner = (await own.call("POST", "/workspace/runners", { label: "box" })).body.token;
  const anyone = apiWith({ EVERDICT_ENV: "dev" });
  expect((await anyone.call("GET", "/me", undefined, as(runner))).status).toBe(401);
  expect((await anyone.call("POST", "/runner/lease", POLL, as(key))).status).toBe(401);
  expect((await anyone.call("POST", "/runner/lease", POLL)).status).toBe(401);
  expect((await anyone.call("POST", "/runner/lease", POLL, as(runner))).status).toBe(204);
  expect((await anyone.call("POST", "/runner/lease", POLL, as(runner.replace(`w-${id}`, "w-default")))).status).toBe(
    401,
  );
  expect(await anyone.call("POST", "/runner/lease", { ...POLL, protocol: 0 }, as(runner))).toMatchObject({
    status: 426,
    body: { code: "UPGRADE_REQUIRED", data: { minProtocol: 1 } },
  });
  expect(
    (
      await anyone.call("POST", "/runner/attempts/run_00000000000000000000000000/1/log?stream=stdout&offset=0", "x", {
        ...as(runner),
        "content-type": "application/octet-stream",
      })
    ).status,
  ).toBe(401);
  const { id: runnerId } = (await own.call("GET", "/workspace/runners")).body.items[0];
  expect((await own.call("DELETE", `/workspace/runners/${runnerId}`)).status).toBe(204);
  expect((await anyone.call("POST", "/runner/lease", POLL, as(runner))).status).toBe(401);
});

test("a workspace key owns no machines and cannot aim at a person's", async () => {
  const { api: own } = await workspace();
  expect((await own.call("POST", "/runners", { label: "x" })).status).toBe(400);
  expect(
    (
      await own.call("POST", "/runs", {
        harness: { spec: { kind: "command", command: "true" } },
        case: CASE,
        runtime: "self",
      })
    ).status,
  ).toBe(400);
  expect(
    (
      await dev.call("POST", "/runs", {
        harness: { spec: { kind: "command", command: "true" } },
        case: CASE,
        runtime: "self",
      })
    ).status,
  ).toBe(202);
});
