import { parse, serialize } from "hono/utils/cookie";
import { errors, type JWTPayload, jwtVerify, SignJWT } from "jose";
import { EverdictError } from "../../contracts/errors.ts";
import type { Config } from "../environment.ts";
import { fromBase64Url, randomSecret, sign } from "./digest.ts";

/** A browser session ends after so long, whatever it does. */
export const SESSION_SEC = 12 * 3_600;
/** A person has so long at the identity provider. */
const SIGN_IN_SEC = 10 * 60;

/** What a session stands for. It holds the id of a key, never the key. */
export type SessionSubject =
  | { method: "api-key"; keyId: string; keyHash: string }
  | { method: "oidc"; issuer: string; subject: string };

export type Session = SessionSubject & { id: string; expiresMs: number };

/** What must come back from the identity provider, kept in the browser that was sent there. */
export interface PendingSignIn {
  state: string;
  nonce: string;
  verifier: string;
  returnTo: string;
}

export const SECURE_SESSION_COOKIE = "__Host-everdict-session";
const PURPOSES = { session: "everdict-session+jwt", "sign-in": "everdict-sign-in+jwt" } as const;
type Purpose = keyof typeof PURPOSES;

/** Whether the browser reaches us by https, perhaps through something that speaks http to us. */
const isSecure = (request: Request, config: Config): boolean =>
  new URL(request.url).protocol === "https:" || config.publicUrl?.startsWith("https:") === true;

/** The origin the browser sees. */
export function browserOrigin(request: Request, config: Config): string {
  const { origin, protocol } = new URL(request.url);
  return protocol !== "https:" && config.publicUrl?.startsWith("https:") ? new URL(config.publicUrl).origin : origin;
}

/**
 * `__Host-` binds a cookie to this very host over https. Over http browsers share cookies between all ports of a host, so
 * the name tells deployments apart: a session of another one is not ours to refuse.
 */
async function cookieName(request: Request, config: Config, purpose: Purpose): Promise<string> {
  if (isSecure(request, config)) return purpose === "session" ? SECURE_SESSION_COOKIE : `__Host-everdict-${purpose}`;
  const deployment = (await sign(config.signingKey, "cookie-name", "")).replaceAll(/[^A-Za-z0-9]/g, "").slice(0, 8);
  return `everdict-${purpose}-${deployment}`;
}

async function cookieHeader(
  request: Request,
  config: Config,
  purpose: Purpose,
  value: string,
  maxAge: number,
): Promise<string> {
  const name = await cookieName(request, config, purpose);
  return serialize(name, value, {
    path: "/",
    httpOnly: true,
    sameSite: "Lax",
    secure: isSecure(request, config),
    maxAge,
  });
}

/** The Set-Cookie that makes a browser forget. */
export const forget = (request: Request, config: Config, purpose: Purpose): Promise<string> =>
  cookieHeader(request, config, purpose, "", 0);

const keys = new Map<string, Promise<Uint8Array>>();

/** A key of its own for each purpose: a token for one is worthless for the other. */
function keyFor(config: Config, purpose: Purpose): Promise<Uint8Array> {
  const name = `${purpose}\n${config.signingKey}`;
  let key = keys.get(name);
  if (!key) {
    key = sign(config.signingKey, "cookie-key", purpose).then((text) => fromBase64Url(text) ?? new Uint8Array());
    keys.set(name, key);
  }
  return key;
}

async function seal(config: Config, purpose: Purpose, claims: JWTPayload, nowMs: number, lifeSec: number) {
  const now = Math.floor(nowMs / 1_000);
  return new SignJWT(claims)
    .setProtectedHeader({ alg: "HS256", typ: PURPOSES[purpose] })
    .setJti(randomSecret())
    .setIssuedAt(now)
    .setExpirationTime(now + lifeSec)
    .sign(await keyFor(config, purpose));
}

/** @throws EverdictError UNAUTHENTICATED when it is expired, changed or made for something else */
async function open(config: Config, purpose: Purpose, token: string, nowMs: number): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, await keyFor(config, purpose), {
      algorithms: ["HS256"],
      typ: PURPOSES[purpose],
      requiredClaims: ["jti", "exp"],
      currentDate: new Date(nowMs),
    });
    return payload;
  } catch (error) {
    throw ended(error instanceof errors.JWTExpired ? "expired" : "invalid");
  }
}

const ENDED = {
  expired: "the session has expired; sign in again",
  invalid: "the session cookie is not one of ours; sign in again",
  ended: "the session was signed out; sign in again",
  revoked: "the API key of this session was revoked; sign in again",
  issuer: "the identity provider of this session is no longer used here; sign in again",
} as const;

/** Why a session is none any more. */
export const ended = (why: keyof typeof ENDED): EverdictError =>
  new EverdictError("UNAUTHENTICATED", ENDED[why], { data: { session: why } });

async function cookieOf(request: Request, config: Config, purpose: Purpose): Promise<string | null> {
  const header = request.headers.get("cookie");
  if (header === null) return null;
  const name = await cookieName(request, config, purpose);
  return parse(header, name)[name] ?? null;
}

/** The Set-Cookie of a new session. */
export async function startSession(
  request: Request,
  config: Config,
  subject: SessionSubject,
  nowMs: number,
): Promise<string> {
  const token = await seal(config, "session", { ...subject }, nowMs, SESSION_SEC);
  return cookieHeader(request, config, "session", token, SESSION_SEC);
}

/**
 * The session that came as a cookie, or null. Whether it was signed out, or its key revoked, is for the store to say.
 * @throws EverdictError UNAUTHENTICATED when the cookie is expired or not one of ours
 */
export async function readSession(request: Request, config: Config, nowMs: number): Promise<Session | null> {
  const token = await cookieOf(request, config, "session");
  if (token === null) return null;
  const { jti = "", exp = 0, method, keyId, keyHash, issuer, subject } = await open(config, "session", token, nowMs);
  const base = { id: jti, expiresMs: exp * 1_000 };
  if (method === "api-key") return { ...base, method, keyId: String(keyId), keyHash: String(keyHash) };
  if (method === "oidc") return { ...base, method, issuer: String(issuer), subject: String(subject) };
  throw ended("invalid");
}

export async function rememberSignIn(
  request: Request,
  config: Config,
  pending: PendingSignIn,
  nowMs: number,
): Promise<string> {
  const token = await seal(config, "sign-in", { ...pending }, nowMs, SIGN_IN_SEC);
  return cookieHeader(request, config, "sign-in", token, SIGN_IN_SEC);
}

/** What this browser was sent away with. @throws EverdictError UNAUTHENTICATED when it was not, or too long ago */
export async function pendingSignIn(request: Request, config: Config, nowMs: number): Promise<PendingSignIn> {
  const token = await cookieOf(request, config, "sign-in");
  const claims = token === null ? null : await open(config, "sign-in", token, nowMs).catch(() => null);
  if (claims === null)
    throw new EverdictError(
      "UNAUTHENTICATED",
      "this browser did not begin to sign in here, or too long ago; sign in again",
    );
  const { state, nonce, verifier, returnTo } = claims;
  return { state: String(state), nonce: String(nonce), verifier: String(verifier), returnTo: String(returnTo) };
}

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS"]);
/** What any page may send anywhere without asking first. */
const SIMPLE_TYPES = new Set(["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"]);

/**
 * A cookie comes with whatever page makes the browser ask, so what changes something must be asked for by our own page.
 * @throws EverdictError FORBIDDEN, UNSUPPORTED_MEDIA_TYPE
 */
export function requireOwnPage(request: Request, config: Config): void {
  if (SAFE_METHODS.has(request.method)) return;
  const site = request.headers.get("sec-fetch-site");
  const origin = request.headers.get("origin");
  const own =
    site === null
      ? origin === new URL(request.url).origin || origin === browserOrigin(request, config)
      : site === "same-origin";
  if (!own)
    throw new EverdictError(
      "FORBIDDEN",
      "with a session cookie, changes are taken from pages of this site only; send an API key as 'Authorization: Bearer'",
    );
  const type = (request.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  if (SIMPLE_TYPES.has(type))
    throw new EverdictError(
      "UNSUPPORTED_MEDIA_TYPE",
      `with a session cookie, send the body as application/json, not '${type}'`,
    );
}
