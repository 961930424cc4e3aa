interface Parsed {
  core: [number, number, number];
  pre: (string | number)[];
}

function parse(version: string): Parsed {
  const [noBuild = ""] = version.split("+");
  const dash = noBuild.indexOf("-");
  const core = (dash < 0 ? noBuild : noBuild.slice(0, dash)).split(".").map(Number);
  const pre =
    dash < 0
      ? []
      : noBuild
          .slice(dash + 1)
          .split(".")
          .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
  return { core: [core[0] ?? 0, core[1] ?? 0, core[2] ?? 0], pre };
}

/** Semver precedence: negative when a is lower. 1.0.10 > 1.0.9; a release > its pre-releases; build data is ignored. */
export function compareVersions(a: string, b: string): number {
  const x = parse(a);
  const y = parse(b);
  for (const i of [0, 1, 2] as const) if (x.core[i] !== y.core[i]) return x.core[i] - y.core[i];
  if (x.pre.length === 0 || y.pre.length === 0) return y.pre.length - x.pre.length;
  for (let i = 0; i < Math.max(x.pre.length, y.pre.length); i++) {
    const p = x.pre[i];
    const q = y.pre[i];
    if (p === undefined) return -1;
    if (q === undefined) return 1;
    if (p === q) continue;
    if (typeof p === "number") return typeof q === "number" ? p - q : -1;
    if (typeof q === "number") return 1;
    return p < q ? -1 : 1;
  }
  return 0;
}

/** The highest version, or null of none. */
export function latestVersion(versions: readonly string[]): string | null {
  return versions.reduce<string | null>((best, v) => (best === null || compareVersions(v, best) > 0 ? v : best), null);
}

/** The next free patch version after the highest one. */
export function nextVersion(versions: readonly string[]): string {
  const top = latestVersion(versions);
  if (top === null) return "1.0.0";
  const { core, pre } = parse(top);
  return pre.length > 0 ? core.join(".") : `${core[0]}.${core[1]}.${core[2] + 1}`;
}
