import type { Scorecard } from "../../../contracts/scorecard.ts";
import type { Item } from "../../api/queries.ts";
import type { ShownStatus } from "../../routes/evaluate.tsx";

export type GridCell = Item<"get_scorecard_grid">;

/** What the stream says of a run that has not been read again since. */
export interface LiveCell {
  status: GridCell["status"];
  score: number | null;
}

export interface Cell extends Omit<GridCell, "status"> {
  status: GridCell["status"];
  shown: ShownStatus;
}

const ENDED = new Set(["succeeded", "failed", "cancelled"]);

/** Stored rows with the stream's word laid over those that have not ended. */
export function cellsOf(rows: readonly GridCell[], live: ReadonlyMap<string, LiveCell>): Cell[] {
  return rows.map((row) => {
    const said = ENDED.has(row.status) ? undefined : live.get(row.runId);
    const status = said?.status ?? row.status;
    const score = row.score ?? said?.score ?? null;
    const pass = row.pass ?? (status === "succeeded" && score !== null ? score >= 1 : null);
    return { ...row, status, score, pass, shown: shownOf(status, pass) };
  });
}

function shownOf(status: GridCell["status"], pass: boolean | null): ShownStatus {
  if (status === "succeeded") return pass ? "passed" : "not-passed";
  if (status === "dispatching") return "running";
  return status;
}

export const countBy = (cells: readonly Cell[]): Record<ShownStatus, number> => {
  const counts = { queued: 0, running: 0, passed: 0, "not-passed": 0, failed: 0, cancelled: 0 };
  for (const { shown } of cells) counts[shown] += 1;
  return counts;
};

/** Cells that a page's address selects. The words of `q` must all be in the case's name or its cause. */
export function selectCells(
  cells: readonly Cell[],
  { status, q, failureClass }: { status?: string | undefined; q: string; failureClass?: string | undefined },
): Cell[] {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return cells.filter((cell) => {
    if (status !== undefined && cell.shown !== status) return false;
    if (failureClass !== undefined && cell.failure?.class !== failureClass) return false;
    if (words.length === 0) return true;
    const text = `${cell.caseId} ${cell.failure?.code ?? ""} ${cell.failure?.message ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

export interface CauseGroup {
  code: string;
  /** One message of the group: the most frequent. */
  message: string;
  /** How many different messages there are. */
  variants: number;
  retryable: boolean;
  cells: Cell[];
}

export interface ClassGroup {
  class: string;
  cells: Cell[];
  causes: CauseGroup[];
}

/** Figures and ids differ from run to run; the cause does not. */
const shape = (message: string): string => message.replaceAll(/\b[0-9a-z]*\d[0-9a-z]*\b/g, "#");

/** Failures by whose fault they were, then by cause; the largest first. */
export function failureGroups(cells: readonly Cell[]): ClassGroup[] {
  const classes = new Map<string, Map<string, Cell[]>>();
  for (const cell of cells) {
    if (!cell.failure || cell.shown !== "failed") continue;
    const causes = classes.get(cell.failure.class) ?? new Map<string, Cell[]>();
    classes.set(cell.failure.class, causes);
    const list = causes.get(cell.failure.code) ?? [];
    causes.set(cell.failure.code, list);
    list.push(cell);
  }
  return [...classes]
    .map(([name, causes]) => ({
      class: name,
      cells: [...causes.values()].flat(),
      causes: [...causes].map(([code, list]) => causeOf(code, list)).sort((a, b) => b.cells.length - a.cells.length),
    }))
    .sort((a, b) => b.cells.length - a.cells.length);
}

function causeOf(code: string, cells: Cell[]): CauseGroup {
  const messages = new Map<string, { message: string; count: number }>();
  for (const { failure } of cells) {
    if (!failure) continue;
    const known = messages.get(shape(failure.message));
    if (known) known.count += 1;
    else messages.set(shape(failure.message), { message: failure.message, count: 1 });
  }
  const most = [...messages.values()].sort((a, b) => b.count - a.count)[0];
  return {
    code,
    message: most?.message ?? "",
    variants: messages.size,
    retryable: cells.some(({ failure }) => failure?.retryable === true),
    cells,
  };
}

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/** Durations in at most `count` bins of a round width; what lies beyond the 99th percentile is in the last one. */
export function histogram(durationsMs: readonly number[], count = 24): Bin[] {
  const sorted = [...durationsMs].sort((a, b) => a - b);
  const last = sorted.at(-1);
  if (last === undefined) return [];
  const top = Math.max(1, sorted[Math.floor((sorted.length - 1) * 0.99)] ?? last);
  const raw = top / count;
  const magnitude = 10 ** Math.floor(Math.log10(raw));
  const width = [1, 2, 5, 10].map((step) => step * magnitude).find((step) => step >= raw) ?? raw;
  const bins = Array.from({ length: Math.max(1, Math.ceil((top + 1e-9) / width)) }, (_, at) => ({
    from: at * width,
    to: (at + 1) * width,
    count: 0,
  }));
  for (const ms of sorted) {
    const bin = bins[Math.min(bins.length - 1, Math.floor(ms / width))];
    if (bin) bin.count += 1;
  }
  return bins;
}

export const titleOf = (card: Pick<Scorecard, "dataset" | "harness">): string =>
  `${card.dataset.id} × ${card.harness.id}`;
