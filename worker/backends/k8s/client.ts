import { EverdictError } from "../../../contracts/errors.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { readBody } from "../transport/read-body.ts";
import type { Transport, TransportRequest, TransportResponse } from "../transport/transport.ts";
import { apiError } from "./api-error.ts";
import type { Right } from "./rights.ts";

/** A plain call; a frozen etcd would hang a GET for 60 s and a POST for 34 s. */
const CALL_MS = 10_000;
/** A page of 500 pods is about 5 MB. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;

const METHODS = { create: "POST", get: "GET", list: "GET", watch: "GET", patch: "PATCH", delete: "DELETE" } as const;

export interface CallOptions {
  /** Needed by get, patch and delete. */
  name?: string;
  query?: Readonly<Record<string, string>>;
  body?: unknown;
  /** Content type of a patch. */
  contentType?: string;
  accept?: string;
  deadlineMs?: number;
}

/** An answer of the API as JSON, with the cluster's own clock. */
export interface Answer {
  json: unknown;
  /** The server's time at the answer, epoch ms; ours when it does not say. */
  nowMs: number;
  /** Warning headers, as policies and unknown fields cause them. */
  warnings: string[];
}

/** HTTP of the Kubernetes API: one right, one call; deadline, size bound, typed errors. Keeps nothing between calls. */
export class K8sClient {
  readonly #transport: Transport;
  readonly #token: string | null;
  readonly namespace: string;

  /** @param token bearer token; null where the transport brings the identity */
  constructor(transport: Transport, token: string | null, namespace: string) {
    this.#transport = transport;
    this.#token = token;
    this.namespace = namespace;
  }

  /** @throws ClusterError */
  async call(right: Right, options: CallOptions = {}): Promise<Answer> {
    return this.#json(await this.open(right, options));
  }

  /** Any path, for what is no resource: /version and access reviews. @throws ClusterError */
  async raw(method: "GET" | "POST", path: string, body?: unknown): Promise<Answer> {
    const right: Right = { group: "", version: "v1", resource: path, verb: "get", scope: "cluster", use: "probe" };
    return this.#json(await this.#send(right, method, path, { body }));
  }

  /** An answer whose body the caller reads, bounded by the deadline; it is a success. @throws ClusterError */
  async open(right: Right, options: CallOptions = {}): Promise<TransportResponse> {
    const query = new URLSearchParams(options.query).toString();
    const path = `${this.#path(right, options.name)}${query === "" ? "" : `?${query}`}`;
    return this.#send(right, METHODS[right.verb], path, options);
  }

  #path(right: Right, name: string | undefined): string {
    const root = right.group === "" ? `/api/${right.version}` : `/apis/${right.group}/${right.version}`;
    const place = right.scope === "cluster" || right.resource === "namespaces" ? "" : `/namespaces/${this.namespace}`;
    const item = name === undefined ? "" : `/${encodeURIComponent(name)}`;
    const sub = right.subresource === undefined ? "" : `/${right.subresource}`;
    return `${root}${place}/${right.resource}${item}${sub}`;
  }

  async #send(
    right: Right,
    method: TransportRequest["method"],
    path: string,
    options: CallOptions,
  ): Promise<TransportResponse> {
    const deadlineMs = options.deadlineMs ?? CALL_MS;
    const headers: Record<string, string> = { accept: options.accept ?? "application/json", "user-agent": "everdict" };
    if (this.#token !== null) headers.authorization = `Bearer ${this.#token}`;
    if (options.body !== undefined) headers["content-type"] = options.contentType ?? "application/json";
    let response: TransportResponse;
    try {
      response = await this.#transport.fetch({
        method,
        path,
        headers,
        body: options.body === undefined ? undefined : JSON.stringify(options.body),
        signal: AbortSignal.timeout(deadlineMs),
        deadlineMs,
      });
      if (response.status >= 200 && response.status < 300) return response;
      throw apiError(right, response, await errorText(response));
    } catch (error) {
      throw networkError(error, deadlineMs, method !== "GET");
    }
  }

  async #json(response: TransportResponse): Promise<Answer> {
    let text: string;
    try {
      text = await readBody(response, MAX_BODY_BYTES);
    } catch (error) {
      throw networkError(error, CALL_MS, true);
    }
    const date = Date.parse(response.headers.get("date") ?? "");
    try {
      return {
        json: JSON.parse(text),
        nowMs: Number.isNaN(date) ? Date.now() : date,
        warnings: warningsOf(response.headers.get("warning")),
      };
    } catch {
      throw new ClusterError(
        "UPSTREAM_MISCONFIGURED",
        "the address does not answer in JSON: it is not the API of Kubernetes",
        { status: response.status, reason: "NotJson", uncertain: true },
      );
    }
  }
}

/** The texts of Warning headers, which fetch joins: 299 - "text", 299 - "text". */
function warningsOf(header: string | null): string[] {
  const texts = (header ?? "").slice(0, 8_000).matchAll(/\d{3} \S+ "((?:[^"\\]|\\.)*)"/g);
  return [...texts].slice(0, 20).map(([, text]) => (text ?? "").replace(/\\(.)/g, "$1"));
}

/** A refusal whose words broke off on the way says too little to act on: it is no refusal, but a broken connection. */
async function errorText(response: TransportResponse): Promise<string> {
  try {
    return await readBody(response, MAX_ERROR_BYTES);
  } catch (error) {
    if (error instanceof ClusterError && error.reason === "TooLarge") return "";
    throw error;
  }
}

/** What went wrong on the way. `write`: it may have taken effect all the same. */
function networkError(error: unknown, deadlineMs: number, write: boolean): EverdictError {
  if (error instanceof EverdictError) return error;
  const late = error instanceof DOMException && (error.name === "TimeoutError" || error.name === "AbortError");
  if (late)
    return new ClusterError("UPSTREAM_TIMEOUT", `no answer from the cluster within ${deadlineMs / 1_000} s`, {
      status: null,
      reason: "Timeout",
      uncertain: write,
      cause: error,
    });
  return new ClusterError(
    "UPSTREAM_ERROR",
    "the connection to the cluster could not be made or broke (name, port, certificate or network)",
    { status: null, reason: "Connect", uncertain: write, cause: error },
  );
}
