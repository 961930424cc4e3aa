import { ChartLine } from "lucide-react";
import { useMemo } from "react";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { Panel } from "../../ui/layout.tsx";
import { Empty } from "../../ui/states.tsx";
import { Tag } from "../../ui/status.tsx";
import { exactTime } from "../../ui/time.tsx";
import { type Series, TimeChart } from "../../ui/time-chart.tsx";
import { percent } from "../../ui/words.ts";

/** Lines that one chart can still tell apart. */
const MAX_LINES = 6;

interface Point {
  at: number;
  card: Scorecard;
  rate: number;
}

/** Points by dataset, then by harness: what stands in one chart measured the same. */
function byDataset(cards: readonly Scorecard[]): Map<string, Map<string, Point[]>> {
  const out = new Map<string, Map<string, Point[]>>();
  for (const card of [...cards].reverse()) {
    const rate = card.summary?.passRate;
    if (rate == null) continue;
    const lines = out.get(card.dataset.id) ?? new Map<string, Point[]>();
    out.set(card.dataset.id, lines);
    const points = lines.get(card.harness.id) ?? [];
    lines.set(card.harness.id, points);
    points.push({ at: Date.parse(card.createdAt) / 1_000, card, rate });
  }
  return out;
}

/** Pass rate over time, a chart per dataset and a line per harness, with the figures as a table. */
export default function Trend({ cards }: { cards: readonly Scorecard[] }) {
  const charts = useMemo(() => byDataset(cards), [cards]);
  if (charts.size === 0)
    return (
      <div className="rounded-lg border border-line bg-surface">
        <Empty icon={<ChartLine aria-hidden />} title="Nothing to draw yet">
          A line appears when a scorecard has been measured.
        </Empty>
      </div>
    );
  return (
    <div className="flex flex-col gap-4">
      {[...charts].map(([dataset, lines]) => (
        <DatasetTrend key={dataset} dataset={dataset} lines={lines} />
      ))}
    </div>
  );
}

function DatasetTrend({ dataset, lines }: { dataset: string; lines: Map<string, Point[]> }) {
  const latest = [...lines].sort((a, b) => (b[1].at(-1)?.at ?? 0) - (a[1].at(-1)?.at ?? 0));
  const shown = latest.slice(0, MAX_LINES);
  const series: Series[] = shown.map(([harness, points]) => ({
    label: harness,
    points: points.map(({ at, rate }) => [at, rate] as const),
  }));
  return (
    <Panel title={dataset} actions={latest.length > MAX_LINES && <Tag>the {MAX_LINES} harnesses that ran last</Tag>}>
      <TimeChart label={`Pass rate of ${dataset} over time, by harness`} series={series} format={percent} max={1} />
      <details className="mt-2">
        <summary className="cursor-pointer text-xs text-muted">The figures</summary>
        <table className="mt-2 w-full text-left text-xs">
          <thead className="text-muted">
            <tr>
              <th className="py-1 font-medium">Harness</th>
              <th className="font-medium">Version</th>
              <th className="font-medium">Started</th>
              <th className="text-right font-medium">Pass rate</th>
              <th className="text-right font-medium">Measured</th>
            </tr>
          </thead>
          <tbody>
            {shown.flatMap(([harness, points]) =>
              points.map(({ card, rate }) => (
                <tr key={card.id} className="border-t border-line">
                  <td className="py-1">{harness}</td>
                  <td>{card.harness.version}</td>
                  <td>{exactTime(card.createdAt)}</td>
                  <td className="text-right tabular-nums">{percent(rate)}</td>
                  <td className="text-right tabular-nums">{card.summary?.measured}</td>
                </tr>
              )),
            )}
          </tbody>
        </table>
      </details>
    </Panel>
  );
}
