/* How figures are written. */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A length of time in its two largest units: `42 s`, `3 min 5 s`, `2 h 10 min`. @param ms milliseconds */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  const sec = Math.round(ms / 1_000);
  if (sec < MINUTE) return `${sec} s`;
  const two = (big: number, bigUnit: string, small: number, smallUnit: string) => {
    const rest = Math.floor((sec % big) / small);
    return rest === 0
      ? `${Math.floor(sec / big)} ${bigUnit}`
      : `${Math.floor(sec / big)} ${bigUnit} ${rest} ${smallUnit}`;
  };
  if (sec < HOUR) return two(MINUTE, "min", 1, "s");
  if (sec < DAY) return two(HOUR, "h", MINUTE, "min");
  return two(DAY, "d", HOUR, "h");
}

/** How long ago, or how soon: one unit only. */
export function relative(at: number, now: number): string {
  const sec = Math.round((now - at) / 1_000);
  const size = Math.abs(sec);
  if (size < 5) return "just now";
  const words =
    size < MINUTE
      ? `${size} s`
      : size < HOUR
        ? `${Math.floor(size / MINUTE)} min`
        : size < DAY
          ? `${Math.floor(size / HOUR)} h`
          : `${Math.floor(size / DAY)} d`;
  return sec >= 0 ? `${words} ago` : `in ${words}`;
}

/** `1 case`, `2 cases`. */
export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** A share from 0 to 1; never rounds to 0 or 100 % what is neither. */
export function percent(share: number): string {
  const value = share * 100;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  if (value < 100 && value > 99.9) return "> 99.9 %";
  return `${Number.isInteger(value) ? value : value.toFixed(1)} %`;
}

export const bytes = (count: number): string =>
  count < 1024
    ? `${count} B`
    : count < 1024 * 1024
      ? `${(count / 1024).toFixed(1)} KiB`
      : `${(count / 1024 / 1024).toFixed(1)} MiB`;

export const memory = (mb: number): string =>
  mb >= 10_240 ? `${(mb / 1024).toFixed(0)} GiB` : `${mb.toLocaleString("en")} MiB`;

/** A score from 0 to 1. */
export const score = (value: number | null | undefined): string => (value == null ? "–" : value.toFixed(2));
