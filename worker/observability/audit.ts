import type { Context } from "../context.ts";
import { iso } from "../context.ts";
import { audit } from "../store/schema.ts";

/** The insert of one audit row, to be put into the same batch as the write it tells of. Never pass a secret value. */
export function auditRow(
  ctx: Context,
  action: string,
  target: string | null,
  detail: Record<string, unknown> | null = null,
) {
  return ctx.store.insert(audit).values({
    id: ctx.newId("aud"),
    workspace: ctx.principal.workspace,
    at: iso(ctx.now()),
    actor: ctx.principal.subject,
    action,
    target,
    requestId: ctx.requestId,
    detail,
  });
}
