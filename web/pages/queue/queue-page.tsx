import { Link, useNavigate } from "@tanstack/react-router";
import { ArrowUpToLine, ListOrdered, X } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { patiently } from "../../api/chunks.ts";
import { type Output, useAll, useRead, useWrite } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { queueRoute } from "../../routes/evaluate.tsx";
import { Button, IconButton } from "../../ui/button.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { FilterSelect } from "../../ui/field.tsx";
import { Page } from "../../ui/layout.tsx";
import { Meter } from "../../ui/meter.tsx";
import { notify } from "../../ui/notify.ts";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";
import { Chip, Dot } from "../../ui/status.tsx";
import { TabPanel, Tabs } from "../../ui/tabs.tsx";
import { Time } from "../../ui/time.tsx";
import { waitWords } from "../../ui/waiting.tsx";
import { duration, memory, plural } from "../../ui/words.ts";
import { type HealthWords, healthOf, type Lane, machinesOf } from "../runtimes/health.ts";

const LaneChart = lazy(() => patiently(() => import("./lane-chart.tsx")));

type Queue = Output<"get_queue">;
type Entry = Queue["entries"][number];

const isOfMachines = ({ target }: Lane): boolean => target === "self" || target.startsWith("self:");

/** The queue with a run at the head of its target; what each waits for comes with the answer. */
function promoted(queue: Queue, id: string | undefined): Queue {
  const moved = queue.entries.find(({ runId }) => runId === id);
  if (!moved) return queue;
  const entries = queue.entries.map((entry) => {
    if (entry === moved) return { ...entry, position: 1 };
    const isPassed = entry.target === moved.target && entry.position < moved.position;
    return isPassed ? { ...entry, position: entry.position + 1 } : entry;
  });
  return { ...queue, entries };
}

/** What is waited for, and what the places it waits for are busy with. */
export function QueuePage() {
  const search = queueRoute.useSearch();
  const navigate = useNavigate({ from: "/queue" });
  const may = useMay();
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const query = useRead("get_queue", { query: { limit: 200 } }, { every: 2_000, keep: true });
  const refreshes = ["get_queue", "list_runs", "get_run"] as const;
  const promote = useWrite("promote_queue_entry", {
    refreshes,
    optimistic: (shown, { params }) => shown.answer("get_queue", (queue) => promoted(queue, params?.id)),
    onSuccess: () => notify("Promoted", { detail: "It is first among the waiting runs of this workspace." }),
  });
  const remove = useWrite("cancel_queue_entry", {
    refreshes,
    quiet: true,
    optimistic: (shown, { params }) =>
      shown.answer("get_queue", (queue) => ({
        ...queue,
        entries: queue.entries.filter(({ runId }) => runId !== params?.id),
      })),
  });
  const runtimes = useAll("list_runtimes", { query: { archived: "true" } }, { every: 10_000 });
  const { data } = query;
  const set = (change: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const view = search.view ?? "now";
  const targets = [...new Set((data?.entries ?? []).map(({ target }) => target))].sort();
  // In the order of their turns; the API lists them as they came.
  const rows = data?.entries
    .filter(({ target }) => search.target === undefined || target === search.target)
    .sort((a, b) => a.position - b.position);
  const canPromote = may("promote_queue_entry");
  const canRemove = may("cancel_queue_entry");
  // biome-ignore lint/correctness/useExhaustiveDependencies: the mutations are the same for as long as the page is
  const columns = useMemo(
    () =>
      columnsOf({
        promote: canPromote ? (entry) => promote.mutate({ params: { id: entry.runId } }) : null,
        remove: canRemove
          ? (entry) =>
              setAsk({
                title: "Remove this run from the queue?",
                name: entry.runId,
                consequences: "It is cancelled and not measured. Runs behind it move up.",
                verb: "Remove from the queue",
                action: () => remove.mutateAsync({ params: { id: entry.runId } }),
              })
          : null,
      }),
    [canPromote, canRemove],
  );
  const runtimeOf = ({ target }: Lane) => runtimes.data?.find(({ id }) => id === target.split("@", 1)[0]);
  // The pool and its machines share slots; a machine by name matters only when something waits for it. What is archived
  // takes no work, so it is not a place that is free.
  const lanes = data?.lanes
    .filter((lane) => !lane.target.includes("rnr-") || lane.queued > 0)
    .filter((lane) => !runtimeOf(lane)?.archived || lane.queued + lane.slots.inFlight > 0);
  const wordsOf = (lane: Lane): HealthWords | null => {
    if (isOfMachines(lane)) return machinesOf(lane);
    return runtimes.data === undefined ? null : healthOf(runtimeOf(lane)?.health ?? null, [lane]);
  };
  return (
    <Page
      title="Queue"
      heading={
        data && (
          <Chip>
            {plural(
              data.lanes.reduce((sum, lane) => sum + lane.queued, 0),
              "run",
            )}{" "}
            waiting
          </Chip>
        )
      }
      tabs={
        <Tabs
          label="Queue"
          value={view}
          onChange={(next) => set({ view: next === "now" ? undefined : next })}
          tabs={[
            { id: "now", label: "Now" },
            { id: "hour", label: "Last hour" },
          ]}
        />
      }
    >
      {query.error && data === undefined ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : view === "hour" ? (
        <TabPanel id="hour">
          <Suspense fallback={<Skeleton className="h-72 w-full" />}>
            <LaneChart updatedAt={query.dataUpdatedAt} />
          </Suspense>
        </TabPanel>
      ) : (
        <TabPanel id="now" className="flex flex-col gap-4">
          <section aria-label="Lanes" className="grid gap-3 md:grid-cols-2 2xl:grid-cols-3">
            {lanes === undefined
              ? [1, 2].map((key) => <Skeleton key={key} className="h-28 w-full" />)
              : lanes.map((lane) => <LaneCard key={lane.lane} lane={lane} words={wordsOf(lane)} />)}
          </section>
          <div>
            <div className="mb-3 flex flex-wrap items-center gap-2">
              <FilterSelect
                label="Target"
                value={search.target}
                options={targets.map((value) => ({ value, label: value }))}
                onChange={(target) => set({ target })}
              />
              {data?.nextCursor != null && (
                <span className="text-xs text-muted">The first 200 waiting runs are shown.</span>
              )}
            </div>
            <div className="rounded-lg border border-line bg-surface">
              <DataTable
                label="Waiting runs"
                columns={columns}
                rows={rows}
                rowId={({ runId }) => runId}
                sort={search.sort}
                onSort={(sort) => set({ sort })}
                onOpen={({ runId }) => void navigate({ to: "/runs/$id", params: { id: runId } })}
                empty={
                  search.target === undefined ? (
                    <Empty icon={<ListOrdered aria-hidden />} title="Nothing waits">
                      Runs stand here while they wait for a slot, for memory or for a machine, each with the one reason
                      that holds it back. Cases that a scorecard has not handed over yet are shown on the scorecard.
                    </Empty>
                  ) : (
                    <Empty
                      title="Nothing waits for this target"
                      action={<Button onClick={() => set({ target: undefined })}>Clear filter</Button>}
                    />
                  )
                }
              />
            </div>
          </div>
        </TabPanel>
      )}
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}

function LaneCard({ lane, words }: { lane: Lane; words: HealthWords | null }) {
  const free = lane.slots.total - lane.slots.inFlight;
  return (
    <section aria-label={lane.target} className="rounded-lg border border-line bg-surface p-3">
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="font-medium wrap-anywhere">{lane.target}</h2>
        {words && (
          <Dot tone={words.tone} title={words.help}>
            <span className="text-xs text-muted">{words.word}</span>
          </Dot>
        )}
        <span className="ml-auto text-xs text-muted tabular-nums">
          {plural(lane.queued, "run")} waiting
          {lane.queued > 0 && `, the oldest for ${duration(lane.oldestSec * 1_000)}`}
        </span>
      </div>
      {lane.health.detail !== null && <p className="mt-1 text-xs break-words text-bad">{lane.health.detail}</p>}
      <dl className="mt-2 grid grid-cols-[4rem_1fr] items-center gap-y-1 text-xs">
        <dt className="text-muted">Slots</dt>
        <dd>
          <Meter
            label={`Slots of ${lane.target}`}
            value={lane.slots.inFlight}
            max={lane.slots.total}
            text={
              lane.slots.total === 0
                ? "no machine is online"
                : `${lane.slots.inFlight} of ${lane.slots.total}, ${Math.max(0, free)} free`
            }
          />
        </dd>
        {lane.memoryMb && (
          <>
            <dt className="text-muted">Memory</dt>
            <dd>
              <Meter
                label={`Memory of ${lane.target}`}
                value={lane.memoryMb.inFlight}
                max={lane.memoryMb.budget}
                text={`${memory(lane.memoryMb.inFlight)} of ${memory(lane.memoryMb.budget)}`}
              />
            </dd>
          </>
        )}
        {lane.cpu && (
          <>
            <dt className="text-muted">CPU</dt>
            <dd>
              <Meter
                label={`CPU of ${lane.target}`}
                value={lane.cpu.inFlight}
                max={lane.cpu.budget}
                text={`${lane.cpu.inFlight / 1_000} of ${lane.cpu.budget / 1_000} cores`}
              />
            </dd>
          </>
        )}
      </dl>
      {lane.drift !== 0 && (
        <p className="mt-2 text-xs text-bad">
          The books differ from what is there by {lane.drift}; it is put right at the next look.
        </p>
      )}
    </section>
  );
}

function columnsOf(acts: {
  promote: ((entry: Entry) => void) | null;
  remove: ((entry: Entry) => void) | null;
}): readonly Column<Entry>[] {
  const { promote, remove } = acts;
  return [
    {
      id: "position",
      header: "#",
      numeric: true,
      className: "w-10",
      cell: ({ position }) => position,
      sortBy: ({ position }) => position,
    },
    {
      id: "run",
      header: "Run",
      cell: ({ runId }) => (
        <Link to="/runs/$id" params={{ id: runId }} title={runId} className="block font-mono text-xs hover:underline">
          {/* Ids begin with the time: where there is no room, their end tells them apart. */}
          <span className="max-sm:hidden">{runId}</span>
          <span className="sm:hidden">…{runId.slice(-6)}</span>
        </Link>
      ),
    },
    { id: "target", header: "Target", from: "sm", cell: ({ target }) => target, sortBy: ({ target }) => target },
    {
      id: "why",
      header: "Why it waits",
      className: "w-full max-w-0 max-sm:w-auto max-sm:max-w-none",
      cell: ({ waiting }) => {
        const { short, tier } = waitWords(waiting);
        return (
          <span className="block truncate" title={waiting.detail}>
            <Chip tone={tier === "never" ? "bad" : tier === "silent" ? "warn" : "idle"}>{short}</Chip>{" "}
            <span className="text-muted max-md:hidden">{waiting.detail}</span>
          </span>
        );
      },
      sortBy: ({ waiting }) => waiting.reason,
    },
    {
      id: "eta",
      header: "About",
      numeric: true,
      from: "lg",
      cell: ({ waiting }) => (waiting.etaSec === null ? "–" : duration(waiting.etaSec * 1_000)),
      sortBy: ({ waiting }) => waiting.etaSec,
    },
    {
      id: "since",
      header: "Waiting since",
      numeric: true,
      from: "md",
      cell: ({ enqueuedAt }) => <Time at={enqueuedAt} className="text-muted" />,
      sortBy: ({ enqueuedAt }) => enqueuedAt,
    },
    ...(promote || remove
      ? [
          {
            id: "acts",
            header: "Actions",
            quiet: true,
            cell: (entry: Entry) => (
              <span className="flex justify-end gap-1">
                {promote && (
                  <IconButton label={`Promote ${entry.runId}`} onClick={() => promote(entry)}>
                    <ArrowUpToLine aria-hidden className="size-3.5" />
                  </IconButton>
                )}
                {remove && (
                  <IconButton label={`Remove ${entry.runId}`} onClick={() => remove(entry)}>
                    <X aria-hidden className="size-3.5" />
                  </IconButton>
                )}
              </span>
            ),
          },
        ]
      : []),
  ];
}
