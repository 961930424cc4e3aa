const STEP = /\.([A-Za-z_][A-Za-z0-9_-]*)|\[(0|[1-9][0-9]{0,8})\]|\['([^']*)'\]/gy;

/** A value and whether anything stands there: null and absent are two answers. */
export type Found = { found: true; value: unknown } | { found: false; at: string };

/**
 * The value at a path such as `$.a.b[0]`; only own properties count.
 * @returns where the path ended when it leads nowhere
 */
export function valueAt(document: unknown, path: string): Found {
  let value = document;
  let at = "$";
  for (const step of path.slice(1).matchAll(STEP)) {
    const key = step[1] ?? step[2] ?? step[3] ?? "";
    const steppable = typeof value === "object" && value !== null;
    const fits = Array.isArray(value) ? step[2] !== undefined : step[2] === undefined;
    if (!steppable || !fits || !Object.hasOwn(value as object, key)) return { found: false, at: at + step[0] };
    value = Reflect.get(value as object, key);
    at += step[0];
  }
  return { found: true, value };
}

/** Whether two JSON values are the same, without regard to the order of keys. */
export function jsonEquals(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return (
      Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => jsonEquals(item, b[i]))
    );
  }
  const entries = Object.entries(a);
  const other = new Map(Object.entries(b));
  return (
    entries.length === other.size &&
    entries.every(([key, value]) => other.has(key) && jsonEquals(value, other.get(key)))
  );
}

/**
 * Reads text as JSON: all of it, else its last non-empty line, as programs print a result after their chatter.
 * @returns undefined when neither is JSON
 */
export function readJson(text: string): unknown {
  const whole = parseJson(text);
  if (whole !== undefined) return whole;
  const trimmed = text.trimEnd();
  return parseJson(trimmed.slice(trimmed.lastIndexOf("\n") + 1));
}

/** The value of a JSON text; undefined when it is none. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
