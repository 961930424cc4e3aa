import type * as z from "zod";
import { ClusterError } from "../transport/cluster-error.ts";
import { readBytes } from "../transport/read-body.ts";
import type { Transport } from "../transport/transport.ts";
import { grantText, type Right } from "./rights.ts";

export interface NomadClientOptions {
  transport: Transport;
  /** Secret id of the token; null where ACL is off. */
  token: string | null;
  namespace: string;
  region: string | null;
  sleep: (ms: number) => Promise<void>;
}

export interface NomadRequest {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** With encoded segments, without query. */
  path: string;
  query?: Readonly<Record<string, string>>;
  body?: unknown;
  /** What a refusal lacks. */
  right: Right;
  timeoutMs?: number;
  /** Bytes read before the answer is cut off with an error. */
  maxBytes?: number;
  /** Bounds the call beside its own time limit. */
  signal?: AbortSignal | undefined;
}

/** An answer whose meaning the caller decides. */
export interface NomadAnswer {
  status: number;
  /** Of a log, which need not be text. */
  bytes: Uint8Array;
  text: string;
  json: boolean;
  /** X-Nomad-Index; it differs per end point (N 37). 0 when absent. */
  index: number;
  nextToken: string | null;
  retryAfterSec: number | null;
  /** The server's clock, epoch ms; null when it did not say. */
  serverTimeMs: number | null;
}

const CALL_MS = 10_000;
const ANSWER_BYTES = 4 * 1024 * 1024;
/** Right after a server start a valid token gets 403 for 10–50 ms (N 15). */
const DENIED_AGAIN_MS = 250;
/** Words of an answer that are looked at. */
const WORDS_CHARS = 4_000;

/** Requests to one Nomad server: bounded in time and bytes, with typed errors. Holds no state between calls. */
export class NomadClient {
  readonly namespace: string;
  readonly #options: NomadClientOptions;

  constructor(options: NomadClientOptions) {
    this.#options = options;
    this.namespace = options.namespace;
  }

  /**
   * Any answer below 500 that came from a Nomad server, 403 after a second look included; 500 answers with text too, as
   * Nomad tells conflicts and validation so (N 6).
   * @throws ClusterError when no answer came, or one that no Nomad server gives
   */
  async ask(request: NomadRequest): Promise<NomadAnswer> {
    const answer = await this.#once(request);
    if (answer.status !== 403) return answer;
    await this.#options.sleep(DENIED_AGAIN_MS);
    return this.#once(request);
  }

  /**
   * The JSON of a 200.
   * @throws ClusterError; NOT_FOUND for 404
   */
  async read<T>(request: NomadRequest, schema: z.ZodType<T>): Promise<{ value: T; answer: NomadAnswer }> {
    const answer = await this.ask(request);
    if (answer.status !== 200) throw this.errorOf(answer, request);
    return { value: parsed(answer, schema), answer };
  }

  /** The error that an unexpected answer is. */
  errorOf(answer: NomadAnswer, request: Pick<NomadRequest, "method" | "right">): ClusterError {
    const words = answer.text.trim();
    const facts = { status: answer.status, uncertain: request.method !== "GET" && answer.status >= 500 };
    if (isDenied(answer)) {
      const grant =
        request.right === "none" ? "check the token in authSecret" : grantText(request.right, this.namespace);
      const message = `Nomad answered 'Permission denied': the token lacks a right, or namespace '${this.namespace}' is absent (the cluster does not tell which); ${grant}`;
      return new ClusterError("UPSTREAM_MISCONFIGURED", message, { ...facts, uncertain: false, reason: "denied" });
    }
    if (/nonexistent namespace/.test(words)) {
      const message = `namespace '${this.namespace}' does not exist on the Nomad cluster; create it or correct 'namespace' of the runtime`;
      return new ClusterError("UPSTREAM_MISCONFIGURED", message, { ...facts, uncertain: false, reason: "namespace" });
    }
    if (answer.status === 404) return new ClusterError("NOT_FOUND", "Nomad knows no such thing", facts);
    if (answer.status === 429) {
      const retryAfterSec = answer.retryAfterSec ?? 5;
      return new ClusterError("RATE_LIMITED", "Nomad asks for fewer requests", { ...facts, retryAfterSec });
    }
    if (/No cluster leader/.test(words)) {
      return new ClusterError("UPSTREAM_ERROR", "the Nomad servers have no leader", { ...facts, reason: "no-leader" });
    }
    const message = `Nomad answered HTTP ${answer.status}${answer.status >= 500 ? ": its server failed" : ""}`;
    const again = answer.retryAfterSec === null ? {} : { retryAfterSec: answer.retryAfterSec };
    return new ClusterError("UPSTREAM_ERROR", message, { ...facts, ...again });
  }

  async #once(request: NomadRequest): Promise<NomadAnswer> {
    const { transport, token, namespace, region } = this.#options;
    const query = new URLSearchParams({ namespace, ...(region === null ? {} : { region }), ...request.query });
    const deadlineMs = request.timeoutMs ?? CALL_MS;
    const limit = AbortSignal.timeout(deadlineMs);
    const signal = request.signal ? AbortSignal.any([limit, request.signal]) : limit;
    const write = request.method !== "GET";
    try {
      const response = await settled(
        transport.fetch({
          method: request.method,
          path: `${request.path}?${query}`,
          headers: {
            accept: "application/json, text/plain",
            ...(token === null ? {} : { "x-nomad-token": token }),
            ...(request.body === undefined ? {} : { "content-type": "application/json" }),
          },
          ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
          signal,
          deadlineMs,
        }),
        signal,
      );
      if (response.status >= 300 && response.status < 400) {
        await response.body?.cancel();
        throw new ClusterError("UPSTREAM_MISCONFIGURED", redirected(response.status), { status: response.status });
      }
      const bytes = await settled(readBytes(response, request.maxBytes ?? ANSWER_BYTES), signal);
      return answerOf(response.status, response.headers, bytes);
    } catch (error) {
      if (error instanceof ClusterError) throw error;
      throw brokenCall(error, signal.aborted, write);
    }
  }
}

const redirected = (status: number): string =>
  `the address answered HTTP ${status}, a redirect: give the address it leads to; a token is never sent along`;

/** What Nomad says where a right is missing: 403, and 500 on logs (N 24). */
export const isDenied = (answer: NomadAnswer): boolean =>
  answer.status === 403 || (answer.status === 500 && /Permission denied/.test(answer.text.slice(0, WORDS_CHARS)));

/** @throws ClusterError UPSTREAM_MISCONFIGURED when it is no JSON of that shape */
export function parsed<T>(answer: NomadAnswer, schema: z.ZodType<T>): T {
  try {
    if (answer.json) {
      const result = schema.safeParse(JSON.parse(answer.text));
      if (result.success) return result.data;
    }
  } catch {
    // Told below, without the text.
  }
  throw new ClusterError("UPSTREAM_MISCONFIGURED", "the address does not answer as a Nomad server does", {
    status: answer.status,
    reason: "not-nomad",
  });
}

function answerOf(status: number, headers: Headers, bytes: Uint8Array): NomadAnswer {
  const retryAfter = headers.get("retry-after");
  const date = Date.parse(headers.get("date") ?? "");
  return {
    status,
    bytes,
    text: new TextDecoder().decode(bytes),
    json: (headers.get("content-type") ?? "").startsWith("application/json"),
    index: Number(headers.get("x-nomad-index") ?? 0) || 0,
    nextToken: headers.get("x-nomad-nexttoken"),
    retryAfterSec: retryAfter !== null && /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : null,
    serverTimeMs: Number.isNaN(date) ? null : date,
  };
}

function brokenCall(error: unknown, aborted: boolean, write: boolean): ClusterError {
  const facts = { status: null, uncertain: write, cause: error };
  if (aborted) {
    return new ClusterError("UPSTREAM_TIMEOUT", "Nomad did not answer in time", { ...facts, reason: "timeout" });
  }
  const words = `${error instanceof Error ? error.message : ""} ${causeOf(error)}`;
  if (/certificate|self.signed|TLS|SSL|ERR_TLS/i.test(words)) {
    const message = "the certificate of the Nomad server is not trusted; use a publicly trusted one, or a relay";
    return new ClusterError("UPSTREAM_MISCONFIGURED", message, { ...facts, reason: "tls" });
  }
  return new ClusterError("UPSTREAM_ERROR", "the Nomad server cannot be reached", { ...facts, reason: "connect" });
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error ? `${cause.message} ${"code" in cause ? String(cause.code) : ""}` : "";
}

/** A transport may be slow to notice the signal; the caller never is. */
function settled<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    work.then(resolve, reject);
  });
}
