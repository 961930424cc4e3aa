import type * as z from "zod";
import { parseAnswer } from "./answers.ts";
import { type ApiClient, ApiError, ApiUnreachable } from "./api-client.ts";
import type { Logger } from "./log.ts";

/** Exit statuses of `everdict runner` and `everdict relay`. */
export const EXIT = { ok: 0, failed: 1, usage: 2, revoked: 3, upgrade: 4, replaced: 5 } as const;

/** Ends the process with words that say what to do. */
export class FatalError extends Error {
  override readonly name = "FatalError";
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

export type Called<T> =
  | { ok: true; value: T | null }
  | { ok: false; retryAfterSec: number | null; refused: ApiError | null };

export interface SessionOptions {
  client: ApiClient;
  token: string;
  instanceId: string;
  log: Logger;
  /** Called once with the reason when going on makes no sense: token revoked, protocol too old. */
  fatal(error: FatalError): void;
}

/** The runner's side of its conversation: one token, one instance, and what each kind of refusal means. */
export class Session {
  readonly instanceId: string;
  readonly #options: SessionOptions;
  #reachable = true;
  #closed = false;
  #lastAnswer: Date | null = null;

  constructor(options: SessionOptions) {
    this.instanceId = options.instanceId;
    this.#options = options;
  }

  /** The conversation is over: calls in flight are cut, and their ends say nothing. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#options.client.close();
  }

  /** Whether the last call was answered. */
  get reachable(): boolean {
    return this.#reachable;
  }

  /** One call; network errors and refusals come back as values. `value` is null for an empty answer (204). */
  async call<T>(path: string, body: unknown, timeoutMs: number, shape: z.ZodType<T>): Promise<Called<T>> {
    try {
      const answer = await this.#options.client.postJson(path, this.#options.token, body, timeoutMs);
      const value = answer.json === null ? null : parseAnswer(shape, answer.json);
      if (value === undefined) {
        throw new ApiUnreachable(`an answer of an unknown shape to ${path}; is this runner too old?`);
      }
      this.#answered();
      return { ok: true, value };
    } catch (error) {
      return this.#failed(path, error);
    }
  }

  #answered(): void {
    if (!this.#reachable) this.#options.log.info("the control plane answers again");
    this.#reachable = true;
    this.#lastAnswer = new Date();
  }

  #failed(path: string, error: unknown): Called<never> {
    const api = error instanceof ApiError ? error : null;
    if (api?.status === 401) this.#options.fatal(revoked());
    else if (api?.status === 426) this.#options.fatal(tooOld(api));
    const transient = api === null || api.transient;
    if (transient && this.#reachable && !this.#closed) {
      const lastAnswer = this.#lastAnswer?.toISOString() ?? "never";
      this.#options.log.warn("cannot reach the control plane; running jobs go on", {
        path,
        reason: error instanceof Error ? error.message : String(error),
        lastAnswer,
      });
    }
    if (transient) this.#reachable = false;
    return { ok: false, retryAfterSec: api?.retryAfterSec ?? null, refused: transient ? null : api };
  }
}

function revoked(): FatalError {
  return new FatalError(
    "the token of this runner was revoked or is not known; pair again: create a runner on the account page and start `everdict runner --pair <token>`",
    EXIT.revoked,
  );
}

function tooOld(error: ApiError): FatalError {
  const least = error.data.minProtocol;
  return new FatalError(
    `this runner is too old for the control plane${least === undefined ? "" : ` (it needs protocol ${String(least)})`}; upgrade it: npm install -g everdict`,
    EXIT.upgrade,
  );
}
