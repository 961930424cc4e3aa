import type { Transport, TransportRequest, TransportResponse } from "../../../worker/backends/transport/transport.ts";
import { type Call, failure, json, KINDS, type Reply, ResourceApi } from "./api.ts";
import { type ClusterLaws, Controllers } from "./controllers.ts";
import { ObjectStore, part } from "./store.ts";

/** What happens to a request instead of, or after, its work. */
export type Fault =
  | { kind: "answer"; status: number; body?: string; headers?: Record<string, string> }
  /** The write takes effect and its answer is lost. */
  | { kind: "lost-answer" }
  | { kind: "broken" }
  | { kind: "hangs" };

export interface FakeOptions extends Partial<ClusterLaws> {
  namespace: string;
  token: string;
  /** What the token may not do, as "verb resource". */
  denied?: ReadonlySet<string>;
  /** The cluster's clock runs so many times faster, so that graces of a minute pass in seconds; default 20. */
  speed?: number;
}

const VERBS: Record<string, string> = { GET: "get", POST: "create", PATCH: "patch", DELETE: "delete" };
const USER = 'User "system:serviceaccount:evals:everdict"';

/**
 * A Kubernetes with the laws that the backend relies on, in one process: programs really run, as processes of this
 * machine. Checked against recordings of a real one.
 */
export class FakeKubernetes {
  readonly store: ObjectStore;
  readonly controllers: Controllers;
  readonly api: ResourceApi;
  /** Every request, as "METHOD path". */
  readonly requests: string[] = [];
  /** Asked for each request; null lets it pass. */
  fault: (request: { method: string; path: string }) => Fault | null = () => null;
  readonly #options: FakeOptions;
  readonly denied: Set<string>;
  /** What a metrics-server would say of the nodes; without one its path is a 404 in plain text (K 80). */
  metrics: { metadata: { name: string }; usage: Record<string, string> }[] | null = null;

  constructor(options: FakeOptions) {
    this.#options = options;
    const began = Date.now();
    const speed = options.speed ?? 20;
    this.store = new ObjectStore(() => new Date(began + (Date.now() - began) * speed));
    this.denied = new Set(options.denied ?? []);
    this.controllers = new Controllers(this.store, {
      images: options.images ?? new Set(["everdict/busybox:1"]),
      cpuMillis: options.cpuMillis ?? 2_000,
      memoryMib: options.memoryMib ?? 4_096,
      podQuota: options.podQuota ?? null,
      lagMs: options.lagMs ?? 10,
    });
    this.api = new ResourceApi(this.store, this.controllers);
    this.store.add("namespaces", "", { metadata: { name: options.namespace } });
    this.store.add(
      "nodes",
      "",
      { metadata: { name: "node-a" }, spec: {} },
      { nodeInfo: { operatingSystem: "linux" }, conditions: [{ type: "Ready", status: "True" }] },
    );
  }

  /** The fake as the way to a cluster. */
  transport(): Transport {
    return { fetch: (request) => this.#fetch(request) };
  }

  dispose(): void {
    this.controllers.dispose();
  }

  async #fetch(request: TransportRequest): Promise<TransportResponse> {
    // A network never answers within the same turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    const url = new URL(request.path, "http://fake");
    this.requests.push(`${request.method} ${url.pathname}`);
    const fault = this.fault({ method: request.method, path: request.path });
    if (fault?.kind === "broken") throw new TypeError("fetch failed");
    if (fault?.kind === "hangs")
      return new Promise((_, reject) => {
        request.signal.addEventListener("abort", () => reject(request.signal.reason));
      });
    if (fault?.kind === "answer")
      return this.#responseOf({ status: fault.status, body: fault.body ?? "", headers: fault.headers ?? {} });
    const headers = new Headers(request.headers);
    const reply = this.#answer(
      { method: request.method, path: url.pathname, query: url.searchParams, headers, body: request.body ?? "" },
      request.signal,
    );
    if (fault?.kind === "lost-answer") throw new TypeError("fetch failed");
    return this.#responseOf(reply);
  }

  #answer(call: Call, gone: AbortSignal): Reply {
    if (call.headers.get("authorization") !== `Bearer ${this.#options.token}`)
      return failure(401, "Unauthorized", "Unauthorized");
    if (call.path === "/version") return json(200, { major: "1", minor: "34", gitVersion: "v1.34.4" });
    if (call.path === "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews") return this.#review(call);
    if (call.path === "/apis/metrics.k8s.io/v1beta1/nodes" && this.metrics !== null)
      return json(200, { kind: "NodeMetricsList", metadata: {}, items: this.metrics });
    const match =
      /^\/(?:api|apis\/(?:apps|batch|networking\.k8s\.io))\/v1(?:\/namespaces\/([^/]+)(?=\/))?\/([a-z]+)(?:\/([^/]+))?(?:\/(log|scale))?$/.exec(
        call.path,
      );
    const [, namespace = "", resource = "", name, sub] = match ?? [];
    if (!match || !(resource in KINDS))
      return { status: 404, headers: { "content-type": "text/plain" }, body: "404 page not found\n" };
    const watch = call.query.get("watch") !== null;
    const verb = watch ? "watch" : call.method === "GET" && name === undefined ? "list" : (VERBS[call.method] ?? "get");
    const full = sub === undefined ? resource : `${resource}/${sub}`;
    if (this.#refuses(verb, full, resource === "namespaces" ? (name ?? "") : namespace)) {
      const group = KINDS[resource]?.group ?? "";
      const what = group === "" ? resource : `${resource}.${group}`;
      return failure(
        403,
        "Forbidden",
        `${what}${name === undefined ? "" : ` "${name}"`} is forbidden: ${USER} cannot ${verb} resource "${full}" in API group "${group}" in the namespace "${namespace}"`,
      );
    }
    return this.#serve(verb, resource, namespace, name, sub, call, gone);
  }

  #serve(
    verb: string,
    resource: string,
    namespace: string,
    name: string | undefined,
    sub: string | undefined,
    call: Call,
    gone: AbortSignal,
  ): Reply {
    if (verb === "watch") return this.api.watch(resource, namespace, call, gone);
    if (verb === "list") return this.api.list(resource, namespace, call);
    if (verb === "create") return this.api.create(resource, namespace, call);
    if (name === undefined) return failure(405, "MethodNotAllowed", "the server does not allow this method");
    if (sub === "scale") return this.api.scale(namespace, name, call);
    if (sub === "log") return this.api.log(namespace, name, call);
    if (verb === "patch") return this.api.patch(resource, namespace, name, call);
    if (verb === "delete") return this.api.delete(resource, namespace, name, call);
    return this.api.read(resource, namespace, name);
  }

  /** A limited token gets 403 in any namespace but its own, whether that exists or not. */
  #refuses(verb: string, resource: string, namespace: string): boolean {
    if (this.denied.has(`${verb} ${resource}`)) return true;
    return namespace !== "" && namespace !== this.#options.namespace;
  }

  #review(call: Call): Reply {
    const spec = part(JSON.parse(call.body), "spec");
    const { verb, resource, subresource, namespace = "" } = part(spec, "resourceAttributes");
    const full = subresource === undefined ? String(resource) : `${String(resource)}/${String(subresource)}`;
    const allowed = !this.#refuses(String(verb), full, String(namespace));
    return json(201, {
      kind: "SelfSubjectAccessReview",
      apiVersion: "authorization.k8s.io/v1",
      metadata: {},
      spec,
      status: { allowed },
    });
  }

  #responseOf(reply: Reply): TransportResponse {
    const headers = new Headers({ date: this.store.now().toUTCString(), ...reply.headers });
    const response = new Response(typeof reply.body === "string" ? reply.body : streamOf(reply.body));
    return { status: reply.status, headers, body: response.body };
  }
}

function streamOf(chunks: AsyncIterable<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = chunks[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}
