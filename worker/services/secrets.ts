import { and, asc, eq, gt, like, or, sql } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { LIMITS } from "../../contracts/names.ts";
import type { ADMIN_OPERATIONS } from "../../contracts/operations/admin.ts";
import type { BodyOf, OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import { type Context, iso } from "../context.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { auditRow } from "../observability/audit.ts";
import { workerSecret, workerSecretNames } from "../secrets/resolve.ts";
import { open, seal } from "../secrets/vault.ts";
import { registry, secrets } from "../store/schema.ts";

type Ops = typeof ADMIN_OPERATIONS;
type SecretItem = OutputOf<Ops["list_secrets"]>["items"][number];

const useOf = (text: string): SecretItem["use"] =>
  text === "job" || text === "cluster" || text === "registry" ? text : null;

function vaultOf(ctx: Context) {
  if (ctx.config.vault) return ctx.config.vault;
  throw new EverdictError(
    "UNAVAILABLE",
    "the vault has no key: set the Worker secret EVERDICT_VAULT_KEYS, or give the value as a Worker secret SECRET_<NAME>",
    { retryAfterSec: 60 },
  );
}

/** PUT /secrets/{name}: sealed before it is stored, never returned. */
export async function putSecret(
  ctx: Context,
  { params, body }: { params: ParamsOf<Ops["put_secret"]>; body: BodyOf<Ops["put_secret"]> },
): Promise<undefined> {
  const vault = vaultOf(ctx);
  if (new TextEncoder().encode(body.value).length > LIMITS.secretBytes) {
    throw new EverdictError("BAD_REQUEST", "the value is too long", {
      issues: [{ path: "value", message: `must be at most ${LIMITS.secretBytes} bytes` }],
    });
  }
  if (body.use === "job" && body.hosts !== undefined) {
    throw new EverdictError("BAD_REQUEST", "a secret of use 'job' is injected into jobs and sent to no host", {
      issues: [{ path: "hosts", message: "leave out, or set use to 'cluster' or 'registry'" }],
    });
  }
  if (body.use !== "job" && body.hosts === undefined) {
    throw new EverdictError(
      "BAD_REQUEST",
      `a secret of use '${body.use}' is sent to the hosts it lists and to no other`,
      { issues: [{ path: "hosts", message: "must list at least one host" }] },
    );
  }
  const row = {
    workspace: ctx.principal.workspace,
    name: params.name,
    use: body.use,
    hosts: body.hosts ?? [],
    ...(await seal(vault, ctx.principal.workspace, params.name, body.value)),
    updatedAt: iso(ctx.now()),
    updatedBy: ctx.principal.subject,
  };
  await ctx.store.batch([
    ctx.store
      .insert(secrets)
      .values(row)
      .onConflictDoUpdate({ target: [secrets.workspace, secrets.name], set: row }),
    auditRow(ctx, "secret.put", params.name, { use: body.use, hosts: row.hosts }),
  ]);
  return undefined;
}

export async function deleteSecret(
  ctx: Context,
  { params }: { params: ParamsOf<Ops["delete_secret"]> },
): Promise<undefined> {
  const done = await ctx.store
    .delete(secrets)
    .where(and(eq(secrets.workspace, ctx.principal.workspace), eq(secrets.name, params.name)))
    .run();
  if (done.meta.changes === 0) {
    const own = workerSecret(ctx.env, params.name) !== null;
    throw new EverdictError(
      "NOT_FOUND",
      own
        ? `'${params.name}' is a Worker secret; remove it from the deployment`
        : `secret '${params.name}' is not stored in workspace '${ctx.principal.workspace}'`,
      { data: { secret: params.name } },
    );
  }
  await auditRow(ctx, "secret.delete", params.name).run();
  return undefined;
}

/** Names on one page: the vault's rows joined with the deployment's Worker secrets, which win. */
async function pageOf(ctx: Context, query: { limit?: number | undefined; cursor?: string | undefined }) {
  const limit = query.limit ?? LIMITS.pageDefault;
  const scope = `secrets:${ctx.principal.workspace}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const from = after ? String(after[0]) : "";
  const rows = await ctx.store
    .select({ name: secrets.name, use: secrets.use, hosts: secrets.hosts, updatedAt: secrets.updatedAt })
    .from(secrets)
    .where(and(eq(secrets.workspace, ctx.principal.workspace), gt(secrets.name, from)))
    .orderBy(asc(secrets.name))
    .limit(limit + 1)
    .all();
  const items = new Map<string, Omit<SecretItem, "usedBy">>();
  for (const row of rows)
    items.set(row.name, {
      name: row.name,
      use: useOf(row.use),
      hosts: row.hosts,
      updatedAt: row.updatedAt,
      source: "vault",
    });
  for (const name of workerSecretNames(ctx.env)) {
    const own = name > from ? workerSecret(ctx.env, name) : null;
    if (own) items.set(name, { name, use: own.use, hosts: own.hosts, updatedAt: null, source: "worker" });
  }
  const sorted = [...items.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const shown = sorted.slice(0, limit);
  const last = shown.at(-1);
  return { shown, nextCursor: sorted.length > limit && last ? await writeCursor(ctx, scope, [last.name]) : null };
}

export async function listSecretNames(
  ctx: Context,
  { query }: { query: QueryOf<Ops["list_secret_names"]> },
): Promise<OutputOf<Ops["list_secret_names"]>> {
  const { shown, nextCursor } = await pageOf(ctx, query);
  return { items: shown.map(({ name, use }) => ({ name, use })), nextCursor };
}

export async function listSecrets(
  ctx: Context,
  { query }: { query: QueryOf<Ops["list_secrets"]> },
): Promise<OutputOf<Ops["list_secrets"]>> {
  const { shown, nextCursor } = await pageOf(ctx, query);
  const used = await usedBy(
    ctx,
    shown.map(({ name }) => name),
  );
  return { items: shown.map((item) => ({ ...item, usedBy: used.get(item.name) ?? [] })), nextCursor };
}

/** Runtimes and harnesses of the workspace that name a secret. */
async function usedBy(ctx: Context, names: string[]): Promise<Map<string, string[]>> {
  const out = new Map<string, string[]>();
  if (names.length === 0) return out;
  const rows = await ctx.store
    .select({ kind: registry.kind, id: registry.id, version: registry.version, spec: registry.spec })
    .from(registry)
    .where(
      and(
        eq(registry.owner, ctx.principal.workspace),
        sql`${registry.kind} in ('runtime', 'harness')`,
        eq(registry.archived, false),
        or(like(registry.spec, '%Secret":%'), like(registry.spec, '%"secretRef":%')),
      ),
    )
    .limit(2_000)
    .all();
  for (const row of rows) {
    for (const name of names) {
      if (
        !row.spec.includes(`Secret":${JSON.stringify(name)}`) &&
        !row.spec.includes(`"secretRef":${JSON.stringify(name)}`)
      )
        continue;
      const users = out.get(name) ?? [];
      if (users.length < 100) users.push(`${row.kind} ${row.id}@${row.version}`);
      out.set(name, users);
    }
  }
  return out;
}

/** Re-seals what is not under the current key; safe to repeat and to interrupt. */
export async function rotateVault(ctx: Context): Promise<OutputOf<Ops["rotate_vault"]>> {
  const vault = vaultOf(ctx);
  let resealed = 0;
  for (;;) {
    const rows = await ctx.store
      .select()
      .from(secrets)
      .where(sql`${secrets.keyId} <> ${vault.current}`)
      .limit(50)
      .all();
    if (rows.length === 0) break;
    for (const row of rows) {
      const again = await seal(vault, row.workspace, row.name, await open(vault, row.workspace, row.name, row));
      // A value that was replaced meanwhile keeps its own new seal.
      await ctx.store
        .update(secrets)
        .set(again)
        .where(and(eq(secrets.workspace, row.workspace), eq(secrets.name, row.name), eq(secrets.sealed, row.sealed)))
        .run();
      resealed++;
    }
  }
  await auditRow(ctx, "vault.rotate", vault.current, { resealed }).run();
  return { keyId: vault.current, resealed };
}
