import { useSyncExternalStore } from "react";
import { duration, relative } from "./words.ts";

/** One clock for all relative times on a page, so that they change together and cost one timer. */
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Milliseconds since the epoch, once a second. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);

const exact = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

export const exactTime = (at: string): string => exact.format(new Date(at));

/** How long ago; the exact time on hover, and for a screen reader. */
export function Time({ at, className }: { at: string; className?: string }) {
  const current = useNow();
  return (
    <time dateTime={at} title={`${exactTime(at)} (${at})`} className={className}>
      {relative(Date.parse(at), current)}
    </time>
  );
}

/** How long something took, or has taken so far. */
export function Elapsed({ from, to, className }: { from: string; to: string | null; className?: string }) {
  const current = useNow();
  const ms = (to === null ? Math.max(current, Date.parse(from)) : Date.parse(to)) - Date.parse(from);
  return (
    <span className={className} title={`${exactTime(from)} – ${to === null ? "now" : exactTime(to)}`}>
      {duration(Math.max(0, to === null ? Math.floor(ms / 1_000) * 1_000 : ms))}
    </span>
  );
}
