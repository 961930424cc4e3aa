import { and, eq, isNull, lt } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { formatId, type IdKind } from "../../contracts/names.ts";
import { sha256, toHex } from "../auth/digest.ts";
import { type Context, iso } from "../context.ts";
import { idempotency } from "../store/schema.ts";

/** How long a request waits for an equal one that came a moment before. */
const TWIN_MS = 8_000;
const TWIN_LOOK_MS = 50;

/** After this a request that never finished is taken to have died with its process. */
const ABANDONED_MS = 30_000;
export const IDEMPOTENCY_KEPT_MS = 24 * 3_600_000;

interface Stored {
  status: number;
  body: unknown;
}

/** Ids that are the same each time: sfc32 seeded by 128 random bits that were stored before the first id was made. */
export function seededIds(seed: string, createdMs: number): (kind: IdKind) => string {
  let [a = 0, b = 0, c = 0, d = 0] = [0, 8, 16, 24].map((at) => Number.parseInt(seed.slice(at, at + 8), 16) | 0);
  const next = () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t;
    return t & 0xff;
  };
  for (let i = 0; i < 16; i++) next();
  return (kind) => formatId(kind, createdMs, Uint8Array.from({ length: 10 }, next));
}

/**
 * Runs `make` once per Idempotency-Key: the same key and body get the same answer for 24 h, another body is refused.
 * Tokens are shown once: a replayed answer has `token: null`.
 * @throws EverdictError CONFLICT
 */
export async function once(
  ctx: Context,
  operation: string,
  key: string,
  bodyText: string,
  make: (ctx: Context) => Promise<Stored>,
): Promise<Stored & { replayed: boolean }> {
  if (key.length > 255 || !/^[\x21-\x7e]+$/.test(key)) {
    throw new EverdictError("BAD_REQUEST", "Idempotency-Key must be 1 to 255 printable characters without spaces");
  }
  const { store, principal } = ctx;
  const id = await sha256(JSON.stringify([principal.workspace, principal.subject, operation, key]));
  const bodyHash = await sha256(bodyText);
  const now = ctx.now();
  const fresh = { key: id, bodyHash, seed: toHex(crypto.getRandomValues(new Uint8Array(16))), createdAt: iso(now) };
  await store
    .delete(idempotency)
    .where(and(eq(idempotency.key, id), lt(idempotency.createdAt, iso(now - IDEMPOTENCY_KEPT_MS))))
    .run();
  const inserted = await store.insert(idempotency).values(fresh).onConflictDoNothing().run();
  const own = inserted.meta.changes === 1;
  const row = own ? { ...fresh, status: null, answer: null } : await twin(ctx, id, bodyHash);
  // The first one was refused and holds no key: this one gets an answer of its own.
  if (!row) return once(ctx, operation, key, bodyText, make);
  if (row.bodyHash !== bodyHash)
    throw new EverdictError(
      "CONFLICT",
      "this Idempotency-Key was used with another request; use a new key for a new request",
    );
  if (row.status !== null)
    return {
      status: row.status,
      body: withoutToken(row.answer === null ? undefined : JSON.parse(row.answer)),
      replayed: true,
    };
  if (!own && now - Date.parse(row.createdAt) < ABANDONED_MS) {
    throw new EverdictError(
      "CONFLICT",
      "the first request with this Idempotency-Key is still being worked on; repeat it in a moment",
      { retryAfterSec: 2 },
    );
  }
  try {
    const answer = await make({ ...ctx, newId: seededIds(row.seed, Date.parse(row.createdAt)) });
    await store
      .update(idempotency)
      .set({
        status: answer.status,
        answer: answer.body === undefined ? null : JSON.stringify(withoutToken(answer.body)),
      })
      .where(eq(idempotency.key, id))
      .run();
    return { ...answer, replayed: false };
  } catch (error) {
    // A refused request holds no key: it may be corrected and sent again.
    if (error instanceof EverdictError && error.status < 500)
      await store
        .delete(idempotency)
        .where(and(eq(idempotency.key, id), isNull(idempotency.status)))
        .run();
    throw error;
  }
}

/** The row of the request that came first, when it is answered, or as it is when that takes too long. */
async function twin(ctx: Context, id: string, bodyHash: string) {
  const look = () => ctx.store.select().from(idempotency).where(eq(idempotency.key, id)).get();
  const until = Date.now() + TWIN_MS;
  let row = await look();
  while (
    row &&
    row.status === null &&
    row.bodyHash === bodyHash &&
    ctx.now() - Date.parse(row.createdAt) < ABANDONED_MS &&
    Date.now() < until
  ) {
    await new Promise((resolve) => setTimeout(resolve, TWIN_LOOK_MS));
    row = await look();
  }
  return row;
}

/** Stored and replayed answers never hold a token, nor the command line that shows one. */
function withoutToken(body: unknown): unknown {
  if (typeof body !== "object" || body === null || !("token" in body)) return body;
  const command =
    "command" in body && typeof body.command === "string"
      ? { command: body.command.replace(/(--pair )rnr_\S+/, "$1<the token that was shown once>") }
      : {};
  return { ...body, token: null, ...command };
}
