import type { ReactNode } from "react";
import { cx } from "./class.ts";
import { type Tone, toneFill } from "./status.tsx";

export interface Segment {
  id: string;
  label: string;
  count: number;
  tone: Tone;
  /** What is yet to come: drawn as the ground of the bar. */
  rest?: boolean;
}

/** Counts as one bar with a legend that is also the table of it; a segment can be chosen. */
export function DistributionBar({
  label,
  segments,
  selected,
  onSelect,
}: {
  label: string;
  segments: readonly Segment[];
  selected?: string | undefined;
  onSelect?: (id: string | undefined) => void;
}) {
  const total = segments.reduce((sum, { count }) => sum + count, 0);
  return (
    <div>
      <div
        role="img"
        aria-label={`${label}: ${segments.map(({ label: name, count }) => `${name} ${count}`).join(", ")}`}
        className="flex h-2.5 gap-px overflow-hidden rounded-full bg-idle-soft"
      >
        {segments.map(({ id, count, tone, rest }) =>
          count === 0 ? null : (
            <div
              key={id}
              className={cx("min-w-0.75 transition-[flex-grow] duration-300", rest ? "bg-line-strong" : toneFill[tone])}
              style={{ flexGrow: count / Math.max(1, total), flexBasis: 0 }}
            />
          ),
        )}
      </div>
      <ul className="mt-2 flex flex-wrap gap-1">
        {segments.map(({ id, label: name, count, tone, rest }) => {
          const inside = (
            <>
              <span aria-hidden className={cx("size-2 rounded-full", rest ? "bg-line-strong" : toneFill[tone])} />
              <span className="text-muted">{name}</span>
              <span className="font-medium tabular-nums">{count.toLocaleString("en")}</span>
            </>
          );
          const look = "inline-flex h-6 items-center gap-1.5 rounded px-1.5 text-xs";
          return (
            <li key={id}>
              {onSelect ? (
                <button
                  type="button"
                  aria-pressed={selected === id}
                  onClick={() => onSelect(selected === id ? undefined : id)}
                  className={cx(look, selected === id ? "bg-accent-soft ring-1 ring-accent" : "hover:bg-hover")}
                >
                  {inside}
                </button>
              ) : (
                <span className={look}>{inside}</span>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** How much of something is taken. */
export function Meter({
  label,
  value,
  max,
  text,
  className,
}: {
  label: string;
  value: number;
  max: number;
  text: ReactNode;
  className?: string;
}) {
  const share = max <= 0 ? 0 : Math.min(1, value / max);
  return (
    <div className={cx("flex items-center gap-2", className)}>
      <div
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={max}
        aria-valuenow={value}
        className="h-1.5 w-16 shrink-0 overflow-hidden rounded-full bg-idle-soft"
      >
        <div
          className={cx("h-full rounded-full", share >= 1 ? "bg-warn-solid" : "bg-accent-solid")}
          style={{ width: `${share * 100}%` }}
        />
      </div>
      <span className="text-xs whitespace-nowrap tabular-nums">{text}</span>
    </div>
  );
}
