import { Hono } from "hono";
import { EverdictError } from "../../contracts/errors.ts";
import { OPERATION_LIST } from "../../contracts/operations/index.ts";
import type { Operation } from "../../contracts/operations/operation.ts";
import { authenticate } from "../auth/authenticate.ts";
import { sha256 } from "../auth/digest.ts";
import { authorize } from "../auth/principal.ts";
import { type Context, randomIds, storeOf } from "../context.ts";
import { configOf, type Env } from "../environment.ts";
import { handleMcp } from "../mcp/server.ts";
import { logEvent } from "../observability/log.ts";
import { metrics } from "../observability/metrics.ts";
import * as leaseProtocol from "../services/lease.ts";
import { connectRelay } from "../services/relays.ts";
import * as session from "../services/session.ts";
import { DEFAULT_MAX_BODY_BYTES, readBytes, readJson } from "./body.ts";
import { callOperation } from "./call.ts";
import { guardDevelopment } from "./development.ts";
import { type Input, STREAMS, WITHOUT_WORKSPACE } from "./handlers.ts";
import { openApiDocument } from "./openapi.ts";
import { servePage } from "./pages.ts";
import { parseInput } from "./parse.ts";
import { asEverdictError, logFailure, problemResponse } from "./problem.ts";
import { JsonText } from "./reply.ts";
import { SplitRouter } from "./router.ts";
import { whileAllowed } from "./sse.ts";

type Bindings = { Bindings: Env; Variables: { requestId: string } };

const now = () => Date.now();
const newId = randomIds(now);

export async function contextOf(
  env: Env,
  request: Request,
  requestId: string,
  waitUntil: (promise: Promise<unknown>) => void,
  operation: Pick<Operation, "name" | "outputType">,
): Promise<Context> {
  const config = configOf(env);
  const store = storeOf(env);
  const principal = await authenticate({
    request,
    store,
    config,
    now: now(),
    waitUntil,
    workspaceOptional: WITHOUT_WORKSPACE.has(operation.name),
    workspaceInQuery: operation.outputType === "sse",
  });
  return {
    env,
    config,
    principal,
    requestId,
    store,
    origin: config.publicUrl ?? new URL(request.url).origin,
    now,
    newId,
    waitUntil,
  };
}

const honoPath = (path: string) => path.replaceAll(/\{(\w+)\}/g, ":$1");

function queryOf(url: URL): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name, value] of url.searchParams) {
    if (name in out)
      throw new EverdictError("BAD_REQUEST", `query parameter '${name.slice(0, 100)}' is given twice`, {
        issues: [{ path: name.slice(0, 300), message: "give it once" }],
      });
    out[name] = value;
  }
  return out;
}

function jsonResponse(body: unknown, status: number, headers: Record<string, string>): Response {
  if (body === undefined || status === 204) return new Response(null, { status: 204, headers });
  return textResponse(JSON.stringify(body), status, headers);
}

const textResponse = (json: string, status: number, headers: Record<string, string>): Response =>
  new Response(json, { status, headers: { "content-type": "application/json", ...headers } });

/** A read may be asked with If-None-Match, so that polling costs no transfer. */
async function withETag(request: Request, response: Response, text: string): Promise<Response> {
  const etag = `"${(await sha256(text)).slice(0, 32)}"`;
  const known = (request.headers.get("if-none-match") ?? "").split(",").map((item) => item.trim().replace(/^W\//, ""));
  response.headers.set("etag", etag);
  response.headers.set("cache-control", "no-cache");
  return known.includes(etag) || known.includes("*")
    ? new Response(null, { status: 304, headers: response.headers })
    : response;
}

async function serveUser(
  operation: Operation,
  request: Request,
  env: Env,
  params: Record<string, string>,
  requestId: string,
  waitUntil: (promise: Promise<unknown>) => void,
): Promise<Response> {
  const ctx = await contextOf(env, request, requestId, waitUntil, operation);
  const query = queryOf(new URL(request.url));
  const stream = STREAMS[operation.name as keyof typeof STREAMS] as
    | ((ctx: Context, input: Input<unknown>, request: Request) => Promise<Response>)
    | undefined;
  if (stream) {
    authorize(ctx.principal, operation.action);
    const input = parseInput(operation, { params, query, body: undefined }) as Input<unknown>;
    return whileAllowed(await stream(ctx, input, request), async () => {
      try {
        const again = await contextOf(env, request, requestId, waitUntil, operation);
        authorize(again.principal, operation.action);
        return true;
      } catch (error) {
        return !(error instanceof EverdictError && (error.status === 401 || error.status === 403));
      }
    });
  }
  const { text, value } =
    request.method === "GET"
      ? { text: "", value: undefined }
      : await readJson(request, operation.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES);
  const answer = await callOperation(
    ctx,
    operation,
    { params, query, body: value, bodyText: text },
    request.headers.get("idempotency-key"),
  );
  const headers = { ...answer.headers, ...(operation.sensitive ? { "cache-control": "no-store" } : {}) };
  if (operation.outputType === "text")
    return new Response(String(answer.body), {
      status: answer.status,
      headers: {
        "content-type": "text/plain; charset=utf-8",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        ...headers,
      },
    });
  if (operation.method !== "GET" || answer.status !== 200) return jsonResponse(answer.body, answer.status, headers);
  const json = JSON.stringify(answer.body);
  return withETag(request, textResponse(json, answer.status, headers), json);
}

const SESSION_HANDLERS: Record<string, (ctx: session.SessionContext, input: never) => Promise<Response>> = {
  get_session: session.getSession,
  create_session: session.createSession,
  end_session: session.endSession,
  start_oidc_session: session.startOidcSession,
  finish_oidc_session: session.finishOidcSession,
};

async function servePublic(operation: Operation, input: unknown, ctx: session.SessionContext): Promise<Response> {
  const handler = SESSION_HANDLERS[operation.name];
  if (!handler) throw new EverdictError("INTERNAL", `operation ${operation.name} has no handler`);
  return handler(ctx, input as never);
}

async function publicInput(operation: Operation, request: Request, params: Record<string, string>): Promise<unknown> {
  const given = queryOf(new URL(request.url));
  // An identity provider adds what it likes to the address it sends people back to.
  const query =
    operation.name === "finish_oidc_session"
      ? Object.fromEntries(Object.entries(given).filter(([name]) => name in operation.query.shape))
      : given;
  const body =
    request.method === "GET"
      ? undefined
      : (await readJson(request, operation.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES)).value;
  return parseInput(operation, { params, query, body });
}

const RUNNER_HANDLERS: Record<string, (ctx: leaseProtocol.RunnerContext, input: never) => Promise<unknown>> = {
  runner_lease: leaseProtocol.lease,
  runner_heartbeat: leaseProtocol.heartbeat,
  runner_results: leaseProtocol.results,
  runner_log: leaseProtocol.appendLog,
};

async function serveRunner(
  operation: Operation,
  request: Request,
  env: Env,
  params: Record<string, string>,
): Promise<Response> {
  // Nobody without a token of the right form makes us read a body.
  leaseProtocol.requireToken(operation.audience, request);
  const max = operation.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES;
  const body = operation.bodyType === "bytes" ? await readBytes(request, max) : (await readJson(request, max)).value;
  leaseProtocol.checkRawProtocol(body);
  const input = parseInput(operation, { params, query: queryOf(new URL(request.url)), body });
  const handler = RUNNER_HANDLERS[operation.name];
  if (!handler) throw new EverdictError("INTERNAL", `operation ${operation.name} has no handler`);
  const answer = await handler({ env, config: configOf(env), request }, input as never);
  const headers = operation.sensitive ? { "cache-control": "no-store" } : {};
  if (answer instanceof JsonText) return textResponse(answer.json, operation.status, headers);
  return jsonResponse(answer ?? undefined, answer === null ? 204 : operation.status, headers);
}

/** The Worker's whole HTTP front, made from the operation table. */
export function createApp(): Hono<Bindings> {
  const app = new Hono<Bindings>({ router: new SplitRouter(), strict: false });
  app.use(async (c, next) => {
    const started = now();
    const requestId = newId("req");
    c.set("requestId", requestId);
    guardDevelopment(c.req.raw, configOf(c.env));
    await next();
    c.res.headers.set("x-request-id", requestId);
    const { pathname } = new URL(c.req.url);
    // The lease protocol's polls would drown everything else.
    if (!pathname.startsWith("/runner/") || c.res.status >= 400)
      logEvent("request", {
        requestId,
        method: c.req.method,
        path: pathname.slice(0, 300),
        status: c.res.status,
        ms: now() - started,
      });
  });
  app.onError((error, c) => {
    const requestId = c.get("requestId") ?? newId("req");
    const known = asEverdictError(error);
    logFailure(known, requestId, error);
    return problemResponse(known, requestId);
  });
  for (const operation of OPERATION_LIST) {
    app.on(operation.method, honoPath(operation.path), (c) => {
      const params: Record<string, string> = { ...(c.req.param() as Record<string, string>) };
      const waitUntil = (promise: Promise<unknown>) => c.executionCtx.waitUntil(promise);
      if (operation.audience === "public")
        return publicInput(operation, c.req.raw, params).then((input) =>
          servePublic(operation, input, {
            request: c.req.raw,
            config: configOf(c.env),
            store: storeOf(c.env),
            requestId: c.get("requestId"),
            now,
            waitUntil,
          }),
        );
      if (operation.audience !== "user") return serveRunner(operation, c.req.raw, c.env, params);
      return serveUser(operation, c.req.raw, c.env, params, c.get("requestId"), waitUntil);
    });
  }
  app.get("/relay/connect", (c) => connectRelay(c.env, c.req.raw));
  app.all("/mcp", async (c) =>
    handleMcp(
      c.req.raw,
      await contextOf(c.env, c.req.raw, c.get("requestId"), (promise) => c.executionCtx.waitUntil(promise), {
        name: "mcp",
      }),
    ),
  );
  app.get("/openapi.json", (c) => {
    const json = JSON.stringify(openApiDocument(configOf(c.env).publicUrl ?? new URL(c.req.url).origin));
    return withETag(c.req.raw, textResponse(json, 200, {}), json);
  });
  app.get("/healthz", (c) => {
    const config = configOf(c.env);
    return c.json({
      ok: true,
      environment: config.dev ? "dev" : "production",
      vault: config.vault !== null,
      oidc: config.oidc !== null,
    });
  });
  app.get("/metrics", (c) => metrics(c.env, c.req.raw));
  app.notFound(async (c) => {
    const page = await servePage(c.env, c.req.raw);
    if (page) return page;
    const { pathname } = new URL(c.req.url);
    return problemResponse(
      new EverdictError(
        "NOT_FOUND",
        `there is no ${c.req.method} ${pathname.slice(0, 200)}; /docs lists the operations`,
      ),
      c.get("requestId"),
    );
  });
  return app;
}
