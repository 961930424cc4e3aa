// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
const CONTROL = /[\u0000-\u001f\u007f-\u009f]+/g;

/** Text from the API made safe for one line of a terminal: no escapes, no line breaks. */
export const plain = (text: string): string => text.replace(CONTROL, " ").trim();

/** At most `max` characters, the last one telling that there were more. */
export function short(text: string, max: number): string {
  const chars = [...text];
  return chars.length <= max ? text : `${chars.slice(0, Math.max(0, max - 1)).join("")}…`;
}

const MAX_CELL = 60;

/** Rows in columns under their headings; the last column takes the rest of the line. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], columns: number): string {
  const cells = [headings, ...rows].map((row) => row.map((cell) => plain(cell)));
  const last = headings.length - 1;
  const widths = headings.map((_, i) =>
    Math.min(MAX_CELL, Math.max(...cells.map((row) => [...(row[i] ?? "")].length))),
  );
  const used = widths.slice(0, last).reduce((sum, width) => sum + width + 2, 0);
  return cells
    .map((row) =>
      row
        .map((cell, i) =>
          i === last
            ? short(cell, Math.max(20, columns - used))
            : short(cell, widths[i] ?? 0).padEnd((widths[i] ?? 0) + 2),
        )
        .join("")
        .trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join("");
}

/** 90 s → "1m 30s". */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${(ms / 1_000).toFixed(1)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  return `${Math.floor(seconds / 3_600)}h ${Math.floor((seconds % 3_600) / 60)}m`;
}

/** 0.8234 → "82.3 %". */
export const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
