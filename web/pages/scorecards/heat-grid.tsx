import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type MouseEvent, useEffect, useRef, useState } from "react";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { useDark } from "../../shell/theme.ts";
import { Skeleton } from "../../ui/states.tsx";
import { Status, statusWord } from "../../ui/status.tsx";
import { duration, score } from "../../ui/words.ts";
import type { Cell } from "./cells.ts";

const GAP = 2;

interface Layout {
  columns: number;
  size: number;
  height: number;
}

/** Squares as large as they can be that still fill the width. */
function layoutOf(width: number, count: number): Layout {
  const size = count > 3_000 ? 10 : count > 800 ? 14 : 20;
  const columns = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
  return { columns, size, height: Math.ceil(count / columns) * (size + GAP) };
}

const token = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Colour by state and score; failures carry a cross and low grades a corner, so that colour never speaks alone. */
function draw(canvas: HTMLCanvasElement, cells: readonly Cell[], { columns, size, height }: Layout, at: number): void {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  if (!pen) return;
  pen.scale(ratio, ratio);
  const colors = {
    passed: token("--ok-solid"),
    "not-passed": token("--warn-solid"),
    failed: token("--bad-solid"),
    running: token("--info-solid"),
    queued: token("--idle-soft"),
    cancelled: token("--line-strong"),
  };
  const ground = token("--surface");
  const ink = token("--ink");
  for (const [index, cell] of cells.entries()) {
    const x = (index % columns) * (size + GAP);
    const y = Math.floor(index / columns) * (size + GAP);
    pen.fillStyle = colors[cell.shown];
    pen.globalAlpha = 1;
    pen.fillRect(x, y, size, size);
    pen.strokeStyle = ground;
    pen.lineWidth = 1.5;
    if (cell.shown === "failed") {
      pen.beginPath();
      pen.moveTo(x + 3, y + 3);
      pen.lineTo(x + size - 3, y + size - 3);
      pen.moveTo(x + size - 3, y + 3);
      pen.lineTo(x + 3, y + size - 3);
      pen.stroke();
    }
    if (cell.shown === "not-passed") {
      // What is missing of the full score, from the top.
      pen.fillStyle = ground;
      pen.globalAlpha = 0.65;
      pen.fillRect(x + 1, y + 1, size - 2, (size - 2) * (1 - (cell.score ?? 0)));
    }
    if (index === at) {
      pen.globalAlpha = 1;
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, size - 2, size - 2);
    }
  }
}

const LEGEND = ["passed", "not-passed", "failed", "running", "queued", "cancelled"] as const;

/** All runs at a glance, one square each in the order of the dataset. The table of cases says the same in words. */
export function HeatGrid({ card, cells }: { card: Scorecard; cells: readonly Cell[] | undefined }) {
  const navigate = useNavigate();
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(-1);
  const dark = useDark();
  const layout = layoutOf(width, cells?.length ?? 0);

  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours
  useEffect(() => {
    if (canvas.current && cells && width > 0) draw(canvas.current, cells, layout, at);
  }, [cells, width, at, dark]);

  const indexAt = (event: MouseEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / (layout.size + GAP));
    const row = Math.floor((event.clientY - box.top) / (layout.size + GAP));
    const index = row * layout.columns + column;
    return column < layout.columns && cells && index < cells.length ? index : -1;
  };
  const open = (index: number) => {
    const cell = cells?.[index];
    if (cell) void navigate({ to: "/runs/$id", params: { id: cell.runId } });
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: layout.columns, ArrowUp: -layout.columns }[event.key];
    if (event.key === "Enter") return open(at);
    if (step === undefined || !cells) return;
    event.preventDefault();
    setAt(Math.min(cells.length - 1, Math.max(0, (at < 0 ? -Math.sign(step) : at) + step)));
  };
  const cell = cells?.[at];
  return (
    <section aria-label="Heat grid" className="rounded-lg border border-line bg-surface p-3">
      <div className="mb-3 flex min-h-6 flex-wrap items-center gap-x-4 gap-y-1">
        <ul aria-label="Legend" className="flex flex-wrap gap-x-3 gap-y-1">
          {LEGEND.map((status) => (
            <li key={status}>
              <Status status={status} bare />
            </li>
          ))}
        </ul>
        <span role="status" aria-live="polite" className="ml-auto text-xs text-muted">
          {cell
            ? `${cell.caseId}${card.trials > 1 ? `, trial ${cell.trial}` : ""}: ${statusWord(cell.shown).word.toLowerCase()}${cell.score === null ? "" : `, score ${score(cell.score)}`}${cell.durationMs === null ? "" : `, ${duration(cell.durationMs)}`}${cell.failure ? `, ${cell.failure.code}` : ""}`
            : "point at a square, or walk with the arrow keys"}
        </span>
      </div>
      <div ref={host}>
        {cells === undefined ? (
          <Skeleton className="h-64 w-full" />
        ) : (
          <div
            role="group"
            aria-label={`${cells.length} runs as squares; the arrow keys walk, Enter opens`}
            tabIndex={0}
            onKeyDown={onKey}
            onClick={(event) => open(indexAt(event))}
            onMouseMove={(event) => setAt(indexAt(event))}
            onMouseLeave={() => setAt(-1)}
            className="cursor-pointer"
          >
            <canvas ref={canvas} aria-hidden className="block w-full" style={{ height: layout.height }} />
          </div>
        )}
      </div>
    </section>
  );
}
