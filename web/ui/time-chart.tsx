import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import { useDark } from "../shell/theme.ts";
import { cx } from "./class.ts";
import { exactTime } from "./time.tsx";

export interface Series {
  label: string;
  /** Seconds since the epoch, and the value; in order of time. */
  points: readonly (readonly [number, number | null])[];
  /** Drawn as a step with an area below: for what is counted rather than measured. */
  area?: boolean;
}

const COLORS = ["--accent", "--ok-solid", "--warn-solid", "--info-solid", "--bad-solid", "--idle-solid"];
const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4], [1, 2]];
const HEIGHT = 220;
/** More points than this are a line. */
const MAX_POINTS = 40;
/** Steps of an axis of counts: none between two whole numbers. */
const WHOLE = [1, 2, 5]
  .flatMap((step) => [0, 1, 2, 3, 4, 5, 6].map((power) => step * 10 ** power))
  .sort((a, b) => a - b);

/** Moments as the rest of the dashboard writes them: by uPlot's steps, what a label says and what is added where a day or year begins. */
const DAY = "{D} {MMM}";
const YEAR = `\n${DAY} {YYYY}`;
const MOMENTS: uPlot.Axis.TimeValuesConfig = [
  [365 * 86_400, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * 86_400, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86_400, DAY, "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", YEAR, null, `\n${DAY}`, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", YEAR, null, `\n${DAY}`, null, null, null, 1],
];
/** Room for the widest of them. */
const MOMENT_PX = 72;

const token = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** All series over one set of times, as uPlot wants them; at least `spanSec` of it. */
function aligned(series: readonly Series[], spanSec: number): uPlot.AlignedData {
  const times = [...new Set(series.flatMap(({ points }) => points.map(([at]) => at)))].sort((a, b) => a - b);
  const first = times[0] ?? 0;
  const last = times.at(-1) ?? 0;
  if (last - first < spanSec) times.unshift(last - spanSec);
  const rows = series.map(({ points }) => {
    const known = new Map(points);
    return times.map((at) => known.get(at) ?? null);
  });
  return [times, ...rows];
}

/** Lines over time. Each has its own colour and its own dash, so that colour never speaks alone; the caller adds the figures as text. */
export function TimeChart({
  label,
  series,
  format,
  max,
  least = 1,
  spanSec = 60,
  className,
}: {
  label: string;
  series: readonly Series[];
  format: (value: number) => string;
  /** Top of the scale; absent: the largest value. */
  max?: number;
  /** Top of the scale at least; values are whole numbers then. */
  least?: number;
  /** The time that is shown at least, so that one point does not stand in a span of years. */
  spanSec?: number;
  className?: string;
}) {
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const dark = useDark();
  const names = series.map(({ label: name }) => name).join("\n");
  const data = aligned(series, spanSec);
  const latest = useRef({ data, series, format, max, least });
  latest.current = { data, series, format, max, least };

  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme or other series need another chart; new data does not
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const now = latest.current;
    const axis = {
      stroke: token("--muted"),
      grid: { stroke: token("--line"), width: 1 },
      ticks: { stroke: token("--line"), width: 1 },
    };
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const made = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        cursor: { drag: { x: false, y: false } },
        scales: {
          x: { time: true },
          y: {
            range: (_, low, high) => [
              Math.min(0, low),
              latest.current.max ?? Math.max(latest.current.least, high * 1.1),
            ],
          },
        },
        axes: [
          { ...axis, font, space: MOMENT_PX, values: MOMENTS },
          {
            ...axis,
            font,
            size: 72,
            ...(now.max === undefined ? { incrs: WHOLE } : {}),
            values: (_, ticks) => ticks.map((tick) => latest.current.format(tick)),
          },
        ],
        series: [
          {
            label: "Time",
            value: (_, at) => (at === null ? "point at the chart" : exactTime(new Date(at * 1_000).toISOString())),
          },
          ...now.series.map(({ label: name, area }, at): uPlot.Series => {
            const color = token(COLORS[at % COLORS.length] ?? "--accent");
            return {
              label: name,
              stroke: color,
              width: 2,
              dash: DASHES[at % DASHES.length] ?? [],
              spanGaps: true,
              points: { show: !area && now.data[0].length < MAX_POINTS, size: 6, fill: color },
              value: (_, value) => (value === null ? "–" : latest.current.format(value)),
              ...(area ? { fill: `${color}22` } : {}),
              ...(area && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
            };
          }),
        ],
      },
      now.data,
      element,
    );
    chart.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [dark, names]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the data as text says whether it has changed
  useEffect(() => {
    chart.current?.setData(latest.current.data);
  }, [JSON.stringify(data)]);

  return (
    <div
      ref={host}
      role="img"
      aria-label={label}
      className={cx(
        "min-h-64 w-full [&_.uplot]:!font-sans [&_.u-legend]:!text-xs [&_.u-legend]:text-muted [&_.u-legend_th]:!font-normal [&_.u-label]:max-w-52 [&_.u-label]:truncate",
        className,
      )}
    />
  );
}
