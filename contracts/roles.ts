import * as z from "zod";

export const ROLES = ["viewer", "member", "admin"] as const;
export const Role = z.enum(ROLES).describe("viewer ⊂ member ⊂ admin");
export type Role = z.infer<typeof Role>;

export const SCOPES = ["read", "write", "admin"] as const;
export const Scope = z
  .enum(SCOPES)
  .describe("Intersects the role: read only reads, write adds what members write, admin adds the rest");
export type Scope = z.infer<typeof Scope>;

/**
 * The total table: what the least role and the least API-key scope of each action are. `operator` is a right over the
 * deployment, not a role in a workspace.
 */
export const ACTIONS = {
  "me:read": { role: "viewer", scope: "read" },
  "runtimes:read": { role: "viewer", scope: "read" },
  "runtimes:write": { role: "viewer", scope: "write" },
  "runtimes:manage": { role: "member", scope: "write" },
  "runtimes:control": { role: "admin", scope: "admin" },
  "harnesses:read": { role: "viewer", scope: "read" },
  "harnesses:write": { role: "viewer", scope: "write" },
  "harnesses:manage": { role: "member", scope: "write" },
  "datasets:read": { role: "viewer", scope: "read" },
  "datasets:write": { role: "member", scope: "write" },
  "datasets:manage": { role: "member", scope: "write" },
  "runs:read": { role: "viewer", scope: "read" },
  "runs:submit": { role: "member", scope: "write" },
  "runs:cancel": { role: "member", scope: "write" },
  "runs:cancel-any": { role: "admin", scope: "write" },
  "queue:read": { role: "viewer", scope: "read" },
  "queue:promote": { role: "admin", scope: "write" },
  "runners:read": { role: "viewer", scope: "read" },
  "runners:own": { role: "member", scope: "write" },
  "runners:workspace": { role: "admin", scope: "admin" },
  "relays:read": { role: "viewer", scope: "read" },
  "relays:write": { role: "admin", scope: "admin" },
  "secrets:names": { role: "viewer", scope: "read" },
  "secrets:read": { role: "admin", scope: "admin" },
  "secrets:write": { role: "admin", scope: "admin" },
  "keys:own": { role: "viewer", scope: "write" },
  "keys:any": { role: "admin", scope: "admin" },
  "members:read": { role: "viewer", scope: "read" },
  "members:write": { role: "admin", scope: "admin" },
  "audit:read": { role: "admin", scope: "admin" },
  "workspaces:read": { role: "viewer", scope: "read" },
  operate: { role: "admin", scope: "admin" },
} as const satisfies Record<string, { role: Role; scope: Scope }>;
export type Action = keyof typeof ACTIONS;

/** Whether a role with a scope may do an action; `operate` further needs the operator right. */
export function may(action: Action, role: Role, scope: Scope, operator: boolean): boolean {
  if (action === "operate" && !operator) return false;
  const least = ACTIONS[action];
  return ROLES.indexOf(role) >= ROLES.indexOf(least.role) && SCOPES.indexOf(scope) >= SCOPES.indexOf(least.scope);
}
