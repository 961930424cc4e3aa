import type { Scorecard } from "../../../contracts/scorecard.ts";
import { cx } from "../../ui/class.ts";
import { type Tone, toneFill } from "../../ui/status.tsx";
import { percent } from "../../ui/words.ts";

type Progress = Scorecard["progress"];

const PARTS: readonly (readonly [Exclude<keyof Progress, "total">, Tone])[] = [
  ["succeeded", "ok"],
  ["failed", "bad"],
  ["cancelled", "idle"],
  ["running", "info"],
];

/** Progress in a table's row: a thin bar and a fraction. */
export function MiniProgress({ progress }: { progress: Progress }) {
  const ended = progress.succeeded + progress.failed + progress.cancelled;
  return (
    <span className="flex items-center gap-2">
      <span aria-hidden className="flex h-1.5 w-16 overflow-hidden rounded-full bg-idle-soft">
        {PARTS.map(([name, tone]) => (
          <span
            key={name}
            className={toneFill[tone]}
            style={{ width: `${(progress[name] / progress.total) * 100}%` }}
          />
        ))}
      </span>
      <span className="text-xs text-muted tabular-nums">
        {ended.toLocaleString("en")}/{progress.total.toLocaleString("en")}
      </span>
    </span>
  );
}

/** A pass rate with its 95 % interval, drawn: the band says how much to believe the figure. */
export function RateBar({
  rate,
  interval,
  className,
}: {
  rate: number;
  interval: [number, number] | null;
  className?: string;
}) {
  const words =
    interval === null
      ? `pass rate ${percent(rate)}`
      : `pass rate ${percent(rate)}, 95 % interval ${percent(interval[0])} to ${percent(interval[1])}`;
  return (
    <span
      role="img"
      aria-label={words}
      title={words}
      className={cx("relative inline-block h-2 w-24 rounded-full bg-idle-soft align-middle", className)}
    >
      {interval && (
        <span
          className="absolute inset-y-0 rounded-full bg-accent-solid opacity-35"
          style={{ left: `${interval[0] * 100}%`, right: `${(1 - interval[1]) * 100}%` }}
        />
      )}
      <span
        className="absolute -inset-y-0.5 w-0.5 -translate-x-1/2 rounded bg-accent"
        style={{ left: `${rate * 100}%` }}
      />
    </span>
  );
}

/** How many runs were not measured, of all that ended. */
export const unmeasured = (card: Scorecard): number =>
  card.summary
    ? Object.values(card.summary.failedByClass).reduce((sum, count) => sum + count, 0)
    : card.progress.failed;

/** The state of a scorecard in the words of ui/status.tsx: one that lacks measurements is not shown as measured. */
export const shownStatus = (card: Scorecard): string =>
  card.status === "succeeded" && unmeasured(card) > 0 ? "succeeded-in-part" : card.status;
