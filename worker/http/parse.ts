import type * as z from "zod";
import { EverdictError, type Issue, issuesOf } from "../../contracts/errors.ts";
import type { Operation } from "../../contracts/operations/operation.ts";

/**
 * Parses what came with a request, over HTTP or MCP alike, and reports every problem at once.
 * @throws EverdictError BAD_REQUEST with issues
 */
export function parseInput(
  operation: Operation,
  raw: { params: unknown; query: unknown; body: unknown },
): { params: unknown; query: unknown; body: unknown } {
  const issues: Issue[] = [];
  const part = (schema: z.ZodType, value: unknown): unknown => {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    issues.push(...issuesOf(parsed.error));
    return undefined;
  };
  const params = part(operation.params, raw.params);
  const query = part(operation.query, raw.query);
  let body: unknown;
  if (operation.body !== undefined) {
    // An operation whose body is all optional may be called without one.
    body = part(operation.body, raw.body === undefined ? {} : raw.body);
  } else if (
    raw.body !== undefined &&
    !(typeof raw.body === "object" && raw.body !== null && Object.keys(raw.body).length === 0)
  ) {
    issues.push({ path: "(body)", message: "this operation takes no body" });
  }
  if (issues.length > 0) {
    const [first] = issues;
    const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
    throw new EverdictError("BAD_REQUEST", `${first?.path}: ${first?.message}${more}`, {
      issues: issues.slice(0, 100),
    });
  }
  return { params, query, body };
}
