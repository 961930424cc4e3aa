import { EverdictError } from "../../contracts/errors.ts";
import type { BodyOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { SESSION_OPERATIONS, Session } from "../../contracts/operations/session.ts";
import { authenticateKey, authenticateSession, devPrincipal } from "../auth/authenticate.ts";
import { sha256 } from "../auth/digest.ts";
import type { Principal } from "../auth/principal.ts";
import {
  forget,
  pendingSignIn,
  readSession,
  rememberSignIn,
  requireOwnPage,
  SESSION_SEC,
  startSession,
} from "../auth/session.ts";
import { beginSignIn, completeSignIn } from "../auth/session-oidc.ts";
import { iso, type Store } from "../context.ts";
import type { Config } from "../environment.ts";
import { logFailure, problemResponse } from "../http/problem.ts";
import { auditSession } from "../observability/session-audit.ts";
import { endedSessions } from "../store/schema.ts";

type Ops = typeof SESSION_OPERATIONS;

/** What signing in touches. Nobody is authenticated yet. */
export interface SessionContext {
  request: Request;
  config: Config;
  store: Store;
  requestId: string;
  now(): number;
  waitUntil(promise: Promise<unknown>): void;
}

const HOME = "/dashboard";
const SIGN_IN_PAGE = "/dashboard/sign-in";

const inputsOf = ({ request, store, config, now, waitUntil }: SessionContext) => ({
  request,
  store,
  config,
  now: now(),
  waitUntil,
  workspaceOptional: true,
  workspaceInQuery: false,
});

const bare = (status: number, cookies: string[], location?: string): Response => {
  const headers = new Headers({ "cache-control": "no-store", "referrer-policy": "no-referrer" });
  for (const cookie of cookies) headers.append("set-cookie", cookie);
  if (location !== undefined) headers.set("location", location);
  return new Response(null, { status, headers });
};

function withCookies(response: Response, cookies: string[]): Response {
  for (const cookie of cookies) response.headers.append("set-cookie", cookie);
  return response;
}

const json = (body: Session, status: number, cookies: string[] = []): Response =>
  withCookies(Response.json(body, { status, headers: { "cache-control": "no-store" } }), cookies);

function described(
  config: Config,
  principal: Principal | null,
  method: "api-key" | "oidc" | "dev",
  expiresMs: number | null,
  ended: string | null = null,
): Session {
  return {
    session: principal && {
      method,
      subject: principal.subject,
      personal: principal.person !== null,
      workspace: principal.workspace === "" ? null : principal.workspace,
      role: principal.workspace === "" ? null : principal.role,
      scope: principal.scope,
      operator: principal.operator,
      expiresAt: expiresMs === null ? null : iso(expiresMs),
    },
    ended,
    methods: ["api-key", ...(config.signIn ? (["oidc"] as const) : []), ...(config.dev ? (["dev"] as const) : [])],
    issuer: config.signIn?.issuer ?? null,
  };
}

/** GET /session: an answer for everybody; a session that is none any more says why. */
export async function getSession(ctx: SessionContext): Promise<Response> {
  const { config } = ctx;
  // Which workspace the page shows is not this operation's matter.
  const headers = new Headers(ctx.request.headers);
  headers.delete("x-everdict-workspace");
  const inputs = { ...inputsOf(ctx), request: new Request(ctx.request.url, { headers }) };
  try {
    const session = await readSession(ctx.request, config, ctx.now());
    if (session === null)
      return json(described(config, config.dev ? await devPrincipal(inputs) : null, "dev", null), 200);
    return json(described(config, await authenticateSession(session, inputs), session.method, session.expiresMs), 200);
  } catch (error) {
    if (!(error instanceof EverdictError) || error.code !== "UNAUTHENTICATED") throw error;
    return json(described(config, null, "dev", null, error.message), 200);
  }
}

/** POST /session: a session that acts as the given key. @throws EverdictError UNAUTHENTICATED, FORBIDDEN */
export async function createSession(
  ctx: SessionContext,
  { body }: { body: BodyOf<Ops["create_session"]> },
): Promise<Response> {
  const { request, config } = ctx;
  // Nobody is to be signed in by another site's page; programs send neither header.
  if (request.headers.has("origin") || request.headers.has("sec-fetch-site")) requireOwnPage(request, config);
  const { principal, keyId } = await authenticateKey(body.apiKey, inputsOf(ctx));
  const now = ctx.now();
  const cookie = await startSession(
    request,
    config,
    { method: "api-key", keyId, keyHash: await keyFingerprint(body.apiKey) },
    now,
  );
  await auditSession(ctx, "session.start", { ...principal, method: "api-key" });
  const expiresMs = (Math.floor(now / 1_000) + SESSION_SEC) * 1_000;
  return json(described(config, principal, "api-key", expiresMs), 201, [cookie]);
}

/** Tells a key from one that replaced it under the same id. */
const keyFingerprint = async (token: string): Promise<string> => (await sha256(token)).slice(0, 16);

/** DELETE /session: copies of the cookie are worth nothing from then on. @throws EverdictError FORBIDDEN */
export async function endSession(ctx: SessionContext): Promise<Response> {
  const { request, config, store } = ctx;
  requireOwnPage(request, config);
  const session = await readSession(request, config, ctx.now()).catch(() => null);
  if (session !== null) {
    // One that is none any more is not ended again.
    const principal = await authenticateSession(session, inputsOf(ctx)).catch(() => null);
    await store
      .insert(endedSessions)
      .values({ id: session.id, expiresAt: iso(session.expiresMs) })
      .onConflictDoNothing()
      .run();
    if (principal) await auditSession(ctx, "session.end", { ...principal, method: session.method });
  }
  return bare(204, [await forget(request, config, "session"), await forget(request, config, "sign-in")]);
}

/** GET /session/oidc/start. @throws EverdictError NOT_FOUND, UNAVAILABLE */
export async function startOidcSession(
  ctx: SessionContext,
  { query }: { query: QueryOf<Ops["start_oidc_session"]> },
): Promise<Response> {
  const { request, config } = ctx;
  const { url, pending } = await beginSignIn(request, config, query.returnTo ?? HOME, ctx.now());
  return bare(302, [await rememberSignIn(request, config, pending, ctx.now())], url);
}

/** The page has its own words for each code: an address is anybody's to write, so that no words go by it. */
const failedSignIn = ({ code, data }: EverdictError): string =>
  `${SIGN_IN_PAGE}?error=${code}${data?.provider === "access_denied" ? "&provider=access_denied" : ""}`;

/** GET /session/oidc/callback: a browser is told of a failure on the sign-in page, a program by a problem document. */
export async function finishOidcSession(ctx: SessionContext): Promise<Response> {
  const { request, config } = ctx;
  const forgotten = await forget(request, config, "sign-in");
  try {
    const pending = await pendingSignIn(request, config, ctx.now());
    const person = await completeSignIn(request, config, pending, ctx.now());
    const cookie = await startSession(request, config, { method: "oidc", ...person }, ctx.now());
    await auditSession(ctx, "session.start", { subject: person.subject, workspace: "", method: "oidc" });
    return bare(302, [forgotten, cookie], pending.returnTo);
  } catch (error) {
    if (!(error instanceof EverdictError)) throw error;
    logFailure(error, ctx.requestId, error);
    if ((request.headers.get("accept") ?? "").includes("text/html")) return bare(302, [forgotten], failedSignIn(error));
    return withCookies(problemResponse(error, ctx.requestId), [forgotten]);
  }
}
