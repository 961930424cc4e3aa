import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useMemo } from "react";
import { FAILURE_CLASSES } from "../../../contracts/run-states.ts";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { SHOWN_STATUSES, type ShownStatus } from "../../routes/evaluate.tsx";
import { Button } from "../../ui/button.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { FilterSelect } from "../../ui/field.tsx";
import { RunLink, RunLinks } from "../../ui/run-link.tsx";
import { SearchBox } from "../../ui/search-box.tsx";
import { Empty } from "../../ui/states.tsx";
import { Status, statusWord } from "../../ui/status.tsx";
import { duration, plural, score } from "../../ui/words.ts";
import { CLASS_WORDS } from "../runs/run-words.ts";
import { type Cell, selectCells } from "./cells.ts";

export interface CaseSearch {
  status?: ShownStatus | undefined;
  class?: (typeof FAILURE_CLASSES)[number] | undefined;
  q?: string | undefined;
  sort?: string | undefined;
}

const ORDER: Record<ShownStatus, number> = {
  failed: 0,
  "not-passed": 1,
  running: 2,
  queued: 3,
  passed: 4,
  cancelled: 5,
};

function columnsOf(trials: number): readonly Column<Cell>[] {
  const trial: Column<Cell> = {
    id: "trial",
    header: "Trial",
    width: "w-16",
    from: "sm",
    numeric: true,
    cell: (cell) => cell.trial,
    sortBy: (cell) => cell.trial,
  };
  return [
    {
      id: "case",
      header: "Case",
      width: "md:w-72",
      cell: (cell) => (
        <RunLink id={cell.runId} title={cell.caseId} className="block truncate font-medium hover:underline">
          {cell.caseId}
        </RunLink>
      ),
      sortBy: (cell) => cell.caseId,
    },
    ...(trials > 1 ? [trial] : []),
    {
      id: "status",
      header: "Status",
      width: "w-32",
      cell: (cell) => <Status status={cell.shown} />,
      sortBy: (cell) => ORDER[cell.shown],
    },
    {
      id: "score",
      header: "Score",
      width: "w-20",
      numeric: true,
      cell: (cell) => score(cell.score),
      sortBy: (cell) => cell.score,
    },
    {
      id: "took",
      header: "Took",
      width: "w-24",
      numeric: true,
      from: "sm",
      cell: (cell) => (cell.durationMs === null ? "–" : duration(cell.durationMs)),
      sortBy: (cell) => cell.durationMs,
    },
    {
      id: "attempts",
      header: "Attempts",
      width: "w-24",
      numeric: true,
      from: "md",
      cell: (cell) => cell.attempts,
      sortBy: (cell) => cell.attempts,
    },
    {
      id: "cause",
      header: "Cause",
      from: "md",
      cell: (cell) =>
        cell.failure && (
          <span className="block truncate" title={cell.failure.message}>
            <code className="text-xs text-bad">{cell.failure.code}</code>{" "}
            <span className="text-muted">{cell.failure.message}</span>
          </span>
        ),
      sortBy: (cell) => cell.failure?.code,
    },
  ];
}

/** Every run of the scorecard: filtered and sorted by the address, rendered as far as it is seen. */
export function CaseTable({
  card,
  cells,
  search,
  onSearch,
}: {
  card: Scorecard;
  cells: readonly Cell[] | undefined;
  search: CaseSearch;
  onSearch: (change: CaseSearch) => void;
}) {
  const navigate = useNavigate();
  const q = useDeferredValue(search.q ?? "");
  const { status, class: failureClass } = search;
  const columns = useMemo(() => columnsOf(card.trials), [card.trials]);
  const rows = useMemo(
    () => cells && selectCells(cells, { status, q, failureClass }),
    [cells, status, q, failureClass],
  );
  const filtered = status !== undefined || failureClass !== undefined || q !== "";
  const clear = () => onSearch({ status: undefined, class: undefined, q: undefined });
  return (
    <RunLinks>
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <SearchBox
          label="Search cases and causes"
          value={search.q ?? ""}
          onChange={(next) => onSearch({ q: next || undefined })}
          className="w-56"
        />
        <FilterSelect
          label="Status"
          value={status}
          options={SHOWN_STATUSES.map((value) => ({ value, label: statusWord(value).word.toLowerCase() }))}
          onChange={(next) => onSearch({ status: next })}
        />
        <FilterSelect
          label="Class"
          value={failureClass}
          options={FAILURE_CLASSES.map((value) => ({ value, label: CLASS_WORDS[value]?.title.toLowerCase() ?? value }))}
          onChange={(next) => onSearch({ class: next })}
        />
        {filtered && (
          <Button small kind="quiet" onClick={clear}>
            Clear filter
          </Button>
        )}
        <span role="status" className="ml-auto text-xs text-muted tabular-nums">
          {rows === undefined
            ? "reading"
            : filtered
              ? `${rows.length.toLocaleString("en")} of ${plural(cells?.length ?? 0, "run")}`
              : plural(rows.length, "run")}
        </span>
      </div>
      <div className="rounded-lg border border-line bg-surface">
        <DataTable
          label="Cases"
          columns={columns}
          rows={rows}
          rowId={(cell) => cell.runId}
          sort={search.sort}
          onSort={(next) => onSearch({ sort: next })}
          onOpen={(cell) => void navigate({ to: "/runs/$id", params: { id: cell.runId } })}
          virtual
          className="h-[max(20rem,calc(100dvh-24rem))]"
          empty={<Empty title="No run matches the filter" action={<Button onClick={clear}>Clear filter</Button>} />}
        />
      </div>
    </RunLinks>
  );
}
