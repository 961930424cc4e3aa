import { Timer } from "lucide-react";
import { useMemo } from "react";
import { Panel } from "../../ui/layout.tsx";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { duration, plural } from "../../ui/words.ts";
import { type Cell, histogram } from "./cells.ts";

/** How long the measured runs took: a bar per span of time, the same as a table. */
export function Durations({ cells }: { cells: readonly Cell[] | undefined }) {
  const measured = useMemo(
    () => (cells ?? []).flatMap(({ durationMs }) => (durationMs === null ? [] : [durationMs])),
    [cells],
  );
  const bins = useMemo(() => histogram(measured), [measured]);
  if (cells === undefined) return <Skeleton className="h-64 w-full" />;
  if (bins.length === 0)
    return (
      <div className="rounded-lg border border-line bg-surface">
        <Empty icon={<Timer aria-hidden />} title="Nothing was measured yet">
          Durations are those of measured runs, from the agent's start to its end.
        </Empty>
      </div>
    );
  const most = Math.max(...bins.map(({ count }) => count));
  const words = bins.map(({ from, to, count }) => `${duration(from)} to ${duration(to)}: ${count}`).join("; ");
  return (
    <Panel title={`Durations of ${plural(measured.length, "measured run")}`}>
      <div className="flex gap-2">
        <div
          aria-hidden
          className="flex shrink-0 flex-col justify-between text-right text-xs leading-none text-muted tabular-nums"
        >
          <span>{plural(most, "run")}</span>
          <span>0</span>
        </div>
        <div
          role="img"
          aria-label={`Runs by duration. ${words}`}
          className="flex h-48 min-w-0 flex-1 items-end gap-px border-t border-b border-line"
        >
          {bins.map(({ from, to, count }) => (
            <div
              key={from}
              title={`${duration(from)} to ${duration(to)}: ${plural(count, "run")}`}
              className="flex h-full flex-1 items-end hover:bg-hover"
            >
              <div
                className="w-full rounded-t-sm bg-accent-solid"
                style={{ height: count === 0 ? 0 : `max(2px, ${(count / most) * 100}%)` }}
              />
            </div>
          ))}
        </div>
      </div>
      <div aria-hidden className="mt-1 flex justify-between pl-12 text-xs text-muted tabular-nums">
        <span>{duration(0)}</span>
        <span>{duration((bins.at(-1)?.to ?? 0) / 2)}</span>
        <span>{duration(bins.at(-1)?.to ?? 0)}, and beyond</span>
      </div>
      <details className="mt-2">
        <summary className="cursor-pointer text-xs text-muted">The figures</summary>
        <table className="mt-2 text-left text-xs">
          <thead className="text-muted">
            <tr>
              <th className="pr-8 font-medium">From</th>
              <th className="pr-8 font-medium">To</th>
              <th className="text-right font-medium">Runs</th>
            </tr>
          </thead>
          <tbody>
            {bins
              .filter(({ count }) => count > 0)
              .map(({ from, to, count }) => (
                <tr key={from} className="border-t border-line tabular-nums">
                  <td className="py-0.5 pr-8">{duration(from)}</td>
                  <td className="pr-8">{duration(to)}</td>
                  <td className="text-right">{count.toLocaleString("en")}</td>
                </tr>
              ))}
          </tbody>
        </table>
      </details>
    </Panel>
  );
}
