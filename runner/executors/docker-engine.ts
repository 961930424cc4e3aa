import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { Agent, type Dispatcher, request } from "undici";
import type { EngineFacts } from "../probe/findings.ts";

/** The engine's own refusal. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** No answer from the engine. */
export class EngineUnreachable extends Error {
  override readonly name = "EngineUnreachable";
}

export interface EngineAddress {
  origin: string;
  dispatcher: Dispatcher;
  /** The address as its user knows it. */
  shown: string;
}

const CALL_MS = 60_000;
const MAX_JSON_BYTES = 16 * 1024 * 1024;

/**
 * Where the engine is: DOCKER_HOST (unix, npipe, tcp; with DOCKER_TLS_VERIFY and DOCKER_CERT_PATH), or the usual socket.
 * @throws EngineUnreachable for an address that is not supported
 */
export function engineAddress(env: NodeJS.ProcessEnv): EngineAddress {
  const socket = process.platform === "win32" ? "npipe:////./pipe/docker_engine" : "unix:///var/run/docker.sock";
  const shown = env.DOCKER_HOST || socket;
  const idle = { headersTimeout: 0, bodyTimeout: 0 };
  const url = URL.parse(shown);
  if (shown.startsWith("unix://") || shown.startsWith("npipe://")) {
    const socketPath = shown.slice(shown.indexOf("://") + 3);
    return { shown, origin: "http://docker", dispatcher: new Agent({ ...idle, connect: { socketPath } }) };
  }
  if (url?.protocol !== "tcp:" && url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new EngineUnreachable(`DOCKER_HOST '${shown}' is not supported; use unix://, npipe:// or tcp://`);
  }
  const folder = env.DOCKER_CERT_PATH;
  if (!env.DOCKER_TLS_VERIFY || !folder) {
    return { shown, origin: `http://${url.host}`, dispatcher: new Agent(idle) };
  }
  const pem = (name: string): Buffer => readFileSync(join(folder, name));
  const connect = { ca: pem("ca.pem"), cert: pem("cert.pem"), key: pem("key.pem") };
  return { shown, origin: `https://${url.host}`, dispatcher: new Agent({ ...idle, connect }) };
}

export interface EngineCall {
  query?: Record<string, string>;
  json?: unknown;
  body?: Uint8Array | Readable;
  contentType?: string;
  headers?: Record<string, string>;
  /** 0: no deadline, for calls that wait for a container. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** The Engine API over its socket. Paths carry no version: the engine then speaks its own. */
export class DockerEngine {
  readonly #address: EngineAddress;

  constructor(address: EngineAddress) {
    this.#address = address;
  }

  /**
   * One call; the body is the caller's to read.
   * @throws EngineUnreachable without an answer
   * @throws EngineError for an answer that is not a success
   */
  async open(method: Dispatcher.HttpMethod, path: string, call: EngineCall = {}): Promise<Dispatcher.ResponseData> {
    const query = call.query ? `?${new URLSearchParams(call.query).toString()}` : "";
    const timeoutMs = call.timeoutMs ?? CALL_MS;
    const signals = [...(call.signal ? [call.signal] : []), ...(timeoutMs > 0 ? [AbortSignal.timeout(timeoutMs)] : [])];
    let response: Dispatcher.ResponseData;
    try {
      response = await request(`${this.#address.origin}${path}${query}`, {
        method,
        dispatcher: this.#address.dispatcher,
        headers: {
          ...(call.json === undefined ? {} : { "content-type": "application/json" }),
          ...(call.contentType === undefined ? {} : { "content-type": call.contentType }),
          ...call.headers,
        },
        body: call.json === undefined ? (call.body ?? null) : JSON.stringify(call.json),
        ...(signals.length > 0 ? { signal: AbortSignal.any(signals) } : {}),
      });
    } catch (error) {
      throw new EngineUnreachable(`the docker engine at ${this.#address.shown} does not answer: ${words(error)}`, {
        cause: error,
      });
    }
    if (response.statusCode < 400) return response;
    const text = await readText(response.body);
    throw new EngineError(response.statusCode, messageOf(text));
  }

  /** One call with a JSON answer. */
  async json(method: Dispatcher.HttpMethod, path: string, call: EngineCall = {}): Promise<unknown> {
    const response = await this.open(method, path, call);
    try {
      const text = await readText(response.body);
      return text === "" ? null : JSON.parse(text);
    } catch (error) {
      throw new EngineUnreachable(`the docker engine's answer broke off: ${words(error)}`, { cause: error });
    }
  }

  /** One call whose answer does not matter. */
  async send(method: Dispatcher.HttpMethod, path: string, call: EngineCall = {}): Promise<void> {
    const response = await this.open(method, path, call);
    await response.body.dump();
  }

  /** Version and runtimes, within 5 s, or the reason why there are none. */
  async facts(): Promise<EngineFacts | { reason: string; fix: string }> {
    try {
      const info = await this.json("GET", "/info", { timeoutMs: 5_000 });
      const { ServerVersion, Runtimes } = asRecord(info);
      return { version: String(ServerVersion ?? "unknown"), runtimes: Object.keys(asRecord(Runtimes)) };
    } catch (error) {
      const denied = /EACCES|permission denied/i.test(words(error));
      const fix = denied
        ? "add this user to the docker group, or point DOCKER_HOST at a rootless engine"
        : "start the docker engine, or set DOCKER_HOST";
      return { reason: error instanceof Error ? error.message : String(error), fix };
    }
  }
}

/** A plain object of unknown values; empty when it is none. */
export function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}

function words(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}

async function readText(body: Readable): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of body) {
    const chunk = Buffer.isBuffer(part) ? part : Buffer.from(String(part));
    bytes += chunk.length;
    if (bytes > MAX_JSON_BYTES) throw new EngineUnreachable("the docker engine's answer is too large");
    parts.push(chunk);
  }
  return Buffer.concat(parts).toString("utf8");
}

function messageOf(text: string): string {
  try {
    const { message } = asRecord(JSON.parse(text));
    if (typeof message === "string") return message;
  } catch {
    // Not JSON: a proxy or a very old engine.
  }
  return text.slice(0, 500) || "no reason given";
}
