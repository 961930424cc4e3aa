import * as z from "zod";
import { ApiKeyId, LIMITS, SecretName, WorkspaceId } from "../names.ts";
import { between, whole } from "../numbers.ts";
import { Role, Scope } from "../roles.ts";
import { Timestamp } from "../run.ts";
import { operation } from "./operation.ts";
import { Actor, NoParams, NoQuery, PageQuery, page } from "./shapes.ts";

export const SecretUse = z
  .enum(["job", "cluster", "registry"])
  .describe(
    "job: injected into jobs; cluster: sent to the listed hosts only; registry: image pulls from the listed hosts",
  );
export type SecretUse = z.infer<typeof SecretUse>;

const HostGlob = z
  .string()
  .min(1)
  .max(260)
  .regex(
    /^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:(\d{1,5}|\*))?$|^\[[0-9a-fA-F:]+\](:(\d{1,5}|\*))?$|^(\d{1,3}\.){3}\d{1,3}(:(\d{1,5}|\*))?$/,
    "must be a host name, *.domain, or an address, perhaps with :port",
  );

const SecretParams = z.strictObject({ name: SecretName });
const Subject = z.string().min(1).max(300).describe("Subject of a person, as the token issuer names them");

const WorkspaceItem = z.strictObject({
  id: WorkspaceId,
  name: z.string(),
  createdAt: Timestamp,
  role: Role.nullable().describe("Yours in it"),
});
const MemberItem = z.strictObject({ subject: Subject, role: Role, createdAt: Timestamp });

const keyFields = {
  id: ApiKeyId,
  name: z.string(),
  scope: Scope,
  role: Role,
  personal: z.boolean(),
  createdAt: Timestamp,
};

export const Limits = z
  .strictObject({
    weight: between(0.01, 1_000).describe("Share against other workspaces"),
    maxInFlight: whole(1, 100_000).nullable().describe("Attempts in flight over all targets; null is unlimited"),
    queueDepth: whole(1, 100_000).describe("Waiting runs"),
    runsBudget: whole(0, 10_000_000)
      .nullable()
      .describe("Runs it may submit in a calendar month (UTC); null is unlimited"),
    runsUsed: z.number().int().min(0).describe("Runs it has submitted in this calendar month (UTC)"),
  })
  .describe("What a workspace may take");

export const ADMIN_OPERATIONS = {
  get_me: operation({
    name: "get_me",
    method: "GET",
    path: "/me",
    group: "identity",
    summary: "Who you are, and where you may act",
    audience: "user",
    action: "me:read",
    params: NoParams,
    query: NoQuery,
    status: 200,
    output: z.strictObject({
      subject: z.string(),
      workspace: WorkspaceId.nullable().describe("null when a person named none"),
      role: Role,
      scope: Scope,
      operator: z.boolean(),
      personal: z.boolean().describe("Acts as a person, not as the workspace"),
      workspaces: z.array(WorkspaceItem),
    }),
  }),
  create_workspace: operation({
    name: "create_workspace",
    idempotent: true,
    method: "POST",
    path: "/workspaces",
    group: "identity",
    summary: "Create a workspace",
    audience: "user",
    action: "operate",
    params: NoParams,
    query: NoQuery,
    body: z.strictObject({ id: WorkspaceId, name: z.string().min(1).max(200) }),
    status: 201,
    output: WorkspaceItem,
    creates: true,
  }),
  list_workspaces: operation({
    name: "list_workspaces",
    method: "GET",
    path: "/workspaces",
    group: "identity",
    summary: "List the workspaces you are in (operators: all)",
    audience: "user",
    action: "workspaces:read",
    params: NoParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(WorkspaceItem),
  }),
  get_workspace_limits: operation({
    name: "get_workspace_limits",
    method: "GET",
    path: "/workspaces/{id}/limits",
    group: "identity",
    summary: "Read what a workspace may take",
    audience: "user",
    action: "operate",
    params: z.strictObject({ id: WorkspaceId }),
    query: NoQuery,
    status: 200,
    output: Limits,
  }),
  set_workspace_limits: operation({
    name: "set_workspace_limits",
    method: "PUT",
    path: "/workspaces/{id}/limits",
    group: "identity",
    summary: "Set what a workspace may take; counts from the next admission",
    description:
      "A limit that is left out has its default again, but for runsBudget, which stays as it is. The runs budget counts " +
      "from the next submit: single runs, each case and trial of a scorecard, and each run of a scorecard's retry.",
    audience: "user",
    action: "operate",
    params: z.strictObject({ id: WorkspaceId }),
    query: NoQuery,
    body: z.strictObject({
      weight: Limits.shape.weight.default(1),
      maxInFlight: Limits.shape.maxInFlight.default(null),
      queueDepth: Limits.shape.queueDepth.default(50_000),
      runsBudget: Limits.shape.runsBudget
        .optional()
        .describe("Runs it may submit in a calendar month (UTC); null is unlimited; left out, it stays as it is"),
    }),
    status: 200,
    output: Limits,
  }),
  list_members: operation({
    name: "list_members",
    method: "GET",
    path: "/members",
    group: "identity",
    summary: "List the members of the workspace",
    audience: "user",
    action: "members:read",
    params: NoParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(MemberItem),
  }),
  set_member: operation({
    name: "set_member",
    method: "PUT",
    path: "/members/{subject}",
    group: "identity",
    summary: "Add a member, or change their role",
    audience: "user",
    action: "members:write",
    params: z.strictObject({ subject: Subject }),
    query: NoQuery,
    body: z.strictObject({ role: Role }),
    status: 200,
    output: MemberItem,
  }),
  remove_member: operation({
    name: "remove_member",
    method: "DELETE",
    path: "/members/{subject}",
    group: "identity",
    summary: "Remove a member",
    audience: "user",
    action: "members:write",
    params: z.strictObject({ subject: Subject }),
    query: NoQuery,
    status: 204,
    destructive: true,
  }),
  create_api_key: operation({
    name: "create_api_key",
    method: "POST",
    path: "/api-keys",
    group: "identity",
    summary: "Create an API key; the token is shown once",
    audience: "user",
    action: "keys:own",
    params: NoParams,
    query: NoQuery,
    body: z.strictObject({
      name: z.string().min(1).max(100),
      scope: Scope.default("write"),
      role: Role.optional().describe("Default yours; never above yours"),
      personal: z.boolean().default(false).describe("Acts as you, in every workspace check; else as the workspace"),
    }),
    status: 201,
    output: z.strictObject({
      ...keyFields,
      token: z.string().nullable().describe("Shown once; null when the request is repeated"),
    }),
    creates: true,
    sensitive: true,
  }),
  list_api_keys: operation({
    name: "list_api_keys",
    method: "GET",
    path: "/api-keys",
    group: "identity",
    summary: "List API keys: yours, and as admin everyone's",
    audience: "user",
    action: "keys:own",
    params: NoParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(z.strictObject({ ...keyFields, createdBy: Actor, lastUsedAt: Timestamp.nullable() })),
  }),
  revoke_api_key: operation({
    name: "revoke_api_key",
    method: "DELETE",
    path: "/api-keys/{id}",
    group: "identity",
    summary: "Revoke an API key at once",
    audience: "user",
    action: "keys:own",
    params: z.strictObject({ id: ApiKeyId }),
    query: NoQuery,
    status: 204,
    destructive: true,
  }),
  list_audit: operation({
    name: "list_audit",
    method: "GET",
    path: "/audit",
    group: "identity",
    summary: "Who changed what, newest first",
    audience: "user",
    action: "audit:read",
    params: NoParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(
      z.strictObject({
        id: z.string(),
        at: Timestamp,
        actor: Actor,
        action: z.string(),
        target: z.string().nullable(),
        requestId: z.string(),
        detail: z.record(z.string(), z.unknown()).nullable(),
      }),
    ),
  }),
  list_secret_names: operation({
    name: "list_secret_names",
    method: "GET",
    path: "/secrets/names",
    group: "secrets",
    summary: "Names and uses of secrets, for pickers",
    audience: "user",
    action: "secrets:names",
    params: NoParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(z.strictObject({ name: z.string(), use: SecretUse.nullable() })),
  }),
  list_secrets: operation({
    name: "list_secrets",
    method: "GET",
    path: "/secrets",
    group: "secrets",
    summary: "Secrets and who refers to them; never a value",
    audience: "user",
    action: "secrets:read",
    params: NoParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(
      z.strictObject({
        name: z.string(),
        use: SecretUse.nullable().describe("null: a Worker secret without a declared use; usable by nothing"),
        hosts: z.array(z.string()),
        updatedAt: Timestamp.nullable(),
        usedBy: z.array(z.string()),
        source: z.enum(["vault", "worker"]),
      }),
    ),
  }),
  put_secret: operation({
    name: "put_secret",
    method: "PUT",
    path: "/secrets/{name}",
    group: "secrets",
    summary: "Store or rotate a secret; counts from the next dispatch",
    audience: "user",
    action: "secrets:write",
    params: SecretParams,
    query: NoQuery,
    body: z.strictObject({
      value: z.string().min(1).max(LIMITS.secretBytes).describe("Never returned; at most 16 KiB"),
      use: SecretUse.default("job"),
      hosts: z.array(HostGlob).min(1).max(50).optional().describe("Required for cluster and registry"),
    }),
    status: 204,
    sensitive: true,
  }),
  rotate_vault: operation({
    name: "rotate_vault",
    idempotent: true,
    method: "POST",
    path: "/vault/rotate",
    group: "secrets",
    summary: "Re-seal every secret under the current vault key",
    description: "Add the new key to EVERDICT_VAULT_KEYS and make it current, call this, then remove the old key.",
    audience: "user",
    action: "operate",
    params: NoParams,
    query: NoQuery,
    status: 200,
    output: z.strictObject({ keyId: z.string(), resealed: z.number().int() }),
  }),
  delete_secret: operation({
    name: "delete_secret",
    method: "DELETE",
    path: "/secrets/{name}",
    group: "secrets",
    summary: "Delete a secret",
    audience: "user",
    action: "secrets:write",
    params: SecretParams,
    query: NoQuery,
    status: 204,
    destructive: true,
  }),
};
