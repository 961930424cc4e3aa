import type { Operation } from "../../contracts/operations/operation.ts";
import { authorize } from "../auth/principal.ts";
import { type Context, withDeadline } from "../context.ts";
import { HANDLERS, type Input, type UserName } from "./handlers.ts";
import { once } from "./idempotency.ts";
import { parseInput } from "./parse.ts";
import { Reply } from "./reply.ts";

/** A caller waits no longer, even when the store stalls. */
const CALL_MS = 28_000;

export interface Answer {
  status: number;
  body: unknown;
  headers: Record<string, string>;
}

/**
 * Runs one operation for a principal: the same way for HTTP and MCP, so that the same input gives the same answer.
 * @throws EverdictError
 */
export async function callOperation(
  ctx: Context,
  operation: Operation,
  raw: { params: unknown; query: unknown; body: unknown; bodyText: string },
  idempotencyKey: string | null,
): Promise<Answer> {
  authorize(ctx.principal, operation.action);
  const input = parseInput(operation, raw);
  // SAFETY: the table's handler has the types of the table's operation, and `input` was parsed by its schemas.
  const handler = HANDLERS[operation.name as UserName] as (ctx: Context, input: Input<unknown>) => Promise<unknown>;
  const run = async (context: Context) => {
    const output = await withDeadline(handler(context, input as Input<unknown>), CALL_MS, "the control plane");
    return output instanceof Reply
      ? { status: output.status, body: output.body as unknown, headers: output.headers }
      : { status: operation.status, body: output, headers: {} };
  };
  if (!operation.creates || idempotencyKey === null) return run(ctx);
  const text = JSON.stringify([raw.params, raw.query, raw.bodyText]);
  const { replayed, ...answer } = await once(ctx, operation.name, idempotencyKey, text, run);
  return { ...answer, headers: replayed ? { "idempotency-replayed": "true" } : {} };
}
