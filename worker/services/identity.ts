import { and, asc, desc, eq, gt, lt, or, sql } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { LIMITS } from "../../contracts/names.ts";
import type { ADMIN_OPERATIONS } from "../../contracts/operations/admin.ts";
import type { BodyOf, OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import { ROLES, Role, SCOPES, Scope } from "../../contracts/roles.ts";
import { randomSecret, sha256 } from "../auth/digest.ts";
import { allowed } from "../auth/principal.ts";
import { type Context, iso } from "../context.ts";
import { schedulerOf } from "../environment.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { auditRow } from "../observability/audit.ts";
import { monthOf } from "../store/runs-budget.ts";
import { apiKeys, audit, members, runs, runUsage, workspaces } from "../store/schema.ts";

type Ops = typeof ADMIN_OPERATIONS;

async function workspacesPage(
  ctx: Context,
  query: { limit?: number | undefined; cursor?: string | undefined },
): Promise<OutputOf<Ops["list_workspaces"]>> {
  const { principal, store } = ctx;
  const limit = query.limit ?? LIMITS.pageDefault;
  const all = principal.operator;
  const scope = `workspaces:${principal.subject}:${all}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const from = after ? String(after[0]) : "";
  const own = eq(members.subject, principal.subject);
  const rows = await store
    .select({ id: workspaces.id, name: workspaces.name, createdAt: workspaces.createdAt, role: members.role })
    .from(workspaces)
    .leftJoin(members, and(eq(members.workspace, workspaces.id), own))
    .where(
      and(
        gt(workspaces.id, from),
        all ? undefined : principal.kind === "person" ? own : eq(workspaces.id, principal.workspace),
      ),
    )
    .orderBy(asc(workspaces.id))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  // The development server's own subject acts as admin wherever it goes, and is a member of nothing.
  const everywhere = principal.kind === "dev" ? principal.role : null;
  const items = shown.map(({ role, ...row }) => ({
    ...row,
    role: row.id === principal.workspace ? principal.role : role === null ? everywhere : Role.parse(role),
  }));
  return { items, nextCursor: rows.length > limit && last ? await writeCursor(ctx, scope, [last.id]) : null };
}

export async function getMe(ctx: Context): Promise<OutputOf<Ops["get_me"]>> {
  const { principal } = ctx;
  const { items } = await workspacesPage(ctx, { limit: LIMITS.pageMax });
  return {
    subject: principal.subject,
    workspace: principal.workspace === "" ? null : principal.workspace,
    role: principal.role,
    scope: principal.scope,
    operator: principal.operator,
    personal: principal.person !== null,
    workspaces: items,
  };
}

export const listWorkspaces = (ctx: Context, { query }: { query: QueryOf<Ops["list_workspaces"]> }) =>
  workspacesPage(ctx, query);

/** A new workspace; its maker is its first admin. */
export async function createWorkspace(
  ctx: Context,
  { body }: { body: BodyOf<Ops["create_workspace"]> },
): Promise<OutputOf<Ops["create_workspace"]>> {
  const { store, principal } = ctx;
  const createdAt = iso(ctx.now());
  const done = await store
    .insert(workspaces)
    .values({ id: body.id, name: body.name, createdAt })
    .onConflictDoNothing()
    .run();
  if (done.meta.changes === 0)
    throw new EverdictError("CONFLICT", `workspace '${body.id}' exists already; choose another id`, {
      data: { workspace: body.id },
    });
  await store.batch([
    store
      .insert(members)
      .values({ workspace: body.id, subject: principal.subject, role: "admin", createdAt })
      .onConflictDoNothing(),
    auditRow({ ...ctx, principal: { ...principal, workspace: body.id } }, "workspace.create", body.id),
  ]);
  return { id: body.id, name: body.name, createdAt, role: "admin" };
}

/** The stored limits of a workspace, with what it has used of its runs budget in this month. */
const limitsQuery = ({ store, now }: Context, id: string) =>
  store
    .select({
      weight: workspaces.weight,
      maxInFlight: workspaces.maxInFlight,
      queueDepth: workspaces.queueDepth,
      runsBudget: workspaces.runsBudget,
      runsUsed: sql<number>`coalesce(${runUsage.used}, 0)`,
    })
    .from(workspaces)
    .leftJoin(runUsage, and(eq(runUsage.workspace, workspaces.id), eq(runUsage.month, monthOf(now()))))
    .where(eq(workspaces.id, id));

const noWorkspace = (id: string) =>
  new EverdictError("NOT_FOUND", `workspace '${id}' does not exist`, { data: { workspace: id } });

/** @throws EverdictError NOT_FOUND */
export async function getLimits(
  ctx: Context,
  { params }: { params: ParamsOf<Ops["get_workspace_limits"]> },
): Promise<OutputOf<Ops["get_workspace_limits"]>> {
  const limits = await limitsQuery(ctx, params.id).get();
  if (!limits) throw noWorkspace(params.id);
  return limits;
}

/** PUT /workspaces/{id}/limits; a runs budget that is left out stays as it is. @throws EverdictError NOT_FOUND */
export async function setLimits(
  ctx: Context,
  { params, body }: { params: ParamsOf<Ops["set_workspace_limits"]>; body: BodyOf<Ops["set_workspace_limits"]> },
): Promise<OutputOf<Ops["set_workspace_limits"]>> {
  await getLimits(ctx, { params });
  const [, , [limits]] = await ctx.store.batch([
    ctx.store.update(workspaces).set(body).where(eq(workspaces.id, params.id)),
    auditRow(ctx, "workspace.limits", params.id, body),
    limitsQuery(ctx, params.id),
  ]);
  if (!limits) throw noWorkspace(params.id);
  const { weight, maxInFlight, queueDepth } = limits;
  // Objects where it has work now; elsewhere the limits come with its next entry.
  const objects = await ctx.store
    .selectDistinct({ object: runs.object })
    .from(runs)
    .where(and(eq(runs.workspace, params.id), eq(runs.status, "queued")))
    .limit(200)
    .all();
  await Promise.all(
    objects.map(({ object }) =>
      object === null
        ? undefined
        : schedulerOf(ctx.env, object).setLimits(params.id, { weight, maxInFlight, queueDepth }),
    ),
  );
  return limits;
}

export async function listMembers(
  ctx: Context,
  { query }: { query: QueryOf<Ops["list_members"]> },
): Promise<OutputOf<Ops["list_members"]>> {
  const limit = query.limit ?? LIMITS.pageDefault;
  const scope = `members:${ctx.principal.workspace}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const rows = await ctx.store
    .select({ subject: members.subject, role: members.role, createdAt: members.createdAt })
    .from(members)
    .where(
      and(eq(members.workspace, ctx.principal.workspace), after ? gt(members.subject, String(after[0])) : undefined),
    )
    .orderBy(asc(members.subject))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map((row) => ({ ...row, role: Role.parse(row.role) })),
    nextCursor: rows.length > limit && last ? await writeCursor(ctx, scope, [last.subject]) : null,
  };
}

export async function setMember(
  ctx: Context,
  { params, body }: { params: ParamsOf<Ops["set_member"]>; body: BodyOf<Ops["set_member"]> },
): Promise<OutputOf<Ops["set_member"]>> {
  const row = {
    workspace: ctx.principal.workspace,
    subject: params.subject,
    role: body.role,
    createdAt: iso(ctx.now()),
  };
  if (body.role !== "admin") await keepAnAdmin(ctx, params.subject);
  await ctx.store.batch([
    ctx.store
      .insert(members)
      .values(row)
      .onConflictDoUpdate({ target: [members.workspace, members.subject], set: { role: body.role } }),
    auditRow(ctx, "member.set", params.subject, { role: body.role }),
  ]);
  const stored = await ctx.store
    .select()
    .from(members)
    .where(and(eq(members.workspace, row.workspace), eq(members.subject, row.subject)))
    .get();
  return { subject: row.subject, role: body.role, createdAt: stored?.createdAt ?? row.createdAt };
}

async function keepAnAdmin(ctx: Context, leaving: string): Promise<void> {
  const admins = await ctx.store
    .select({ subject: members.subject })
    .from(members)
    .where(and(eq(members.workspace, ctx.principal.workspace), eq(members.role, "admin")))
    .limit(2)
    .all();
  if (admins.length === 1 && admins[0]?.subject === leaving) {
    throw new EverdictError(
      "CONFLICT",
      `'${leaving}' is the only admin of workspace '${ctx.principal.workspace}'; make another one first`,
    );
  }
}

export async function removeMember(
  ctx: Context,
  { params }: { params: ParamsOf<Ops["remove_member"]> },
): Promise<undefined> {
  await keepAnAdmin(ctx, params.subject);
  const done = await ctx.store
    .delete(members)
    .where(and(eq(members.workspace, ctx.principal.workspace), eq(members.subject, params.subject)))
    .run();
  if (done.meta.changes === 0)
    throw new EverdictError(
      "NOT_FOUND",
      `'${params.subject}' is not a member of workspace '${ctx.principal.workspace}'`,
      { data: { member: params.subject } },
    );
  await auditRow(ctx, "member.remove", params.subject).run();
  return undefined;
}

/** Id of the API key that is calling; empty for anybody else. */
const ownKey = (ctx: Context): string =>
  ctx.principal.subject.startsWith("key:") ? ctx.principal.subject.slice("key:".length) : "";

/** POST /api-keys: never more than its maker may do. */
export async function createApiKey(
  ctx: Context,
  { body }: { body: BodyOf<Ops["create_api_key"]> },
): Promise<OutputOf<Ops["create_api_key"]>> {
  const { principal } = ctx;
  const role = body.role ?? principal.role;
  if (ROLES.indexOf(role) > ROLES.indexOf(principal.role)) {
    throw new EverdictError("FORBIDDEN", `role '${role}' is above yours ('${principal.role}')`, {
      issues: [{ path: "role", message: `must be at most '${principal.role}'` }],
    });
  }
  if (SCOPES.indexOf(body.scope) > SCOPES.indexOf(principal.scope)) {
    throw new EverdictError("FORBIDDEN", `scope '${body.scope}' is above yours ('${principal.scope}')`, {
      issues: [{ path: "scope", message: `must be at most '${principal.scope}'` }],
    });
  }
  if (body.personal && principal.person === null) {
    throw new EverdictError("BAD_REQUEST", "this API key acts as the workspace and cannot make a personal one", {
      issues: [{ path: "personal", message: "must be false" }],
    });
  }
  const token = `ak_${randomSecret()}`;
  const id = ctx.newId("key");
  const createdAt = iso(ctx.now());
  const row = {
    id,
    workspace: principal.workspace,
    name: body.name,
    hash: await sha256(token),
    scope: body.scope,
    role,
    personal: body.personal,
    issuer: principal.issuer,
    subject: principal.subject,
    createdAt,
  };
  // A repeat after a crash has the same id and a new token: the token that was shown, or none was, is replaced.
  await ctx.store.batch([
    ctx.store
      .insert(apiKeys)
      .values(row)
      .onConflictDoUpdate({ target: apiKeys.id, set: { hash: row.hash } }),
    auditRow(ctx, "api-key.create", id, { name: body.name, scope: body.scope, role, personal: body.personal }),
  ]);
  return { id, token, name: body.name, scope: body.scope, role, personal: body.personal, createdAt };
}

export async function listApiKeys(
  ctx: Context,
  { query }: { query: QueryOf<Ops["list_api_keys"]> },
): Promise<OutputOf<Ops["list_api_keys"]>> {
  const limit = query.limit ?? LIMITS.pageDefault;
  const any = allowed(ctx.principal, "keys:any");
  const scope = `keys:${ctx.principal.workspace}:${ctx.principal.subject}:${any}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const rows = await ctx.store
    .select()
    .from(apiKeys)
    .where(
      and(
        eq(apiKeys.workspace, ctx.principal.workspace),
        any ? undefined : or(eq(apiKeys.subject, ctx.principal.subject), eq(apiKeys.id, ownKey(ctx))),
        after ? lt(apiKeys.id, String(after[0])) : undefined,
      ),
    )
    .orderBy(desc(apiKeys.id))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const items = shown.map((row) => ({
    id: row.id,
    name: row.name,
    scope: Scope.parse(row.scope),
    role: Role.parse(row.role),
    personal: row.personal,
    createdAt: row.createdAt,
    createdBy: row.subject,
    lastUsedAt: row.lastUsedAt,
  }));
  return { items, nextCursor: rows.length > limit && last ? await writeCursor(ctx, scope, [last.id]) : null };
}

export async function revokeApiKey(
  ctx: Context,
  { params }: { params: ParamsOf<Ops["revoke_api_key"]> },
): Promise<undefined> {
  const row = await ctx.store
    .select({ subject: apiKeys.subject })
    .from(apiKeys)
    .where(and(eq(apiKeys.id, params.id), eq(apiKeys.workspace, ctx.principal.workspace)))
    .get();
  if (
    !row ||
    (row.subject !== ctx.principal.subject && params.id !== ownKey(ctx) && !allowed(ctx.principal, "keys:any"))
  ) {
    throw new EverdictError(
      "NOT_FOUND",
      `API key '${params.id}' does not exist in workspace '${ctx.principal.workspace}'`,
      { data: { key: params.id } },
    );
  }
  await ctx.store.batch([
    ctx.store.delete(apiKeys).where(eq(apiKeys.id, params.id)),
    auditRow(ctx, "api-key.revoke", params.id),
  ]);
  return undefined;
}

export async function listAudit(
  ctx: Context,
  { query }: { query: QueryOf<Ops["list_audit"]> },
): Promise<OutputOf<Ops["list_audit"]>> {
  const limit = query.limit ?? LIMITS.pageDefault;
  const scope = `audit:${ctx.principal.workspace}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const rows = await ctx.store
    .select()
    .from(audit)
    .where(and(eq(audit.workspace, ctx.principal.workspace), after ? lt(audit.id, String(after[0])) : undefined))
    .orderBy(desc(audit.id))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map(({ id, at, actor, action, target, requestId, detail }) => ({
      id,
      at,
      actor,
      action,
      target,
      requestId,
      detail,
    })),
    nextCursor: rows.length > limit && last ? await writeCursor(ctx, scope, [last.id]) : null,
  };
}
