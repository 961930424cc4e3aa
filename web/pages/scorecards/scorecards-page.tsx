import { Link, useNavigate } from "@tanstack/react-router";
import { Gauge, GitCompare, Plus } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { isTerminal } from "../../../contracts/run-states.ts";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { patiently } from "../../api/chunks.ts";
import { usePages, useRead } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { scorecardsRoute } from "../../routes/evaluate.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { Button, buttonClass } from "../../ui/button.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { FilterSelect } from "../../ui/field.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { Status } from "../../ui/status.tsx";
import { TabPanel, Tabs } from "../../ui/tabs.tsx";
import { Elapsed, Time } from "../../ui/time.tsx";
import { percent, score } from "../../ui/words.ts";
import { titleOf } from "./cells.ts";
import { MiniProgress, RateBar, shownStatus, unmeasured } from "./progress.tsx";

const Trend = lazy(() => patiently(() => import("./trend.tsx")));
const STATUSES = ["queued", "running", "succeeded", "failed", "cancelled"] as const;
const STATUS_WORDS = {
  queued: "queued",
  running: "running",
  succeeded: "measured",
  failed: "failed",
  cancelled: "cancelled",
};

function columns(chosen: readonly string[], choose: (id: string) => void): readonly Column<Scorecard>[] {
  return [
    {
      id: "choose",
      header: "Choose",
      quiet: true,
      from: "md",
      className: "w-8 !pr-0",
      cell: (card) => (
        <input
          type="checkbox"
          aria-label={`Choose ${titleOf(card)} ${card.id} for a comparison`}
          checked={chosen.includes(card.id)}
          onChange={() => choose(card.id)}
          className="block"
        />
      ),
    },
    {
      id: "what",
      header: "Dataset × harness",
      cell: (card) => (
        <Link to="/scorecards/$id" params={{ id: card.id }} className="font-medium hover:underline">
          <Name className="xl:max-w-48">{titleOf(card)}</Name>
          <span className="font-normal text-faint max-lg:hidden">
            {" "}
            {card.dataset.version} × {card.harness.version}
          </span>
        </Link>
      ),
    },
    { id: "status", header: "Status", cell: (card) => <Status status={shownStatus(card)} /> },
    { id: "progress", header: "Runs", from: "md", cell: (card) => <MiniProgress progress={card.progress} /> },
    {
      id: "rate",
      header: "Pass rate",
      cell: (card) => {
        const rate = card.summary?.passRate;
        return rate == null ? (
          <span className="text-faint">–</span>
        ) : (
          <span className="flex items-center gap-2">
            <span className="w-14 text-right tabular-nums">{percent(rate)}</span>
            <RateBar rate={rate} interval={card.summary?.passRateInterval ?? null} className="!w-16 max-sm:!hidden" />
          </span>
        );
      },
    },
    { id: "score", header: "Score", numeric: true, from: "lg", cell: (card) => score(card.summary?.meanScore) },
    {
      id: "unmeasured",
      header: "Not measured",
      numeric: true,
      from: "lg",
      cell: (card) => {
        const count = unmeasured(card);
        return count === 0 ? <span className="text-faint">0</span> : <span className="text-bad">{count}</span>;
      },
    },
    {
      id: "targets",
      header: "Targets",
      from: "xl",
      cell: (card) => <Name className="text-muted xl:max-w-24">{card.targets.join(", ")}</Name>,
    },
    {
      id: "took",
      header: "Took",
      numeric: true,
      from: "lg",
      cell: (card) => <Elapsed from={card.createdAt} to={card.finishedAt} />,
    },
    {
      id: "created",
      header: "Started",
      numeric: true,
      from: "sm",
      cell: (card) => <Time at={card.createdAt} className="text-muted" />,
    },
  ];
}

/** Every scorecard, newest first, and how the scores of a dataset developed. */
export function ScorecardsPage() {
  const search = scorecardsRoute.useSearch();
  const navigate = useNavigate({ from: "/scorecards" });
  const may = useMay();
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const view = search.view ?? "list";
  const query = usePages(
    "list_scorecards",
    { query: { limit: 50, status: search.status } },
    { every: (items) => (items.some((card) => !isTerminal(card.status)) ? 2_000 : 15_000) },
  );
  const datasets = [...new Set((query.items ?? []).map((card) => card.dataset.id))].sort();
  const rows = query.items?.filter((card) => search.dataset === undefined || card.dataset.id === search.dataset);
  const set = (change: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const choose = (id: string) =>
    setChosen((old) => (old.includes(id) ? old.filter((other) => other !== id) : [...old, id].slice(-2)));
  // biome-ignore lint/correctness/useExhaustiveDependencies: choose is made anew each time and does the same
  const shownColumns = useMemo(() => columns(chosen, choose), [chosen]);
  const start = () => void navigate({ to: "/scorecards/new" });
  const [a, b] = chosen;
  const compare = () => void navigate({ to: "/scorecards/compare", search: { a, b } });
  usePageActions([
    ...(may("run_scorecard") ? [{ id: "new", label: "New scorecard", key: "c", run: start }] : []),
    ...(a && b ? [{ id: "compare", label: "Compare the two chosen", run: compare }] : []),
  ]);
  const filtered = search.status !== undefined || search.dataset !== undefined;
  return (
    <Page
      title="Scorecards"
      actions={
        <>
          <Button
            icon={<GitCompare aria-hidden className="size-3.5" />}
            disabledReason={a && b ? undefined : "choose two scorecards in the list"}
            onClick={compare}
            className="max-md:hidden"
          >
            Compare
          </Button>
          {may("run_scorecard") && (
            <Link to="/scorecards/new" className={buttonClass("primary")}>
              <Plus aria-hidden className="size-3.5" />
              New scorecard
            </Link>
          )}
        </>
      }
      tabs={
        <Tabs
          label="Scorecards"
          value={view}
          onChange={(next) => set({ view: next === "list" ? undefined : next })}
          tabs={[
            { id: "list", label: "List" },
            { id: "trend", label: "Over time" },
          ]}
        />
      }
    >
      <TabPanel id={view}>
        <div className="mb-3 flex flex-wrap items-center gap-2">
          {view === "list" && (
            <FilterSelect
              label="Status"
              value={search.status}
              options={STATUSES.map((value) => ({ value, label: STATUS_WORDS[value] }))}
              onChange={(status) => set({ status })}
            />
          )}
          <FilterSelect
            label="Dataset"
            value={search.dataset}
            options={datasets.map((value) => ({ value, label: value }))}
            onChange={(dataset) => set({ dataset })}
          />
          {filtered && (
            <Button small kind="quiet" onClick={() => set({ status: undefined, dataset: undefined })}>
              Clear filter
            </Button>
          )}
        </div>
        {view === "trend" ? (
          <Suspense fallback={<Skeleton className="h-80 w-full" />}>
            <TrendOf dataset={search.dataset} />
          </Suspense>
        ) : (
          <ListTable
            label="Scorecards"
            columns={shownColumns}
            rows={rows}
            rowId={(card) => card.id}
            query={query}
            onOpen={(card) => void navigate({ to: "/scorecards/$id", params: { id: card.id } })}
            empty={
              filtered ? (
                <Empty
                  title="No scorecard matches the filter"
                  action={<Button onClick={() => set({ status: undefined, dataset: undefined })}>Clear filter</Button>}
                />
              ) : (
                <Empty
                  icon={<Gauge aria-hidden />}
                  title="No scorecards yet"
                  action={
                    may("run_scorecard") && (
                      <Link to="/scorecards/new" className={buttonClass("primary")}>
                        New scorecard
                      </Link>
                    )
                  }
                >
                  A scorecard runs every case of a dataset with a harness on targets of your choice, and tells the pass
                  rate with what was not measured apart.
                </Empty>
              )
            }
          />
        )}
      </TabPanel>
    </Page>
  );
}

/** The last 200 scorecards: what a chart can hold. */
function TrendOf({ dataset }: { dataset: string | undefined }) {
  const query = useRead("list_scorecards", { query: { limit: 200 } });
  if (query.data === undefined) return <Skeleton className="h-80 w-full" />;
  const cards = query.data.items.filter((card) => dataset === undefined || card.dataset.id === dataset);
  return <Trend cards={cards} />;
}
