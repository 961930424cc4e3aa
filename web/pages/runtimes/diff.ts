/** One place where two documents differ; undefined stands for "not there". */
export interface Difference {
  path: string;
  before: string | undefined;
  after: string | undefined;
}

function* leaves(value: unknown, path: string): Generator<[string, string]> {
  const plain = Array.isArray(value) && value.every((item) => typeof item !== "object");
  if (plain) yield [path, value.length === 0 ? "none" : value.join(", ")];
  else if (typeof value === "object" && value !== null && Object.keys(value).length > 0) {
    for (const [key, inner] of Object.entries(value)) yield* leaves(inner, path === "" ? key : `${path}.${key}`);
  } else if (value !== undefined) yield [path, typeof value === "string" ? value : JSON.stringify(value)];
}

/** What changes from one version of a spec to another, field by field; the version itself is left out. */
export function differences(before: object, after: object): Difference[] {
  const old = new Map(leaves({ ...before, version: undefined }, ""));
  const fresh = new Map(leaves({ ...after, version: undefined }, ""));
  const paths = [...new Set([...old.keys(), ...fresh.keys()])].sort();
  return paths.flatMap((path) =>
    old.get(path) === fresh.get(path) ? [] : [{ path, before: old.get(path), after: fresh.get(path) }],
  );
}

/** The version to offer for a change: one patch above the highest. */
export function nextVersion(versions: readonly string[]): string {
  const known = versions.flatMap((version) => {
    const parts = /^(\d+)\.(\d+)\.(\d+)/.exec(version);
    return parts ? [parts.slice(1, 4).map(Number) as [number, number, number]] : [];
  });
  if (known.length === 0) return "1.0.0";
  const [major, minor, patch] = known.sort((a, b) => b[0] - a[0] || b[1] - a[1] || b[2] - a[2])[0] ?? [1, 0, 0];
  return `${major}.${minor}.${patch + 1}`;
}
