import { Link, useNavigate } from "@tanstack/react-router";
import { Play } from "lucide-react";
import type { Run } from "../../../contracts/run.ts";
import { isTerminal, RUN_STATUSES } from "../../../contracts/run-states.ts";
import { usePages } from "../../api/queries.ts";
import { runsRoute } from "../../routes/evaluate.tsx";
import { Button, buttonClass } from "../../ui/button.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { FilterSelect } from "../../ui/field.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { Empty } from "../../ui/states.tsx";
import { Status, statusWord } from "../../ui/status.tsx";
import { Elapsed, Time } from "../../ui/time.tsx";
import { WaitingWord } from "../../ui/waiting.tsx";
import { score } from "../../ui/words.ts";
import { shownStatus } from "./run-words.ts";

const COLUMNS: readonly Column<Run>[] = [
  {
    id: "case",
    header: "Case",
    cell: (run) => (
      <Link to="/runs/$id" params={{ id: run.id }} className="font-medium hover:underline">
        <Name className="max-sm:max-w-36 xl:max-w-56">{run.caseId}</Name>
        {run.trial > 1 && <span className="font-normal text-faint"> · trial {run.trial}</span>}
      </Link>
    ),
  },
  {
    id: "status",
    header: "Status",
    cell: (run) => (
      <span className="flex items-center gap-2">
        <Status status={shownStatus(run)} />
        {run.waiting && (
          <span className="max-sm:hidden">
            <WaitingWord waiting={run.waiting} />
          </span>
        )}
        {run.failure && (
          <code className="text-xs text-bad max-sm:hidden" title={run.failure.message}>
            {run.failure.code}
          </code>
        )}
      </span>
    ),
  },
  { id: "score", header: "Score", numeric: true, from: "sm", cell: (run) => score(run.result?.score) },
  {
    id: "harness",
    header: "Harness",
    from: "md",
    cell: (run) => <Name className="xl:max-w-36">{`${run.harness.id}@${run.harness.version}`}</Name>,
  },
  { id: "target", header: "Target", from: "sm", cell: (run) => <Name className="xl:max-w-36">{run.target}</Name> },
  {
    id: "took",
    header: "Took",
    numeric: true,
    from: "md",
    cell: (run) => (run.startedAt === null ? "–" : <Elapsed from={run.startedAt} to={run.finishedAt} />),
  },
  {
    id: "attempts",
    header: "Attempts",
    numeric: true,
    from: "xl",
    cell: (run) => run.attempts.length,
  },
  { id: "by", header: "By", from: "xl", cell: (run) => <span className="text-muted">{run.createdBy}</span> },
  {
    id: "created",
    header: "Submitted",
    numeric: true,
    cell: (run) => <Time at={run.createdAt} className="text-muted" />,
  },
];

/** Every run of the workspace, newest first; open ones are looked at again every two seconds. */
export function RunsPage() {
  const search = runsRoute.useSearch();
  const navigate = useNavigate({ from: "/runs" });
  const { status, target, scorecard } = search;
  const query = usePages(
    "list_runs",
    { query: { limit: 50, status, target, scorecardId: scorecard } },
    { every: (items) => (items.some((run) => !isTerminal(run.status)) ? 2_000 : 10_000) },
  );
  const set = (change: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const filtered = status !== undefined || target !== undefined || scorecard !== undefined;
  return (
    <Page title="Runs">
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <FilterSelect
          label="Status"
          value={status}
          options={RUN_STATUSES.map((value) => ({ value, label: statusWord(value).word }))}
          onChange={(value) => set({ status: value })}
        />
        <input
          type="search"
          aria-label="Target"
          placeholder="Target, for example self"
          key={target ?? ""}
          defaultValue={target ?? ""}
          onKeyDown={(event) => {
            if (event.key === "Enter") set({ target: event.currentTarget.value.trim() || undefined });
          }}
          onBlur={(event) => {
            const value = event.currentTarget.value.trim() || undefined;
            if (value !== target) set({ target: value });
          }}
          className="h-7 w-52 rounded-md border border-line-strong bg-surface px-2"
        />
        {scorecard !== undefined && (
          <span className="text-muted">
            of{" "}
            <Link to={"/scorecards/$id" as never} params={{ id: scorecard } as never} className="underline">
              {scorecard}
            </Link>
          </span>
        )}
        {filtered && (
          <Button
            small
            kind="quiet"
            onClick={() => set({ status: undefined, target: undefined, scorecard: undefined })}
          >
            Clear filter
          </Button>
        )}
      </div>
      <ListTable
        label="Runs"
        columns={COLUMNS}
        rows={query.items}
        rowId={(run) => run.id}
        query={query}
        onOpen={(run) => void navigate({ to: "/runs/$id", params: { id: run.id } })}
        empty={
          filtered ? (
            <Empty
              title="No run matches the filter"
              action={
                <Button onClick={() => set({ status: undefined, target: undefined, scorecard: undefined })}>
                  Clear filter
                </Button>
              }
            />
          ) : (
            <Empty
              icon={<Play aria-hidden />}
              title="No runs yet"
              action={
                <Link to={"/scorecards" as never} className={buttonClass("primary")}>
                  Start a scorecard
                </Link>
              }
            >
              A run is one case, executed once by a harness on a target. A scorecard makes one for every case of a
              dataset.
            </Empty>
          )
        }
      />
    </Page>
  );
}
