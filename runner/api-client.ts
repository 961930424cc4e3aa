import type { Dispatcher } from "undici";
import { EnvHttpProxyAgent, fetch } from "undici";
import * as z from "zod";
import { RUNNER_VERSION } from "./version.ts";

/** No usable answer: the network, a proxy, or a deadline. Always worth another try. */
export class ApiUnreachable extends Error {
  override readonly name = "ApiUnreachable";
}

/** An answer that is not a success. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string | null;
  readonly data: Readonly<Record<string, unknown>>;
  readonly retryAfterSec: number | null;

  constructor(status: number, problem: z.infer<typeof ProblemLike>, retryAfterSec: number | null) {
    super(problem.detail ?? problem.title ?? `the control plane answered ${status}`);
    this.status = status;
    this.code = problem.code ?? null;
    this.data = problem.data ?? {};
    this.retryAfterSec = retryAfterSec;
  }

  /** Whether the same request may succeed later. */
  get transient(): boolean {
    return this.status >= 500 || this.status === 429 || this.status === 408 || this.status === 425;
  }
}

const ProblemLike = z.object({
  title: z.string().optional().catch(undefined),
  detail: z.string().optional().catch(undefined),
  code: z.string().optional().catch(undefined),
  data: z.record(z.string(), z.unknown()).optional().catch(undefined),
});

/** Largest answer that is read. Programs of up to 768 KiB come many in one answer. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;

export interface Call {
  token: string;
  body: Uint8Array | string;
  contentType: string;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

export interface Answer {
  status: number;
  /** Parsed JSON; null for an empty body. */
  json: unknown;
}

/** HTTP to the control plane: proxies of the environment (HTTPS_PROXY, NO_PROXY), deadlines, problem documents. */
export class ApiClient {
  readonly #base: string;
  readonly #dispatcher: Dispatcher;

  /** @param apiUrl address of the control plane, with or without a trailing slash */
  constructor(apiUrl: string, dispatcher?: Dispatcher) {
    this.#base = apiUrl.replace(/\/+$/, "");
    // Every call has its own deadline; a parked poll is silent for longer than undici's default for idle bodies.
    this.#dispatcher =
      dispatcher ?? new EnvHttpProxyAgent({ headersTimeout: 0, bodyTimeout: 0, connectTimeout: 10_000 });
  }

  /**
   * @throws ApiUnreachable when there was no answer in time
   * @throws ApiError when the answer is not a success
   */
  async post(path: string, call: Call): Promise<Answer> {
    const deadline = AbortSignal.timeout(call.timeoutMs);
    const signal = call.signal ? AbortSignal.any([deadline, call.signal]) : deadline;
    let status: number;
    let text: string;
    let retryAfter: string | null;
    try {
      const response = await fetch(`${this.#base}${path}`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${call.token}`,
          "content-type": call.contentType,
          "user-agent": `everdict/${RUNNER_VERSION}`,
        },
        body: call.body,
        redirect: "manual",
        dispatcher: this.#dispatcher,
        signal,
      });
      status = response.status;
      retryAfter = response.headers.get("retry-after");
      text = await response.text();
    } catch (error) {
      throw new ApiUnreachable(reasonOf(error, deadline.aborted, call.timeoutMs), { cause: error });
    }
    if (text.length > MAX_ANSWER_BYTES) throw new ApiUnreachable("the answer is too large");
    return read(status, text, retryAfter);
  }

  async postJson(path: string, token: string, body: unknown, timeoutMs: number): Promise<Answer> {
    return this.post(path, { token, body: JSON.stringify(body), contentType: "application/json", timeoutMs });
  }

  async close(): Promise<void> {
    await this.#dispatcher.destroy();
  }
}

function read(status: number, text: string, retryAfter: string | null): Answer {
  let json: unknown = null;
  try {
    json = text === "" ? null : JSON.parse(text);
  } catch {
    // A proxy's page instead of an answer: as good as none, whatever its status.
    if (status < 400) throw new ApiUnreachable(`an answer that is not JSON (status ${status}); is a proxy in between?`);
  }
  if (status >= 200 && status < 300) return { status, json };
  const problem = ProblemLike.safeParse(json);
  const seconds = retryAfter !== null && /^\d+$/.test(retryAfter) ? Number(retryAfter) : null;
  throw new ApiError(status, problem.success ? problem.data : {}, seconds);
}

function reasonOf(error: unknown, timedOut: boolean, timeoutMs: number): string {
  if (timedOut) return `no answer within ${Math.round(timeoutMs / 1_000)} s`;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}
