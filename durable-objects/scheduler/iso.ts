let last = { ms: Number.NaN, text: "" };

/** ISO 8601 in UTC with milliseconds: a turn writes the same moment many times over. @param ms epoch milliseconds */
export function iso(ms: number): string {
  if (last.ms !== ms) last = { ms, text: new Date(ms).toISOString() };
  return last.text;
}
