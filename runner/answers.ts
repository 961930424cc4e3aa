import type * as z from "zod";

/** Rounds of removing unknown keys; each handles all keys of one nesting level. */
const MAX_ROUNDS = 8;

/** The value at a path, when it is an object. */
function objectAt(root: unknown, path: readonly PropertyKey[]): Record<PropertyKey, unknown> | null {
  let value: unknown = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return null;
    value = Reflect.get(value, key);
  }
  return typeof value === "object" && value !== null ? (value as Record<PropertyKey, unknown>) : null;
}

/** Keys of an issue that the schema does not know; alternatives of a union are looked into. */
function dropUnknown(issue: z.core.$ZodIssue, root: unknown, base: readonly PropertyKey[]): boolean {
  const path = [...base, ...issue.path];
  if (issue.code === "unrecognized_keys") {
    const object = objectAt(root, path);
    if (object === null) return false;
    for (const key of issue.keys) delete object[key];
    return true;
  }
  return false;
}

/**
 * Parses an answer of the control plane, which may be newer than this runner and say more: keys that the schema does not
 * know are ignored. (The schemas themselves are strict, because they also check what clients send.)
 * @returns undefined when it is not of this shape
 */
export function parseAnswer<T>(shape: z.ZodType<T>, json: unknown): T | undefined {
  const first = shape.safeParse(json);
  if (first.success) return first.data;
  const copy: unknown = structuredClone(json);
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const parsed = shape.safeParse(copy);
    if (parsed.success) return parsed.data;
    const dropped = parsed.error.issues.map((issue) => dropUnknown(issue, copy, []));
    if (!dropped.every(Boolean)) return undefined;
  }
  return undefined;
}
