import { drizzle } from "drizzle-orm/d1";
import { EverdictError } from "../contracts/errors.ts";
import { formatId, type IdKind } from "../contracts/names.ts";
import type { Principal } from "./auth/principal.ts";
import type { Config, Env } from "./environment.ts";

export type Store = ReturnType<typeof storeOf>;

/** A first-primary view of D1: what was written is read, so a registration or a revocation counts at once. */
export function storeOf(env: Env) {
  // SAFETY: drizzle uses prepare and batch only, which a session has with the same types.
  const session = env.DB.withSession("first-primary") as unknown as D1Database;
  return Object.assign(drizzle(session, { casing: "snake_case" }), { d1: session });
}

/** Everything a handler may touch. */
export interface Context {
  env: Env;
  config: Config;
  principal: Principal;
  requestId: string;
  store: Store;
  /** Origin under which the caller reaches us. */
  origin: string;
  now(): number;
  /** A fresh id; of a request with an Idempotency-Key the same one again when it is repeated after a crash. */
  newId(kind: IdKind): string;
  waitUntil(promise: Promise<unknown>): void;
}

export const iso = (ms: number): string => new Date(ms).toISOString();

/** Ids from true randomness. */
export const randomIds = (now: () => number) => (kind: IdKind) =>
  formatId(kind, now(), crypto.getRandomValues(new Uint8Array(10)));

/**
 * Bounds a wait on a store or an object: D1 may stall for a minute or more.
 * @throws EverdictError UNAVAILABLE after `ms`
 */
export async function withDeadline<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new EverdictError("UNAVAILABLE", `${what} did not answer in time; try again`, { retryAfterSec: 5 })),
      ms,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
