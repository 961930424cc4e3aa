import type { EverdictError as Problem } from "../../contracts/errors.ts";
import { EverdictError } from "../../contracts/errors.ts";
import { ACTIONS, type Action, may, type Role, type Scope } from "../../contracts/roles.ts";

/** Who is calling, in which workspace, with which rights. */
export interface Principal {
  kind: "dev" | "person" | "key";
  /** Shown as createdBy and in the audit trail: a person's subject, or key:<id>. */
  subject: string;
  /** Hash of (issuer, subject) of the person it acts as; null when it acts as the workspace. */
  person: string | null;
  issuer: string;
  workspace: string;
  role: Role;
  scope: Scope;
  operator: boolean;
}

/** @throws EverdictError FORBIDDEN that names the role or scope needed */
export function authorize(principal: Principal, action: Action): void {
  if (may(action, principal.role, principal.scope, principal.operator)) return;
  throw forbidden(principal, action);
}

export const allowed = (principal: Principal, action: Action): boolean =>
  may(action, principal.role, principal.scope, principal.operator);

function forbidden(principal: Principal, action: Action): Problem {
  const least = ACTIONS[action];
  const need =
    action === "operate"
      ? "operator rights over the deployment"
      : `role '${least.role}' or higher with scope '${least.scope}' or higher`;
  return new EverdictError(
    "FORBIDDEN",
    `this needs ${need}; you are '${principal.role}' with scope '${principal.scope}' in workspace '${principal.workspace}'`,
    { data: { action, role: principal.role, scope: principal.scope } },
  );
}
