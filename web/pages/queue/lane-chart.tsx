import { Panel } from "../../ui/layout.tsx";
import { exactTime } from "../../ui/time.tsx";
import { type Series, TimeChart } from "../../ui/time-chart.tsx";
import { memory } from "../../ui/words.ts";
import { laneHistory, type Sample } from "./lane-history.ts";

/** Lines that one chart can still tell apart, without the one of what waits. */
const MAX_LANES = 5;
const SPAN_SEC = 300;

const lineOf = (target: string, samples: readonly Sample[], read: (sample: Sample) => number | null): Series => ({
  label: target,
  area: true,
  points: samples.map((sample) => [sample.at, read(sample)] as const),
});

/** Slots and memory in use per target, and what waits, over the time this browser has looked; at most an hour. */
export default function LaneChart({ updatedAt }: { updatedAt: number }) {
  const history = [...laneHistory()].filter(([, samples]) => samples.length > 0);
  if (history.length === 0) return <p className="text-muted">Nothing was seen yet.</p>;
  const first = Math.min(...history.flatMap(([, samples]) => samples[0]?.at ?? []));
  const busiest = [...history].sort((a, b) => peak(b[1]) - peak(a[1])).slice(0, MAX_LANES);
  const waiting = new Map<number, number>();
  for (const [, samples] of history)
    for (const { at, waiting: count } of samples) waiting.set(at, (waiting.get(at) ?? 0) + count);
  const series: Series[] = [
    ...busiest.map(([target, samples]) => lineOf(target, samples, ({ inFlight }) => inFlight)),
    { label: "waiting, all targets", points: [...waiting].sort((a, b) => a[0] - b[0]) },
  ];
  const budgets = history
    .filter(([, samples]) => samples.some(({ memoryMb }) => memoryMb !== null))
    .slice(0, MAX_LANES);
  return (
    <div data-updated={updatedAt} className="flex flex-col gap-4">
      <p className="text-muted">
        What this browser has seen since {exactTime(new Date(first * 1_000).toISOString())}, at most an hour; keep the
        queue open to see more.
      </p>
      <Panel title="Runs in flight and waiting">
        <TimeChart
          label="Runs in flight by target, and waiting runs"
          series={series}
          format={(value) => String(Math.round(value))}
          spanSec={SPAN_SEC}
        />
      </Panel>
      {budgets.length > 0 && (
        <Panel title="Memory in use, where a runtime has a budget">
          <TimeChart
            label="Memory in use by target"
            series={budgets.map(([target, samples]) => lineOf(target, samples, ({ memoryMb }) => memoryMb))}
            format={(value) => memory(Math.round(value))}
            least={1_024}
            spanSec={SPAN_SEC}
          />
        </Panel>
      )}
      <Panel title="The figures" flush>
        <div className="overflow-x-auto">
          <table className="w-full text-left text-xs">
            <thead className="text-muted">
              <tr className="h-8">
                <th className="px-3 font-medium">Target</th>
                <th className="px-3 text-right font-medium">In flight now</th>
                <th className="px-3 text-right font-medium">Most</th>
                <th className="px-3 text-right font-medium">Waiting now</th>
                <th className="px-3 text-right font-medium">Most</th>
              </tr>
            </thead>
            <tbody>
              {history.map(([target, samples]) => (
                <tr key={target} className="h-8 border-t border-line tabular-nums">
                  <td className="px-3">{target}</td>
                  <td className="px-3 text-right">{samples.at(-1)?.inFlight}</td>
                  <td className="px-3 text-right">{peak(samples)}</td>
                  <td className="px-3 text-right">{samples.at(-1)?.waiting}</td>
                  <td className="px-3 text-right">{Math.max(...samples.map(({ waiting: count }) => count))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Panel>
    </div>
  );
}

const peak = (samples: readonly Sample[]): number => Math.max(0, ...samples.map(({ inFlight }) => inFlight));
