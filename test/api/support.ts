import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env as workerEnv } from "cloudflare:workers";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { Env } from "../../worker/environment.ts";
import { createApp } from "../../worker/http/app.ts";

// SAFETY: wrangler.toml and vitest.config.ts bind exactly these.
export const env = workerEnv as unknown as Env;

const app = createApp();
const ORIGIN = "http://127.0.0.1:8787";

export interface Answer {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came back
  body: any;
}

export interface Api {
  fetch(request: Request): Promise<Response>;
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** A real MCP client, connected to this API with these headers. */
  mcp(headers?: Record<string, string>): Promise<Client>;
}

/** The Worker with some bindings changed; `headers` go with each call. */
export function apiWith(
  overrides: Partial<Record<keyof Env | `SECRET_${string}`, unknown>>,
  headers: Record<string, string> = {},
): Api {
  const bindings = { ...env, ...overrides } as Env;
  const fetch = async (request: Request): Promise<Response> => {
    const ctx = createExecutionContext();
    const response = await app.fetch(request, bindings, ctx);
    if (response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
    await waitOnExecutionContext(ctx);
    return response;
  };
  const api: Api = {
    fetch,
    async call(method, path, body, extra = {}) {
      const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
      const request = new Request(ORIGIN + path, {
        method,
        headers: { ...(text === undefined ? {} : { "content-type": "application/json" }), ...headers, ...extra },
        ...(text === undefined ? {} : { body: text }),
      });
      const response = await fetch(request);
      const answer = await response.text();
      let parsed: unknown = answer;
      try {
        parsed = answer === "" ? undefined : JSON.parse(answer);
      } catch {
        // Text answers stay text.
      }
      return { status: response.status, headers: response.headers, body: parsed };
    },
    async mcp(extra = {}) {
      const client = new Client({ name: "test", version: "1.0.0" });
      const transport = new StreamableHTTPClientTransport(new URL(`${ORIGIN}/mcp`), {
        requestInit: { headers: { ...headers, ...extra } },
        fetch: (url, init) => fetch(new Request(String(url), init as RequestInit)),
      });
      await client.connect(transport);
      return client;
    },
  };
  return api;
}

/** As `npm start` runs it: a caller without a credential is subject `dev`. */
export const dev = apiWith({ EVERDICT_ENV: "dev" });

let counter = 0;

/** A fresh workspace, and its API with an API key of the given role. */
export async function workspace(
  role: "viewer" | "member" | "admin" = "admin",
  scope: "read" | "write" | "admin" = "admin",
): Promise<{ id: string; api: Api; token: string }> {
  const id = `ws-${Date.now().toString(36)}-${counter++}`;
  await dev.call("POST", "/workspaces", { id, name: id });
  const { token } = (await dev.call("POST", "/api-keys", { name: "test", role, scope }, { "x-everdict-workspace": id }))
    .body;
  return { id, token, api: apiWith({ EVERDICT_ENV: "dev" }, { authorization: `Bearer ${token}` }) };
}

/** Another key of the same workspace. */
export async function keyFor(
  id: string,
  role: "viewer" | "member" | "admin",
  scope: "read" | "write" | "admin",
  personal = false,
): Promise<Api> {
  const { token } = (
    await dev.call("POST", "/api-keys", { name: role, role, scope, personal }, { "x-everdict-workspace": id })
  ).body;
  return apiWith({ EVERDICT_ENV: "dev" }, { authorization: `Bearer ${token}` });
}

export const NOMAD = {
  kind: "nomad",
  id: "gpu",
  version: "1.0.0",
  addr: "https://nomad.acme.dev",
  image: "busybox:1.36",
  namespace: "evals",
  authSecret: "NOMAD_TOKEN",
  maxConcurrent: 20,
  memoryBudgetMb: 65_536,
  cpuMhzPerCore: 3_000,
  constraints: [{ attribute: "${node.class}", operator: "=", value: "gpu" }],
  tags: ["gpu"],
};
export const ECHO = {
  kind: "command",
  id: "echo",
  version: "1.0.0",
  setup: ["cd work"],
  command: "printf '%s' {{task}}",
  env: { MODE: "fast" },
};
/** A poll of a runner's process with one slot, as it goes over the wire. */
export const POLL = {
  protocol: 1,
  instanceId: "i",
  machineId: "m",
  waitMs: 0,
  slots: { total: 1, free: 1 },
  labels: [],
  capabilities: ["git", "docker"],
  os: "linux",
  arch: "x64",
  version: "0",
};

export const CASE = {
  id: "c1",
  task: "say hi",
  expected: "hi",
  graders: [{ kind: "exit-code" }, { kind: "contains", value: "hi", weight: 2 }],
  timeoutSec: 60,
};
export const DATASET = { id: "smoke", version: "1.0.0", cases: [CASE, { ...CASE, id: "c2", tags: ["smoke"] }] };
