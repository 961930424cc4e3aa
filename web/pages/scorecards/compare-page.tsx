import { Link, useNavigate } from "@tanstack/react-router";
import { ArrowLeftRight, GitCompare } from "lucide-react";
import { useMemo } from "react";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { type Output, useRead } from "../../api/queries.ts";
import { compareRoute } from "../../routes/evaluate.tsx";
import { Button } from "../../ui/button.tsx";
import { cx } from "../../ui/class.ts";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Field, FilterSelect, Select } from "../../ui/field.tsx";
import { Figure, Page } from "../../ui/layout.tsx";
import { SearchBox } from "../../ui/search-box.tsx";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";
import { Status } from "../../ui/status.tsx";
import { exactTime } from "../../ui/time.tsx";
import { percent, plural, score } from "../../ui/words.ts";
import { titleOf } from "./cells.ts";

type Row = Output<"compare_scorecards">["cases"][number];
type Side = Row["a"];

const EPSILON = 1e-9;

function SideCell({ side }: { side: Side }) {
  if (side === null) return <span className="text-faint">not in it</span>;
  const status = side.pass === null ? side.status : side.pass ? "passed" : "not-passed";
  return (
    <span className="inline-flex items-center gap-2">
      <span className="w-9 text-right tabular-nums">{score(side.score)}</span>
      <Status status={status} bare className="max-sm:!hidden" />
    </span>
  );
}

function Difference({ value }: { value: number | null }) {
  if (value === null) return <span className="text-faint">–</span>;
  if (Math.abs(value) <= EPSILON) return <span className="text-faint">0.00</span>;
  return (
    <span className={cx("font-medium tabular-nums", value > 0 ? "text-ok" : "text-bad")}>
      {value > 0 ? "+" : "−"}
      {Math.abs(value).toFixed(2)}
    </span>
  );
}

const COLUMNS: readonly Column<Row>[] = [
  {
    id: "case",
    header: "Case",
    cell: ({ caseId }) => (
      <span className="block truncate font-medium" title={caseId}>
        {caseId}
      </span>
    ),
    sortBy: ({ caseId }) => caseId,
  },
  { id: "a", header: "A", width: "w-16 sm:w-44", cell: ({ a }) => <SideCell side={a} />, sortBy: ({ a }) => a?.score },
  { id: "b", header: "B", width: "w-16 sm:w-44", cell: ({ b }) => <SideCell side={b} />, sortBy: ({ b }) => b?.score },
  {
    id: "difference",
    header: "B − A",
    width: "w-20 sm:w-24",
    numeric: true,
    cell: ({ difference }) => <Difference value={difference} />,
    sortBy: ({ difference }) => difference,
  },
];

const SHOW = {
  improved: (row: Row) => row.difference !== null && row.difference > EPSILON,
  regressed: (row: Row) => row.difference !== null && row.difference < -EPSILON,
  changed: (row: Row) => row.difference === null || Math.abs(row.difference) > EPSILON,
} as const;

const nameOf = (card: Scorecard): string =>
  `${titleOf(card)} ${card.harness.version} · ${exactTime(card.createdAt)}${card.summary?.passRate == null ? "" : ` · ${percent(card.summary.passRate)}`}`;

function Choice({
  label,
  value,
  cards,
  onChange,
}: {
  label: string;
  value: string | undefined;
  cards: readonly Scorecard[];
  onChange: (id: string) => void;
}) {
  return (
    <Field label={label} className="min-w-0 flex-1 basis-64">
      {(control) => (
        <Select {...control} value={value ?? ""} onChange={(event) => onChange(event.target.value)}>
          <option value="" disabled>
            Choose a scorecard
          </option>
          {value !== undefined && !cards.some(({ id }) => id === value) && <option value={value}>{value}</option>}
          {cards.map((card) => (
            <option key={card.id} value={card.id}>
              {nameOf(card)}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}

/** Two scorecards, case by case: what got better, what got worse. */
export function ComparePage() {
  const search = compareRoute.useSearch();
  const navigate = useNavigate({ from: "/scorecards/compare" });
  const { a, b } = search;
  const set = (change: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const list = useRead("list_scorecards", { query: { limit: 200 } });
  const query = useRead(
    "compare_scorecards",
    { query: { a: a ?? "", b: b ?? "" } },
    { enabled: a !== undefined && b !== undefined, keep: true },
  );
  const cards = list.data?.items ?? [];
  const known = cards.find(({ id }) => id === (b ?? a));
  // What shares the dataset comes first: only there do cases meet.
  const ordered = known
    ? [...cards].sort((x, y) => Number(y.dataset.id === known.dataset.id) - Number(x.dataset.id === known.dataset.id))
    : cards;
  const q = (search.q ?? "").toLowerCase();
  const { data } = query;
  const rows = useMemo(
    () =>
      data?.cases.filter(
        (row) => (search.show === undefined || SHOW[search.show](row)) && row.caseId.toLowerCase().includes(q),
      ),
    [data, search.show, q],
  );
  const clear = () => set({ show: undefined, q: undefined });
  return (
    <Page title="Compare" crumbs={[{ label: "Scorecards", to: "/scorecards" }]}>
      <div className="flex flex-wrap items-end gap-3">
        <Choice label="A, before" value={a} cards={ordered} onChange={(id) => set({ a: id })} />
        <Button
          aria-label="Swap A and B"
          title="Swap A and B"
          icon={<ArrowLeftRight aria-hidden className="size-3.5" />}
          onClick={() => set({ a: b, b: a })}
          className="h-8"
        />
        <Choice label="B, after" value={b} cards={ordered} onChange={(id) => set({ b: id })} />
      </div>
      {a === undefined || b === undefined ? (
        <Empty icon={<GitCompare aria-hidden />} title="Choose two scorecards">
          Cases are matched by their id; each side's score is the mean over its trials.
        </Empty>
      ) : query.error ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} className="mt-4" />
      ) : data === undefined ? (
        <Skeleton className="mt-4 h-96 w-full" />
      ) : (
        <>
          <div className="my-4 flex flex-wrap gap-x-8 gap-y-3">
            <Figure
              name="Pass rate"
              value={
                data.passRateDifference === null ? (
                  "–"
                ) : (
                  <span
                    className={data.passRateDifference < 0 ? "text-bad" : data.passRateDifference > 0 ? "text-ok" : ""}
                  >
                    {data.passRateDifference > 0 ? "+" : data.passRateDifference < 0 ? "−" : ""}
                    {(Math.abs(data.passRateDifference) * 100).toFixed(1)} points
                  </span>
                )
              }
              note={`${data.a.summary?.passRate == null ? "–" : percent(data.a.summary.passRate)} to ${data.b.summary?.passRate == null ? "–" : percent(data.b.summary.passRate)}`}
            />
            <Figure name="Improved" value={data.improved} note="cases with a higher score in B" />
            <Figure name="Regressed" value={data.regressed} note="cases with a lower score in B" />
            <Figure name="Unchanged" value={data.unchanged} />
            <div className="text-xs text-muted">
              <div>
                A{" "}
                <Link to="/scorecards/$id" params={{ id: data.a.id }} className="underline">
                  {titleOf(data.a)} {data.a.harness.version}
                </Link>
              </div>
              <div className="mt-1">
                B{" "}
                <Link to="/scorecards/$id" params={{ id: data.b.id }} className="underline">
                  {titleOf(data.b)} {data.b.harness.version}
                </Link>
              </div>
            </div>
          </div>
          <div className="mb-3 flex flex-wrap items-center gap-2">
            <SearchBox
              label="Search cases"
              value={search.q ?? ""}
              onChange={(next) => set({ q: next || undefined })}
              className="w-56"
            />
            <FilterSelect
              label="Show"
              value={search.show}
              options={[
                { value: "regressed", label: "regressed" },
                { value: "improved", label: "improved" },
                { value: "changed", label: "changed" },
              ]}
              onChange={(show) => set({ show })}
            />
            <span role="status" className="ml-auto text-xs text-muted tabular-nums">
              {plural(rows?.length ?? 0, "case")}
            </span>
          </div>
          <div className="rounded-lg border border-line bg-surface">
            <DataTable
              label="Cases of both scorecards"
              columns={COLUMNS}
              rows={rows}
              rowId={({ caseId }) => caseId}
              sort={search.sort}
              onSort={(sort) => set({ sort })}
              virtual
              className="h-[max(20rem,calc(100dvh-22rem))]"
              empty={
                <Empty title="No case matches the filter" action={<Button onClick={clear}>Clear filter</Button>} />
              }
            />
          </div>
        </>
      )}
    </Page>
  );
}
