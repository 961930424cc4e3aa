export type SortKey = string | number | null | undefined;

/** `case-2` before `case-10`. */
const collator = new Intl.Collator("en", { numeric: true });

const compare = (a: string | number, b: string | number): number =>
  typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b));

/**
 * Rows by a key, in a new list. Each key is read once, equal ones keep their order, and those without a key come last in
 * either direction.
 */
export function sortRows<T>(rows: readonly T[], keyOf: (row: T) => SortKey, descending: boolean): T[] {
  const keyed: { key: string | number; row: T }[] = [];
  const without: T[] = [];
  for (const row of rows) {
    const key = keyOf(row);
    if (key === null || key === undefined || Number.isNaN(key)) without.push(row);
    else keyed.push({ key, row });
  }
  const sign = descending ? -1 : 1;
  keyed.sort((a, b) => sign * compare(a.key, b.key));
  return [...keyed.map(({ row }) => row), ...without];
}
