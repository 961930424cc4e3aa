import type { Placement } from "./shapes.ts";

const counted = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, 10)
    .map(([what, nodes]) => `${what} (${nodes} ${nodes === 1 ? "node" : "nodes"})`)
    .join(", ");

/**
 * The scheduler's reasons in one line. "Never fits" and "full now" look alike (N 39), so the words claim neither.
 * @returns null when nothing is missing
 */
export function placementWords(groups: Readonly<Record<string, Placement>>): string | null {
  const words = Object.values(groups).map((group) => {
    const parts: string[] = [];
    if (group.QuotaExhausted.length > 0) parts.push(`quota exhausted: ${group.QuotaExhausted.join(", ")}`);
    const exhausted = counted(group.DimensionExhausted);
    if (exhausted !== "") parts.push(`exhausted: ${exhausted}`);
    const filtered = counted(group.ConstraintFiltered);
    if (filtered !== "") parts.push(`filtered: ${filtered}`);
    if (parts.length > 0) return parts.join("; ");
    if (group.NodesEvaluated === 0) return "no node was considered: none is eligible in these datacenters";
    return `${group.NodesFiltered} of ${group.NodesEvaluated} nodes filtered, ${group.NodesExhausted} exhausted`;
  });
  return words.length === 0 ? null : words.join("; ").slice(0, 1_000);
}
