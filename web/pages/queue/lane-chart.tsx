import { useRead } from "../../api/queries.ts";
import { Panel } from "../../ui/layout.tsx";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";
import { type Series, TimeChart } from "../../ui/time-chart.tsx";
import { memory } from "../../ui/words.ts";

/** Lines that one chart can still tell apart, without the one of what waits. */
const MAX_LINES = 5;
const LOOK_MS = 30_000;
const SPAN_SEC = 300;

/** Runs in flight and waiting over the last hour, from the runs themselves, and the memory they declared. */
export default function LaneChart({ updatedAt }: { updatedAt: number }) {
  const query = useRead("get_queue_history", {}, { every: LOOK_MS });
  if (query.error && query.data === undefined)
    return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  if (query.data === undefined) return <Skeleton className="h-96 w-full" />;
  const { from, stepSec, targets, complete } = query.data;
  const start = Date.parse(from) / 1_000;
  const times = (values: readonly number[]) => values.map((value, at) => [start + at * stepSec, value] as const);
  const peak = (values: readonly number[]) => Math.max(0, ...values);
  const busiest = [...targets].sort((a, b) => peak(b.inFlight) - peak(a.inFlight)).slice(0, MAX_LINES);
  const hungriest = targets
    .filter(({ memoryMb }) => memoryMb.some(Boolean))
    .sort((a, b) => peak(b.memoryMb) - peak(a.memoryMb))
    .slice(0, MAX_LINES);
  const steps = Math.max(0, ...targets.map(({ waiting }) => waiting.length));
  const waiting = Array.from({ length: steps }, (_, at) =>
    targets.reduce((sum, each) => sum + (each.waiting[at] ?? 0), 0),
  );
  const series: Series[] = [
    ...busiest.map(({ target, inFlight }) => ({ label: target, area: true, points: times(inFlight) })),
    { label: "waiting, all targets", points: times(waiting) },
  ];
  return (
    <div data-updated={updatedAt} className="flex flex-col gap-4">
      <Panel title="Runs in flight and waiting, minute by minute">
        {targets.length === 0 ? (
          <Empty title="Nothing ran or waited in the last hour" />
        ) : (
          <>
            <TimeChart
              label="Runs in flight by target, and waiting runs"
              series={series}
              format={(value) => String(Math.round(value))}
              spanSec={SPAN_SEC}
            />
            <p className="text-xs text-muted">What waits includes cases that a scorecard still holds back.</p>
            {!complete && (
              <p className="text-xs text-warn">There were more than 20,000 runs; the older ones are missing.</p>
            )}
            {targets.length > MAX_LINES && (
              <p className="text-xs text-muted">The {MAX_LINES} busiest targets; all of them are in the table.</p>
            )}
          </>
        )}
      </Panel>
      {hungriest.length > 0 && (
        <Panel title="Declared memory in flight, minute by minute">
          <TimeChart
            label="Declared memory in flight by target"
            series={hungriest.map(({ target, memoryMb }) => ({ label: target, area: true, points: times(memoryMb) }))}
            format={(value) => memory(Math.round(value))}
            least={1_024}
            spanSec={SPAN_SEC}
          />
          <p className="text-xs text-muted">Runs that declare no memory are not in it.</p>
        </Panel>
      )}
      {targets.length > 0 && (
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
                {targets.map((each) => (
                  <tr key={each.target} className="h-8 border-t border-line tabular-nums">
                    <td className="px-3">{each.target}</td>
                    <td className="px-3 text-right">{each.inFlight.at(-1)}</td>
                    <td className="px-3 text-right">{peak(each.inFlight)}</td>
                    <td className="px-3 text-right">{each.waiting.at(-1)}</td>
                    <td className="px-3 text-right">{peak(each.waiting)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Panel>
      )}
    </div>
  );
}
