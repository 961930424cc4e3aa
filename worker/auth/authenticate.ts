import { and, eq } from "drizzle-orm";
import { EverdictError } from "../../contracts/errors.ts";
import { SHARED_OWNER, WorkspaceId } from "../../contracts/names.ts";
import { ROLES, Role, Scope } from "../../contracts/roles.ts";
import { iso, type Store } from "../context.ts";
import type { Config } from "../environment.ts";
import { apiKeys, endedSessions, members, workspaces } from "../store/schema.ts";
import { sha256 } from "./digest.ts";
import { verifyPersonToken } from "./oidc.ts";
import type { Principal } from "./principal.ts";
import { ended, readSession, requireOwnPage, type Session } from "./session.ts";

export const DEV_ISSUER = "dev";
export const DEV_SUBJECT = "dev";
export const DEV_WORKSPACE = "default";

/** Names a person's own Scheduler object: two issuers may use the same subject for different people. */
export const personHash = async (issuer: string, subject: string): Promise<string> =>
  (await sha256(`${issuer}\n${subject}`)).slice(0, 32);

interface Inputs {
  request: Request;
  store: Store;
  config: Config;
  now: number;
  waitUntil(promise: Promise<unknown>): void;
  /** The operation works without a workspace (who am I, which are mine). */
  workspaceOptional: boolean;
  /** The operation may be asked by an EventSource, which sends no headers. */
  workspaceInQuery: boolean;
}

/**
 * Who calls. Nothing is open by default: without a credential only the development server answers, as subject `dev`.
 * @throws EverdictError UNAUTHENTICATED, FORBIDDEN (not a member), BAD_REQUEST (no workspace named)
 */
export async function authenticate(inputs: Inputs): Promise<Principal> {
  const header = inputs.request.headers.get("authorization");
  if (header === null) {
    const session = await readSession(inputs.request, inputs.config, inputs.now);
    if (session !== null) {
      requireOwnPage(inputs.request, inputs.config);
      return authenticateSession(session, inputs);
    }
    if (inputs.config.dev) return devPrincipal(inputs);
    throw new EverdictError("UNAUTHENTICATED", "send 'Authorization: Bearer <API key or token>', or sign in");
  }
  const token = /^Bearer ([\x21-\x7e]{1,16384})$/i.exec(header)?.[1];
  if (token === undefined)
    throw new EverdictError("UNAUTHENTICATED", "the Authorization header must be 'Bearer <token>'");
  if (token.startsWith("ak_")) return (await authenticateKey(token, inputs)).principal;
  if (token.startsWith("rnr_"))
    throw new EverdictError("UNAUTHENTICATED", "a runner token is good for the lease protocol only; use an API key");
  if (token.startsWith("rly_"))
    throw new EverdictError("UNAUTHENTICATED", "a relay token is good for the relay only; use an API key");
  const subject = await verifyPersonToken(token, inputs.config, inputs.now);
  return personPrincipal(subject, inputs.config.oidc?.issuer ?? "", inputs);
}

/**
 * Whoever a browser's session stands for, with the rights they have now.
 * @throws EverdictError UNAUTHENTICATED when it was signed out, or its key or identity provider is gone; as authenticate
 */
export async function authenticateSession(session: Session, inputs: Inputs): Promise<Principal> {
  const { store, config } = inputs;
  const out = await store.select().from(endedSessions).where(eq(endedSessions.id, session.id)).get();
  if (out) throw ended("ended");
  if (session.method === "oidc") {
    if (session.issuer !== config.signIn?.issuer) throw ended("issuer");
    return personPrincipal(session.subject, session.issuer, inputs);
  }
  const row = await store.select().from(apiKeys).where(eq(apiKeys.id, session.keyId)).get();
  if (!row?.hash.startsWith(session.keyHash)) throw ended("revoked");
  return keyPrincipal(row, inputs);
}

function namedWorkspace({ request, workspaceInQuery }: Inputs): string | null {
  const header = request.headers.get("x-everdict-workspace");
  const asked = workspaceInQuery ? new URL(request.url).searchParams.get("workspace") : null;
  if (header !== null && asked !== null && header !== asked)
    throw new EverdictError("BAD_REQUEST", "X-Everdict-Workspace and ?workspace= name different workspaces", {
      issues: [{ path: "workspace", message: "must be what the header says, or absent" }],
    });
  const named = header ?? asked;
  if (named === null) return null;
  // Things that every workspace may read; who may act there is decided where the caller's rights are known.
  if (named === SHARED_OWNER) return named;
  const parsed = WorkspaceId.safeParse(named);
  if (!parsed.success)
    throw new EverdictError(
      "BAD_REQUEST",
      `X-Everdict-Workspace ${parsed.error.issues[0]?.message ?? "is not a workspace id"}`,
    );
  return parsed.data;
}

let devReady = false;

/** The development server's own subject. @throws EverdictError NOT_FOUND for a workspace that does not exist */
export async function devPrincipal(inputs: Inputs): Promise<Principal> {
  const { store, now } = inputs;
  if (!devReady) {
    await store
      .insert(workspaces)
      .values({ id: DEV_WORKSPACE, name: "Default", createdAt: iso(now) })
      .onConflictDoNothing();
    devReady = true;
  }
  const workspace = namedWorkspace(inputs) ?? DEV_WORKSPACE;
  if (workspace !== DEV_WORKSPACE && workspace !== SHARED_OWNER) {
    const found = await store.select({ id: workspaces.id }).from(workspaces).where(eq(workspaces.id, workspace)).get();
    if (!found)
      throw new EverdictError("NOT_FOUND", `workspace '${workspace}' does not exist; create it with POST /workspaces`, {
        data: { workspace },
      });
  }
  const person = await personHash(DEV_ISSUER, DEV_SUBJECT);
  return {
    kind: "dev",
    subject: DEV_SUBJECT,
    person,
    issuer: DEV_ISSUER,
    workspace,
    role: "admin",
    scope: "admin",
    operator: true,
  };
}

/** Whom an API key acts as. @throws EverdictError UNAUTHENTICATED, FORBIDDEN */
export async function authenticateKey(token: string, inputs: Inputs): Promise<{ principal: Principal; keyId: string }> {
  const { store } = inputs;
  const unknown = new EverdictError("UNAUTHENTICATED", "the API key is not known or was revoked");
  if (!/^ak_[A-Za-z0-9_-]{43}$/.test(token)) throw unknown;
  const row = await store
    .select()
    .from(apiKeys)
    .where(eq(apiKeys.hash, await sha256(token)))
    .get();
  if (!row) throw unknown;
  return { principal: await keyPrincipal(row, inputs), keyId: row.id };
}

async function keyPrincipal(row: typeof apiKeys.$inferSelect, inputs: Inputs): Promise<Principal> {
  const { store, config, now } = inputs;
  const named = namedWorkspace(inputs);
  if (named !== null && named !== row.workspace) {
    throw new EverdictError(
      "FORBIDDEN",
      `this API key belongs to workspace '${row.workspace}'; X-Everdict-Workspace says '${named}'`,
    );
  }
  let role = Role.parse(row.role);
  const isDev = config.dev && row.issuer === DEV_ISSUER;
  if (row.personal && !isDev) {
    const member = await membership(store, row.workspace, row.subject);
    if (!member)
      throw new EverdictError(
        "UNAUTHENTICATED",
        `the person this API key acts as is no longer a member of '${row.workspace}'`,
      );
    role = ROLES[Math.min(ROLES.indexOf(role), ROLES.indexOf(member))] ?? "viewer";
  }
  if (row.lastUsedAt === null || now - Date.parse(row.lastUsedAt) > 60_000) {
    inputs.waitUntil(
      store
        .update(apiKeys)
        .set({ lastUsedAt: iso(now) })
        .where(eq(apiKeys.id, row.id))
        .run(),
    );
  }
  const scope = Scope.parse(row.scope);
  return {
    kind: "key",
    subject: row.personal ? row.subject : `key:${row.id}`,
    person: row.personal ? await personHash(row.issuer, row.subject) : null,
    issuer: row.issuer,
    workspace: row.workspace,
    role,
    scope,
    operator: row.personal && scope === "admin" && (isDev || config.operators.has(row.subject)),
  };
}

async function personPrincipal(subject: string, issuer: string, inputs: Inputs): Promise<Principal> {
  const { store, config } = inputs;
  const operator = config.operators.has(subject);
  const base = {
    kind: "person" as const,
    subject,
    person: await personHash(issuer, subject),
    issuer,
    scope: "admin" as const,
    operator,
  };
  const workspace = namedWorkspace(inputs);
  if (workspace === null) {
    if (inputs.workspaceOptional) return { ...base, workspace: "", role: operator ? "admin" : "viewer" };
    throw new EverdictError(
      "BAD_REQUEST",
      "name the workspace in the X-Everdict-Workspace header; GET /workspaces lists yours",
    );
  }
  if (workspace === SHARED_OWNER && operator) return { ...base, workspace, role: "admin" };
  const role = await membership(store, workspace, subject);
  if (!role) throw new EverdictError("FORBIDDEN", `you are not a member of workspace '${workspace}'`);
  return { ...base, workspace, role };
}

async function membership(store: Store, workspace: string, subject: string): Promise<Role | null> {
  const row = await store
    .select({ role: members.role })
    .from(members)
    .where(and(eq(members.workspace, workspace), eq(members.subject, subject)))
    .get();
  return row ? Role.parse(row.role) : null;
}

/** The parts of a runner token `rnr_<object>.<secret>`, or null. */
export function parseRunnerToken(request: Request): { object: string; token: string } | null {
  const token = /^Bearer (rnr_([a-z0-9-]{1,80})\.[A-Za-z0-9_-]{43})$/i.exec(request.headers.get("authorization") ?? "");
  const object = token?.[2] ? objectOfToken(token[2]) : null;
  return token?.[1] && object ? { object, token: token[1] } : null;
}

/** The parts of a relay token `rly_<relay id without rly->.<secret>`, or null. */
export function parseRelayToken(request: Request): { id: string; token: string } | null {
  const header = request.headers.get("authorization") ?? "";
  const token = /^Bearer (rly_([0-9a-z]{1,32})\.[A-Za-z0-9_-]{43})$/i.exec(header);
  return token?.[1] && token[2] ? { id: `rly-${token[2]}`, token: token[1] } : null;
}

/** `u-<hash>` and `w-<workspace>` are how Scheduler objects of runners are written in tokens. */
export function tokenObject(object: string): string {
  return object.startsWith("runners:user:")
    ? `u-${object.slice("runners:user:".length)}`
    : `w-${object.slice("runners:ws:".length)}`;
}

function objectOfToken(text: string): string | null {
  if (/^u-[0-9a-f]{32}$/.test(text)) return `runners:user:${text.slice(2)}`;
  return /^w-/.test(text) && (text === "w-_shared" || WorkspaceId.safeParse(text.slice(2)).success)
    ? `runners:ws:${text.slice(2)}`
    : null;
}
