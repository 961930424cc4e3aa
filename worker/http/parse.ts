import type * as z from "zod";
import { EverdictError, type Issue, issuesOf } from "../../contracts/errors.ts";
import type { Operation } from "../../contracts/operations/operation.ts";

/** Deeper documents are no eval: they are there to exhaust a stack. */
const MAX_DEPTH = 64;

/** Problems of a document as such, whatever its schema: looked for without recursion. */
function documentIssues(root: unknown): Issue[] {
  const stack: { value: unknown; path: string; depth: number }[] = [{ value: root, path: "", depth: 0 }];
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { value, path, depth } = next;
    if (typeof value !== "object" || value === null) continue;
    if (depth >= MAX_DEPTH)
      return [{ path: path.slice(0, 300), message: `is nested deeper than ${MAX_DEPTH} levels; flatten it` }];
    for (const [key, item] of Object.entries(value)) {
      const at = path === "" ? key : `${path}.${key}`;
      // Objects made from it would silently lose it, or worse.
      if (key === "__proto__") return [{ path: at.slice(0, 300), message: "'__proto__' is not a name; remove it" }];
      stack.push({ value: item, path: at, depth: depth + 1 });
    }
  }
  return [];
}

/**
 * Parses what came with a request, over HTTP or MCP alike, and reports every problem at once.
 * @throws EverdictError BAD_REQUEST with issues
 */
export function parseInput(
  operation: Operation,
  raw: { params: unknown; query: unknown; body: unknown },
): { params: unknown; query: unknown; body: unknown } {
  const issues: Issue[] = operation.bodyType === "bytes" ? [] : documentIssues(raw.body);
  if (issues.length > 0) throw refusal(issues);
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
  if (issues.length > 0) throw refusal(issues);
  return { params, query, body };
}

function refusal(issues: Issue[]): EverdictError {
  const [first] = issues;
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : "";
  return new EverdictError("BAD_REQUEST", `${first?.path}: ${first?.message}${more}`, { issues: issues.slice(0, 100) });
}
