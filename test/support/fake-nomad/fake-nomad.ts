import type { Transport, TransportRequest, TransportResponse } from "../../../worker/backends/transport/transport.ts";
import { type FakeClock, VirtualClock } from "./clock.ts";
import { FakeCluster } from "./cluster.ts";
import { Faults } from "./faults.ts";
import { serveFiles } from "./files.ts";
import { filterOf } from "./filter.ts";
import { type Answer, type FakeNode, type FakeToken, text } from "./model.ts";
import { deregister, plan, register } from "./register.ts";
import { allocatedResources, allocationRow, evaluationRow, jobRow, jobStub, nodeRow, statusRow } from "./rows.ts";
import { serveVariable } from "./variables.ts";

export interface FakeNomadOptions {
  clock?: FakeClock;
  /** As the servers tell it; 1.6.10 has no jobs/statuses and drops Disconnect. */
  version?: string;
  namespaces?: string[];
  /** Off: no token is needed. */
  acl?: boolean;
}

/** All that the least-privilege policy grants. */
export const LEAST_RIGHTS = [
  "list-jobs",
  "read-job",
  "submit-job",
  "read-fs",
  "variables:write",
  "variables:list",
  "variables:destroy",
  "node:read",
] as const;

interface Call {
  method: string;
  path: string;
  query: URLSearchParams;
  token: FakeToken | null;
  namespace: string;
  body: Record<string, unknown>;
}

/** A Nomad server's HTTP API over a fake cluster, with its own words and codes. */
export class FakeNomad {
  readonly clock: FakeClock;
  readonly cluster: FakeCluster;
  readonly faults = new Faults();
  /** Every request as "METHOD path". */
  readonly requests: string[] = [];
  readonly #namespaces: Set<string>;
  readonly #acl: boolean;

  constructor(options: FakeNomadOptions = {}) {
    this.clock = options.clock ?? new VirtualClock();
    this.cluster = new FakeCluster(this.clock, options.version ?? "2.0.5");
    this.#namespaces = new Set(options.namespaces ?? ["default"]);
    this.#acl = options.acl ?? true;
    this.cluster.addNode("cli1");
  }

  /** A token with these rights in all namespaces. */
  addToken(secret: string, rights: readonly string[] = LEAST_RIGHTS, type: FakeToken["type"] = "client"): string {
    this.cluster.tokens.set(secret, { accessor: this.cluster.newId(), type, rights: new Set(rights) });
    return secret;
  }

  /** Reaches this server. */
  transport(): Transport {
    return { fetch: (request) => this.#carry(request) };
  }

  async #carry(request: TransportRequest): Promise<TransportResponse> {
    const line = `${request.method} ${request.path}`;
    this.requests.push(line);
    // As a network does, it lets timers and other work go first.
    await new Promise((resolve) => setImmediate(resolve));
    const fault = this.faults.take(line);
    if (fault?.kind === "drop") throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
    if (fault?.kind === "hang") return this.faults.hang(request.signal);
    if (fault?.kind === "answer") return responseOf(fault.answer, this.clock.now());
    if (fault?.kind === "endless") return this.faults.endless();
    const answer = await this.handle(request.method, request.path, request.headers["x-nomad-token"], request.body);
    if (fault?.kind === "lost-answer") throw new TypeError("fetch failed", { cause: new Error("read ECONNRESET") });
    return responseOf(answer, this.clock.now());
  }

  /** One request, as the server answers it. */
  async handle(method: string, target: string, secret?: string, body?: string): Promise<Answer> {
    this.cluster.settle();
    const url = new URL(target, "http://nomad");
    const path = decodeURIComponent(url.pathname);
    const token = secret === undefined ? null : (this.cluster.tokens.get(secret) ?? null);
    let parsed: unknown = {};
    if (body !== undefined) {
      try {
        parsed = JSON.parse(body);
      } catch {
        return text(400, "unexpected EOF");
      }
    }
    const call: Call = {
      method,
      path,
      query: url.searchParams,
      token,
      namespace: url.searchParams.get("namespace") ?? "default",
      body: isRecord(parsed) ? parsed : {},
    };
    if (path === "/v1/acl/token/self") return this.#self(call, secret);
    return this.#route(call);
  }

  #allowed({ token, namespace }: Call, right: string): boolean {
    if (!this.#acl || token?.type === "management") return true;
    // A limited token cannot tell a missing namespace from a missing right (N 23).
    return token?.rights.has(right) === true && (right === "node:read" || this.#namespaces.has(namespace));
  }

  async #route(call: Call): Promise<Answer> {
    const { method, path } = call;
    const denied = (right: string): Answer | null =>
      this.#allowed(call, right) ? null : text(403, "Permission denied");
    const [, , kind = "", id = "", verb = ""] = path.split("/");
    // A register in a namespace that is not there is refused before any right is looked at.
    if (path === "/v1/jobs" && method === "POST" && call.token && !this.#namespaces.has(call.namespace))
      return register(this.cluster, call.body, this.#namespaces);
    if (path === "/v1/jobs" && method === "POST")
      return denied("submit-job") ?? register(this.cluster, call.body, this.#namespaces);
    if (path === "/v1/jobs" && method === "GET") return denied("list-jobs") ?? this.#listJobs(call);
    if (path === "/v1/jobs/statuses") return this.#statuses(call, denied);
    if (path === "/v1/allocations") return denied("read-job") ?? this.#listAllocations(call);
    if (path === "/v1/evaluations")
      return denied("read-job") ?? this.#filtered(call, this.cluster.evaluations.map(evaluationRow));
    if (kind === "job" && verb === "plan")
      return denied("submit-job") ?? plan(this.cluster, id, call.body, this.#namespaces);
    if (kind === "job" && verb === "scale") return denied("submit-job") ?? this.#scale(id, call.body);
    if (kind === "job" && method === "DELETE")
      return denied("submit-job") ?? deregister(this.cluster, id, call.query.get("purge") === "true");
    if (kind === "job") return denied("read-job") ?? this.#job(id, verb);
    if (kind === "client" && id === "fs") return this.#files(call);
    if (kind === "var" || kind === "vars") return this.#variables(call, denied);
    if (path === "/v1/nodes") return denied("node:read") ?? this.#nodes(call);
    if (kind === "node" && verb === "eligibility") return denied("node:write") ?? this.#eligibility(id, call.body);
    if (kind === "node") return denied("node:read") ?? this.#node(id);
    if (path === "/v1/client/stats") return denied("node:read") ?? this.#stats(call);
    if (path === "/v1/agent/members") return this.#members(call);
    if (path.startsWith("/v1/acl/policy/")) return this.#policy(call);
    return { status: 404, body: "" };
  }

  #self({ token }: Call, secret: string | undefined): Answer {
    const old = this.cluster.version.startsWith("1.6");
    if (!this.#acl) return text(400, "ACL support disabled");
    if (secret === undefined)
      return old
        ? text(500, "acl token lookup failed: missing secret id")
        : { status: 200, body: { AccessorID: "anonymous", SecretID: "", Type: "client", Policies: ["anonymous"] } };
    if (token)
      return {
        status: 200,
        body: { AccessorID: token.accessor, SecretID: secret, Type: token.type, Policies: ["everdict"] },
      };
    if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(secret))
      return text(500, "failed to parse signed token: go-jose/go-jose: compact JWS format must have three parts");
    return old ? text(404, "ACL token not found") : text(403, "Permission denied");
  }

  #filtered({ query }: Call, rows: Record<string, unknown>[]): Answer {
    const expression = query.get("filter");
    const filter = expression === null ? () => true : filterOf(expression);
    if (filter === null)
      return text(400, "failed to create result paginator: failed to read filter expression: no match found");
    const perPage = Number(query.get("per_page") ?? 0) || rows.length;
    return { status: 200, body: rows.filter(filter).slice(0, perPage), headers: this.#indexHeader() };
  }

  #indexHeader(): Record<string, string> {
    return { "x-nomad-index": String(this.cluster.index), "x-nomad-knownleader": "true", "x-nomad-lastcontact": "0" };
  }

  #listJobs(call: Call): Answer {
    const prefix = call.query.get("prefix") ?? "";
    const jobs = [...this.cluster.jobs.values()].filter(({ body }) => body.ID.startsWith(prefix));
    return this.#filtered(
      call,
      jobs.map((job) => jobStub(this.cluster, job, call.query.get("meta") === "true")),
    );
  }

  async #statuses(call: Call, denied: (right: string) => Answer | null): Promise<Answer> {
    if (this.cluster.version.startsWith("1.6")) return { status: 404, body: "" };
    const asked: unknown[] = Array.isArray(call.body.Jobs) ? call.body.Jobs : [];
    const ids = asked.flatMap((job) => (isRecord(job) ? [String(job.ID)] : []));
    const refused = denied("read-job");
    if (refused) return refused;
    const rows = (): Record<string, unknown>[] =>
      ids.flatMap((id) => {
        const job = this.cluster.jobs.get(id);
        return job ? [statusRow(this.cluster, job)] : [];
      });
    // With ids it stays asleep when other jobs change (N 36).
    await this.#block(call, () => JSON.stringify(rows()));
    return { status: 200, body: rows(), headers: this.#indexHeader() };
  }

  async #listAllocations(call: Call): Promise<Answer> {
    const prefix = call.query.get("prefix");
    if (prefix !== null && !/^([0-9a-f-]{2})*$/.test(prefix))
      return text(500, "alloc lookup failed: index error: Invalid UUID: encoding/hex: invalid byte");
    // Any change of any allocation wakes it (N 36).
    await this.#block(call, () => String(this.cluster.index));
    return this.#filtered(
      call,
      this.cluster.allocations.map((alloc) => {
        const row = allocationRow(this.cluster, alloc);
        if (call.query.get("task_states") === "false") row.TaskStates = null;
        return call.query.get("resources") === "true"
          ? { ...row, AllocatedResources: allocatedResources(this.cluster, alloc) }
          : row;
      }),
    );
  }

  async #block({ query }: Call, state: () => string): Promise<void> {
    const index = Number(query.get("index") ?? 0);
    if (index === 0 || index < this.cluster.index) return;
    const before = state();
    const deadline = this.clock.now() + Number.parseInt(query.get("wait") ?? "0", 10);
    const woken = new AbortController();
    const over = this.clock.wait(deadline - this.clock.now(), woken.signal).then(() => "over" as const);
    while (state() === before) {
      if ((await Promise.race([over, this.cluster.changed()])) === "over") break;
    }
    woken.abort();
    this.cluster.settle();
  }

  #job(id: string, verb: string): Answer {
    const job = this.cluster.jobs.get(id);
    const rows = this.cluster.of(id);
    // After a purge the list is empty while the container lives (N 48).
    if (verb === "allocations")
      return { status: 200, body: job ? rows.map((alloc) => allocationRow(this.cluster, alloc)) : [] };
    if (!job) return text(404, "job not found");
    if (verb === "evaluations")
      return { status: 200, body: this.cluster.evaluations.filter(({ jobId }) => jobId === id).map(evaluationRow) };
    return { status: 200, body: jobRow(this.cluster, job), headers: this.#indexHeader() };
  }

  #files(call: Call): Answer {
    const [, , , , verb = "", id = ""] = call.path.split("/");
    // Denied logs are a 500 with the same words (N 24).
    if (!this.#allowed(call, "read-fs")) return text(verb === "logs" ? 500 : 403, "Permission denied");
    return serveFiles(this.cluster, verb, id, call.query);
  }

  #variables(call: Call, denied: (right: string) => Answer | null): Answer {
    if (call.path === "/v1/vars") {
      // Without the right the list is empty, not refused (N 24).
      if (!this.#allowed(call, "variables:list")) return { status: 200, body: [] };
      const prefix = call.query.get("prefix") ?? "";
      const rows = [...this.cluster.variables].filter(([path]) => path.startsWith(prefix));
      return {
        status: 200,
        body: rows.map(([Path, { modifyMs, modifyIndex }]) => ({
          Path,
          ModifyTime: modifyMs * 1e6,
          ModifyIndex: modifyIndex,
        })),
      };
    }
    const right = { GET: "variables:read", DELETE: "variables:destroy" }[call.method] ?? "variables:write";
    const items = isRecord(call.body.Items)
      ? Object.fromEntries(Object.entries(call.body.Items).map(([key, value]) => [key, String(value)]))
      : undefined;
    return (
      denied(right) ?? serveVariable(this.cluster, call.method, call.path.slice("/v1/var/".length), call.query, items)
    );
  }

  #nodes(call: Call): Answer {
    const resources = call.query.get("resources") === "true";
    return this.#filtered(
      call,
      [...this.cluster.nodes.values()].map((node) => nodeRow(node, resources)),
    );
  }

  #nodeOf(id: string): FakeNode | undefined {
    return [...this.cluster.nodes.values()].find((node) => node.id === id);
  }

  #node(id: string): Answer {
    const node = this.#nodeOf(id);
    if (!node) return text(404, "node not found");
    const Attributes = { ...node.attributes, "cpu.arch": "amd64", "kernel.version": "6.1.0-40-amd64" };
    return { status: 200, body: { ...nodeRow(node, true), SecretID: "a node's own secret", Attributes } };
  }

  #eligibility(id: string, body: Record<string, unknown>): Answer {
    const node = this.#nodeOf(id);
    if (!node) return text(500, "node not found");
    node.eligible = body.Eligibility === "eligible";
    this.cluster.bump();
    this.cluster.unblock();
    return { status: 200, body: { EvalCreateIndex: 0, EvalIDs: null, Index: this.cluster.index, NodeModifyIndex: 0 } };
  }

  #stats({ query }: Call): Answer {
    const id = query.get("node_id");
    if (id === null) return text(400, "No local Node and node_id not provided");
    const node = this.#nodeOf(id);
    if (!node) return text(404, `Unknown node: ${id}`);
    if (!node.alive) return text(404, "No path to node");
    const Memory = { Available: 3 * 2 ** 30, Free: 2 ** 30, Total: node.memoryMb * 2 ** 20, Used: 512 * 2 ** 20 };
    return {
      status: 200,
      body: { Memory, CPUTicksConsumed: 120.816, Uptime: 5_435, Timestamp: this.clock.now() * 1e6 },
    };
  }

  /** Groups of a service change their count; a batch job takes it too, on a real server, and runs more copies. */
  #scale(id: string, body: Record<string, unknown>): Answer {
    const job = this.cluster.jobs.get(id);
    if (!job) return text(404, `job "${id}" not found`);
    const target = isRecord(body.Target) ? String(body.Target.Group) : "";
    const group = job.body.TaskGroups?.find(({ Name }) => Name === target);
    if (!group) return text(400, `task group "${target}" specified for scaling does not exist in job`);
    group.Count = Number(body.Count);
    return { status: 200, body: { EvalID: this.cluster.newId(), JobModifyIndex: this.cluster.bump() } };
  }

  #members({ token }: Call): Answer {
    if (this.#acl && !token) return text(403, "Permission denied");
    return {
      status: 200,
      body: { Members: [{ Name: "srv1.global", Tags: { build: this.cluster.version, region: "global" } }] },
    };
  }

  #policy({ token }: Call): Answer {
    if (!token) return text(403, "Permission denied");
    return { status: 200, body: { Name: "everdict", Rules: `capabilities = ["${[...token.rights].join('", "')}"]` } };
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value);

function responseOf({ status, body, headers }: Answer, nowMs: number): TransportResponse {
  const plain = typeof body === "string" || body instanceof Uint8Array;
  const all = new Headers({ date: new Date(nowMs).toUTCString(), ...headers });
  if (!(plain && body === "")) all.set("content-type", plain ? "text/plain; charset=utf-8" : "application/json");
  const response = new Response(status === 204 ? null : plain ? (body as string) : JSON.stringify(body), {
    status,
    headers: all,
  });
  return { status, headers: response.headers, body: response.body };
}
