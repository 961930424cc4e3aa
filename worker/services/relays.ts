import { and, asc, eq, gt } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { LIMITS } from "../../contracts/names.ts";
import type { BodyOf, OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { RELAY_OPERATIONS } from "../../contracts/operations/relays.ts";
import { TOKEN_HASH_HEADER } from "../../contracts/relay.ts";
import { parseRelayToken } from "../auth/authenticate.ts";
import { randomSecret, sha256 } from "../auth/digest.ts";
import { type Context, iso, withDeadline } from "../context.ts";
import { type Env, relayOf } from "../environment.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { auditRow } from "../observability/audit.ts";
import { relays } from "../store/schema.ts";

type Ops = typeof RELAY_OPERATIONS;

/** An object that does not answer must not hold up the list. */
const STATE_MS = 5_000;

export async function listRelays(
  ctx: Context,
  { query }: { query: QueryOf<Ops["list_relays"]> },
): Promise<OutputOf<Ops["list_relays"]>> {
  const { workspace } = ctx.principal;
  const limit = query.limit ?? LIMITS.pageDefault;
  const after = await readCursor(ctx, `relays:${workspace}`, query.cursor);
  const rows = await ctx.store
    .select()
    .from(relays)
    .where(and(eq(relays.workspace, workspace), after ? gt(relays.id, String(after[0])) : undefined))
    .orderBy(asc(relays.id))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const items = await Promise.all(
    shown.map(async ({ id, label, createdAt, createdBy }) => {
      const state = await withDeadline(relayOf(ctx.env, id).state(), STATE_MS, `relay '${label}'`);
      return { id, label, ...state, createdAt, createdBy };
    }),
  );
  const last = shown.at(-1);
  return {
    items,
    nextCursor: rows.length > limit && last ? await writeCursor(ctx, `relays:${workspace}`, [last.id]) : null,
  };
}

export async function pairRelay(
  ctx: Context,
  { body }: { body: BodyOf<Ops["pair_relay"]> },
): Promise<OutputOf<Ops["pair_relay"]>> {
  const { workspace, subject } = ctx.principal;
  const { label } = body;
  const id = ctx.newId("rly");
  await ctx.store
    .insert(relays)
    .values({ id, workspace, label, createdBy: subject, createdAt: iso(ctx.now()) })
    .onConflictDoNothing()
    .run();
  const holder = await ctx.store
    .select({ id: relays.id })
    .from(relays)
    .where(and(eq(relays.workspace, workspace), eq(relays.label, label)))
    .get();
  if (holder?.id !== id) {
    throw new EverdictError(
      "CONFLICT",
      `workspace '${workspace}' has a relay '${label}'; revoke it or choose another label`,
      {
        data: { relay: holder?.id ?? label },
      },
    );
  }
  const token = `rly_${id.slice("rly-".length)}.${randomSecret()}`;
  await relayOf(ctx.env, id).pair({ id, label, workspace, tokenHash: await sha256(token) });
  await auditRow(ctx, "relay.pair", id, { label });
  return { id, label, token, command: `npx everdict relay --pair ${token} --api-url ${ctx.origin}` };
}

export async function revokeRelay(
  ctx: Context,
  { params }: { params: ParamsOf<Ops["revoke_relay"]> },
): Promise<undefined> {
  const { workspace } = ctx.principal;
  const row = await ctx.store
    .select({ id: relays.id })
    .from(relays)
    .where(and(eq(relays.id, params.id), eq(relays.workspace, workspace)))
    .get();
  if (!row) {
    throw new EverdictError("NOT_FOUND", `relay '${params.id}' is not one of workspace '${workspace}'`, {
      data: { relay: params.id },
    });
  }
  // The object first: it is the one that answers the relay.
  await relayOf(ctx.env, params.id).revoke();
  await ctx.store.batch([
    ctx.store.delete(relays).where(eq(relays.id, params.id)),
    auditRow(ctx, "relay.revoke", params.id),
  ]);
  return undefined;
}

/**
 * GET /relay/connect: a relay's own WebSocket, by its token. No D1 on the way. Without an upgrade it only tries the
 * token: UNAUTHENTICATED for one that is not known, UPGRADE_REQUIRED for a good one; a connected relay stays connected.
 * @throws EverdictError UNAUTHENTICATED, UPGRADE_REQUIRED
 */
export async function connectRelay(env: Env, request: Request): Promise<Response> {
  const parsed = parseRelayToken(request);
  if (!parsed) throw new EverdictError("UNAUTHENTICATED", "a relay connects with 'Authorization: Bearer rly_…'");
  const upgrades = request.headers.get("upgrade")?.toLowerCase() === "websocket";
  const headers = new Headers({ [TOKEN_HASH_HEADER]: await sha256(parsed.token) });
  if (upgrades) headers.set("upgrade", "websocket");
  const answer = await relayOf(env, parsed.id).fetch("https://relay/connect", { headers });
  if (!upgrades && answer.status === 426)
    throw new EverdictError("UPGRADE_REQUIRED", "a relay connects by WebSocket: everdict relay --pair <token>");
  if (answer.status !== 101 || !answer.webSocket) {
    throw new EverdictError(
      "UNAUTHENTICATED",
      "the relay token is not known or was revoked; pair the machine again (POST /workspace/relays)",
    );
  }
  return new Response(null, { status: 101, webSocket: answer.webSocket });
}
