import { and, asc, eq, gt, inArray, or, sql } from "drizzle-orm";
import { canonicalJson } from "../../contracts/canonical.ts";
import { EverdictError, notFound } from "../../contracts/errors.ts";
import { LIMITS, SHARED_OWNER } from "../../contracts/names.ts";
import { compareVersions, latestVersion, nextVersion } from "../../contracts/versions.ts";
import { sha256 } from "../auth/digest.ts";
import { authorize } from "../auth/principal.ts";
import { type Context, iso, type Store } from "../context.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { auditRow } from "../observability/audit.ts";
import { registry } from "../store/schema.ts";

export type RegistryKind = "runtime" | "harness" | "dataset";
export type RegistryRow = typeof registry.$inferSelect;

export interface Spec {
  id: string;
  version: string;
  tags: string[];
}

const keyOf = (kind: RegistryKind, owner: string, id: string) =>
  and(eq(registry.kind, kind), eq(registry.owner, owner), eq(registry.id, id));

/** All versions of one owner's thing, without their specs. */
async function versionsOf(store: Store, kind: RegistryKind, owner: string, id: string) {
  return store
    .select({
      version: registry.version,
      hash: registry.hash,
      archived: registry.archived,
      complete: registry.complete,
    })
    .from(registry)
    .where(keyOf(kind, owner, id))
    .all();
}

export interface Registration {
  row: { id: string; version: string; owner: string; createdAt: string; createdBy: string };
  created: boolean;
}

/**
 * Registers an immutable version. Equal canonical bytes again are the same registration.
 * @param stored the spec as kept in the row (a dataset's without its cases)
 * @param fill writes what belongs to it before it becomes visible; null: the row is the whole
 * @throws EverdictError CONFLICT naming the next free version
 */
export async function register(
  ctx: Context,
  kind: RegistryKind,
  spec: Spec,
  stored: Record<string, unknown>,
  fill: { count: number; write(): Promise<void> } | null = null,
): Promise<Registration> {
  const owner = ctx.principal.workspace;
  if (owner === SHARED_OWNER) authorize(ctx.principal, "operate");
  const { store } = ctx;
  const hash = await sha256(canonicalJson(spec));
  const existing = await versionsOf(store, kind, owner, spec.id);
  const same = existing.find(({ version }) => version === spec.version);
  if (same?.complete) return settled(ctx, kind, owner, spec, same.hash === hash, existing);
  const row = {
    kind,
    owner,
    id: spec.id,
    version: spec.version,
    spec: canonicalJson(stored),
    hash,
    tags: spec.tags,
    complete: fill === null,
    cases: fill?.count ?? 0,
    createdAt: iso(ctx.now()),
    createdBy: ctx.principal.subject,
  };
  const audited = auditRow(ctx, `${kind}.create`, `${spec.id}@${spec.version}`);
  if (fill === null) {
    const inserted = await store.insert(registry).values(row).onConflictDoNothing().run();
    if (inserted.meta.changes === 0) {
      const now = await versionsOf(store, kind, owner, spec.id);
      return settled(ctx, kind, owner, spec, now.find(({ version }) => version === spec.version)?.hash === hash, now);
    }
    await audited;
    return { row, created: true };
  }
  // A registration that was cut off is invisible; a new one starts it afresh.
  await store
    .insert(registry)
    .values(row)
    .onConflictDoUpdate({
      target: [registry.kind, registry.owner, registry.id, registry.version],
      set: {
        spec: row.spec,
        hash,
        tags: row.tags,
        cases: row.cases,
        createdAt: row.createdAt,
        createdBy: row.createdBy,
      },
      setWhere: eq(registry.complete, false),
    })
    .run();
  await fill.write();
  await store.batch([
    store
      .update(registry)
      .set({ complete: true })
      .where(and(keyOf(kind, owner, spec.id), eq(registry.version, spec.version), eq(registry.hash, hash))),
    audited,
  ]);
  return { row, created: true };
}

async function settled(
  ctx: Context,
  kind: RegistryKind,
  owner: string,
  spec: Spec,
  equal: boolean,
  existing: { version: string }[],
): Promise<Registration> {
  if (!equal) {
    const next = nextVersion(existing.map(({ version }) => version));
    throw new EverdictError(
      "CONFLICT",
      `${kind} '${spec.id}@${spec.version}' is registered with another content; versions are immutable: register it as ${next}`,
      {
        data: { nextVersion: next },
      },
    );
  }
  const row = await ctx.store
    .select()
    .from(registry)
    .where(and(keyOf(kind, owner, spec.id), eq(registry.version, spec.version)))
    .get();
  if (!row)
    throw new EverdictError("UNAVAILABLE", "the registration was changed meanwhile; try again", { retryAfterSec: 1 });
  return { row, created: false };
}

/**
 * One version, own before shared. 'latest' is the highest that is not archived.
 * @throws EverdictError NOT_FOUND naming it
 */
export async function find(
  store: Store,
  kind: RegistryKind,
  workspace: string,
  id: string,
  version: string,
): Promise<RegistryRow> {
  for (const owner of workspace === SHARED_OWNER ? [SHARED_OWNER] : [workspace, SHARED_OWNER]) {
    const versions = (await versionsOf(store, kind, owner, id)).filter((row) => row.complete);
    if (versions.length === 0) continue;
    const wanted =
      version === "latest" ? latestVersion(versions.filter((row) => !row.archived).map((row) => row.version)) : version;
    if (wanted !== null && versions.some((row) => row.version === wanted)) {
      const row = await store
        .select()
        .from(registry)
        .where(and(keyOf(kind, owner, id), eq(registry.version, wanted)))
        .get();
      if (row) return row;
    }
    const known = versions.map((row) => row.version).sort(compareVersions);
    const why = wanted === null ? "every version of it is archived" : `known versions: ${known.slice(-10).join(", ")}`;
    throw new EverdictError(
      "NOT_FOUND",
      `${kind} '${id}@${version}' is not registered in workspace '${workspace}'; ${why}`,
      { data: { [kind]: `${id}@${version}` } },
    );
  }
  throw notFound(kind, id, workspace);
}

/** Versions of the caller's own thing, for validate and for the next free version. */
export async function existingVersions(ctx: Context, kind: RegistryKind, id: string): Promise<string[]> {
  const rows = await versionsOf(ctx.store, kind, ctx.principal.workspace, id);
  return rows
    .filter((row) => row.complete)
    .map((row) => row.version)
    .sort(compareVersions);
}

export interface Listed {
  id: string;
  owner: string;
  latest: string | null;
  versions: string[];
  tags: Record<string, string[]>;
  archived: boolean;
  description: string | null;
  /** Row of the latest version, or of the highest archived one. */
  row: RegistryRow;
}

/** One page of a workspace's own and the shared things, by id. */
export async function list(
  ctx: Context,
  kind: RegistryKind,
  query: { limit?: number | undefined; cursor?: string | undefined; archived?: "true" | "false" | undefined },
): Promise<{ items: Listed[]; nextCursor: string | null }> {
  const { store } = ctx;
  const limit = query.limit ?? LIMITS.pageDefault;
  const withArchived = query.archived === "true";
  const scope = `${kind}:${ctx.principal.workspace}:${withArchived}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const owners = [ctx.principal.workspace, SHARED_OWNER];
  const afterId = String(after?.[0] ?? "");
  const afterOwner = String(after?.[1] ?? "");
  const heads = await store
    .selectDistinct({ id: registry.id, owner: registry.owner })
    .from(registry)
    .where(
      and(
        eq(registry.kind, kind),
        inArray(registry.owner, owners),
        eq(registry.complete, true),
        withArchived ? undefined : eq(registry.archived, false),
        after ? or(gt(registry.id, afterId), and(eq(registry.id, afterId), gt(registry.owner, afterOwner))) : undefined,
      ),
    )
    .orderBy(asc(registry.id), asc(registry.owner))
    .limit(limit + 1)
    .all();
  const shown = heads.slice(0, limit);
  const items: Listed[] = [];
  // 40 ids × 2 parameters stays below D1's 100 bound parameters.
  for (let i = 0; i < shown.length; i += 40) {
    const part = shown.slice(i, i + 40);
    const rows = await store
      .select()
      .from(registry)
      .where(
        and(
          eq(registry.kind, kind),
          eq(registry.complete, true),
          or(...part.map((head) => and(eq(registry.owner, head.owner), eq(registry.id, head.id)))),
        ),
      )
      .all();
    for (const head of part) {
      const own = rows.filter((row) => row.owner === head.owner && row.id === head.id);
      const item = summarise(own);
      if (item) items.push(item);
    }
  }
  const last = shown.at(-1);
  return {
    items,
    nextCursor: heads.length > limit && last ? await writeCursor(ctx, scope, [last.id, last.owner]) : null,
  };
}

function summarise(rows: RegistryRow[]): Listed | null {
  const versions = rows.map((row) => row.version).sort(compareVersions);
  const latest = latestVersion(rows.filter((row) => !row.archived).map((row) => row.version));
  const row = rows.find(({ version }) => version === (latest ?? versions.at(-1)));
  if (!row) return null;
  const spec: unknown = JSON.parse(row.spec);
  const description =
    typeof spec === "object" && spec !== null && "description" in spec ? String(spec.description) : null;
  return {
    id: row.id,
    owner: row.owner,
    latest,
    versions,
    tags: Object.fromEntries(rows.map(({ version, tags }) => [version, tags])),
    archived: latest === null,
    description,
    row,
  };
}

async function ownRows(
  ctx: Context,
  kind: RegistryKind,
  id: string,
): Promise<{ version: string; createdBy: string; archived: boolean }[]> {
  const owner = ctx.principal.workspace;
  if (owner === SHARED_OWNER) authorize(ctx.principal, "operate");
  const rows = await ctx.store
    .select({ version: registry.version, createdBy: registry.createdBy, archived: registry.archived })
    .from(registry)
    .where(and(keyOf(kind, owner, id), eq(registry.complete, true)))
    .all();
  if (rows.length === 0) throw notFound(kind, id, owner);
  return rows;
}

function requireOwn(ctx: Context, kind: RegistryKind, version: string, createdBy: string): void {
  if (createdBy === ctx.principal.subject || ctx.principal.role === "admin") return;
  throw new EverdictError(
    "FORBIDDEN",
    `${kind} version ${version} was registered by '${createdBy}'; only they or an admin may change it`,
  );
}

/** Replaces the tags of one of the caller's own versions. */
export async function setTags(
  ctx: Context,
  kind: RegistryKind,
  id: string,
  version: string,
  tags: string[],
): Promise<void> {
  const row = (await ownRows(ctx, kind, id)).find((item) => item.version === version);
  if (!row) throw notFound(kind, `${id}@${version}`, ctx.principal.workspace);
  requireOwn(ctx, kind, version, row.createdBy);
  await ctx.store.batch([
    ctx.store
      .update(registry)
      .set({ tags })
      .where(and(keyOf(kind, ctx.principal.workspace, id), eq(registry.version, version))),
    auditRow(ctx, `${kind}.tags`, `${id}@${version}`, { tags }),
  ]);
}

/** Archives or brings back one version, or all; answers the versions that are archived now. */
export async function setArchived(
  ctx: Context,
  kind: RegistryKind,
  id: string,
  version: string | undefined,
  archived: boolean,
): Promise<string[]> {
  const rows = await ownRows(ctx, kind, id);
  const chosen = version === undefined ? rows : rows.filter((row) => row.version === version);
  if (chosen.length === 0) throw notFound(kind, `${id}@${version}`, ctx.principal.workspace);
  for (const row of chosen) requireOwn(ctx, kind, row.version, row.createdBy);
  await ctx.store.batch([
    ctx.store
      .update(registry)
      .set({ archived })
      .where(
        and(
          keyOf(kind, ctx.principal.workspace, id),
          version === undefined ? sql`true` : eq(registry.version, version),
        ),
      ),
    auditRow(ctx, archived ? `${kind}.archive` : `${kind}.unarchive`, version === undefined ? id : `${id}@${version}`),
  ]);
  return rows
    .filter((row) => (chosen.includes(row) ? archived : row.archived))
    .map((row) => row.version)
    .sort(compareVersions);
}
