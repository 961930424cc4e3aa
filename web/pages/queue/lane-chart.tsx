import { ChartArea } from "lucide-react";
import { useRead } from "../../api/queries.ts";
import { Panel } from "../../ui/layout.tsx";
import { Name } from "../../ui/name.tsx";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";
import { TimeChart } from "../../ui/time-chart.tsx";
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
  const fullest = targets
    .filter(({ waiting }) => waiting.some(Boolean))
    .sort((a, b) => peak(b.waiting) - peak(a.waiting))
    .slice(0, MAX_LINES);
  const hungriest = targets
    .filter(({ memoryMb }) => memoryMb.some(Boolean))
    .sort((a, b) => peak(b.memoryMb) - peak(a.memoryMb))
    .slice(0, MAX_LINES);
  const count = (value: number) => Math.round(value).toLocaleString("en");
  const some = targets.length > MAX_LINES && (
    <p className="text-xs text-muted">The {MAX_LINES} largest; all targets are in the table.</p>
  );
  if (targets.length === 0)
    return (
      <div data-updated={updatedAt} className="rounded-lg border border-line bg-surface">
        <Empty icon={<ChartArea aria-hidden />} title="Nothing ran or waited in the last hour" />
      </div>
    );
  // A chart each: where hundreds wait, the few that run would lie on the ground of one scale.
  return (
    <div data-updated={updatedAt} className="grid gap-4 xl:grid-cols-2">
      <Panel title="Runs in flight, minute by minute">
        <TimeChart
          label="Runs in flight by target"
          series={busiest.map(({ target, inFlight }) => ({ label: target, area: true, points: times(inFlight) }))}
          format={count}
          spanSec={SPAN_SEC}
        />
        <p className="text-xs text-muted">From their start to their end; the most there were in each minute.</p>
        {!complete && (
          <p className="text-xs text-warn">There were more than 20,000 runs; the older ones are missing.</p>
        )}
        {some}
      </Panel>
      {fullest.length > 0 && (
        <Panel title="Runs waiting, minute by minute">
          <TimeChart
            label="Waiting runs by target"
            series={fullest.map(({ target, waiting }) => ({ label: target, area: true, points: times(waiting) }))}
            format={count}
            spanSec={SPAN_SEC}
          />
          <p className="text-xs text-muted">
            From their submission to their start, so with the cases that a scorecard still holds back.
          </p>
          {some}
        </Panel>
      )}
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
      <Panel title="The figures" flush className="self-start">
        <div className="overflow-x-auto">
          <table className="w-full text-left text-xs">
            <thead className="text-muted">
              <tr className="h-8">
                <th rowSpan={2} scope="col" className="px-2 sm:px-3 font-medium">
                  Target
                </th>
                <th colSpan={2} scope="colgroup" className="px-2 text-center font-medium sm:px-3">
                  In flight
                </th>
                <th colSpan={2} scope="colgroup" className="px-2 text-center font-medium sm:px-3">
                  Waiting
                </th>
              </tr>
              <tr className="h-6">
                {["in flight", "waiting"].flatMap((what) =>
                  ["last minute", "most"].map((when) => (
                    <th
                      key={`${what} ${when}`}
                      scope="col"
                      className="px-2 sm:px-3 text-right font-normal whitespace-nowrap"
                    >
                      {when}
                    </th>
                  )),
                )}
              </tr>
            </thead>
            <tbody>
              {targets.map((each) => (
                <tr key={each.target} className="h-8 border-t border-line tabular-nums">
                  <td className="px-2 sm:px-3">
                    <Name>{each.target}</Name>
                  </td>
                  <td className="px-2 sm:px-3 text-right">{count(each.inFlight.at(-1) ?? 0)}</td>
                  <td className="px-2 sm:px-3 text-right">{count(peak(each.inFlight))}</td>
                  <td className="px-2 sm:px-3 text-right">{count(each.waiting.at(-1) ?? 0)}</td>
                  <td className="px-2 sm:px-3 text-right">{count(peak(each.waiting))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Panel>
    </div>
  );
}
