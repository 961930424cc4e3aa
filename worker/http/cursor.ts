import { EverdictError } from "../../contracts/errors.ts";
import { fromBase64Url, sign, toBase64Url, verify } from "../auth/digest.ts";
import type { Context } from "../context.ts";

/**
 * Opaque and signed, and bound to the list and its filters: a cursor of another list or filter is refused.
 * @param scope names list, workspace and filters
 */
export async function writeCursor(ctx: Context, scope: string, position: (string | number)[]): Promise<string> {
  const text = JSON.stringify(position);
  const mac = await sign(ctx.config.signingKey, "cursor", `${scope}\n${text}`);
  return `${toBase64Url(new TextEncoder().encode(text))}.${mac.slice(0, 22)}`;
}

/** @returns null for an absent cursor @throws EverdictError BAD_REQUEST */
export async function readCursor(
  ctx: Context,
  scope: string,
  cursor: string | undefined,
): Promise<(string | number)[] | null> {
  if (cursor === undefined) return null;
  const bad = new EverdictError(
    "BAD_REQUEST",
    "the cursor is not one of this list with these filters; start again without it",
    {
      issues: [{ path: "cursor", message: "use nextCursor of the page before, with the same filters" }],
    },
  );
  const [body = "", mac = ""] = cursor.split(".");
  const bytes = fromBase64Url(body);
  if (bytes === null || mac.length !== 22) throw bad;
  const text = new TextDecoder().decode(bytes);
  const whole = await sign(ctx.config.signingKey, "cursor", `${scope}\n${text}`);
  // Comparing MACs of MACs takes the same time wherever they differ.
  const proof = await sign(ctx.config.signingKey, "cursor-compare", mac);
  if (!(await verify(ctx.config.signingKey, "cursor-compare", whole.slice(0, 22), proof))) throw bad;
  const position: unknown = JSON.parse(text);
  if (!Array.isArray(position)) throw bad;
  return position;
}
