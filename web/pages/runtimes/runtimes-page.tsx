import { Link, useNavigate } from "@tanstack/react-router";
import { Server } from "lucide-react";
import { useMemo } from "react";
import { type Item, useAll, useRead } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { runtimesRoute } from "../../routes/compute.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { Button, buttonClass } from "../../ui/button.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { FilterSelect } from "../../ui/field.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Meter } from "../../ui/meter.tsx";
import { Name } from "../../ui/name.tsx";
import { Empty } from "../../ui/states.tsx";
import { Chip, Dot, Tag } from "../../ui/status.tsx";
import { Time } from "../../ui/time.tsx";
import { duration, memory, plural } from "../../ui/words.ts";
import { healthOf, type Lane, lanesOf } from "./health.ts";
import { RelayState } from "./relay-state.tsx";

type Runtime = Item<"list_runtimes">;
interface Row {
  runtime: Runtime;
  lanes: readonly Lane[];
}

/** Queued work that has waited longer is pointed out. */
const LATE_SEC = 600;

const sum = (lanes: readonly Lane[], of: (lane: Lane) => number): number =>
  lanes.reduce((total, lane) => total + of(lane), 0);

const COLUMNS: readonly Column<Row>[] = [
  {
    id: "name",
    header: "Runtime",
    sortBy: ({ runtime }) => runtime.id,
    cell: ({ runtime, lanes }) => {
      const oldest = Math.max(0, ...lanes.map(({ oldestSec }) => oldestSec));
      return (
        <span className="flex items-center gap-2">
          <Link to="/runtimes/$id" params={{ id: runtime.id }} className="font-medium hover:underline">
            <Name>{runtime.id}</Name>
          </Link>
          {runtime.owner === "_shared" && <Tag>shared</Tag>}
          {runtime.archived && <Tag>archived</Tag>}
          {oldest > LATE_SEC && (
            <Link to="/queue" search={{ target: runtime.id }}>
              <Chip tone="warn">late: waits {duration(oldest * 1_000)}</Chip>
            </Link>
          )}
        </span>
      );
    },
  },
  {
    id: "kind",
    header: "Kind",
    from: "sm",
    sortBy: ({ runtime }) => runtime.kind,
    cell: ({ runtime }) => <Chip>{runtime.kind}</Chip>,
  },
  {
    id: "health",
    header: "Health",
    sortBy: ({ runtime, lanes }) => healthOf(runtime.health, lanes).word,
    cell: ({ runtime, lanes }) => {
      const words = healthOf(runtime.health, lanes);
      return (
        <span className="flex items-center gap-2">
          <Dot tone={words.tone} title={words.help}>
            {words.word}
          </Dot>
          {runtime.health?.checkedAt && (
            <span className="text-xs text-faint max-lg:hidden">
              <Time at={runtime.health.checkedAt} />
            </span>
          )}
          {runtime.relay && !runtime.relay.online && <RelayState relay={runtime.relay} />}
        </span>
      );
    },
  },
  {
    id: "slots",
    header: "Slots",
    from: "sm",
    sortBy: ({ lanes }) => sum(lanes, (lane) => lane.slots.inFlight),
    cell: ({ lanes }) => {
      const total = Math.max(0, ...lanes.map(({ slots }) => slots.total));
      const used = sum(lanes, ({ slots }) => slots.inFlight);
      return lanes.length === 0 ? (
        <span className="text-faint">idle</span>
      ) : (
        <Meter label="Slots in use" value={used} max={total} text={`${used} / ${total}`} />
      );
    },
  },
  {
    id: "memory",
    header: "Memory",
    from: "lg",
    cell: ({ lanes }) => {
      const budget = Math.max(0, ...lanes.map(({ memoryMb }) => memoryMb?.budget ?? 0));
      const used = sum(lanes, ({ memoryMb }) => memoryMb?.inFlight ?? 0);
      return budget === 0 ? (
        <span className="text-faint">–</span>
      ) : (
        <Meter label="Memory in use" value={used} max={budget} text={`${memory(used)} / ${memory(budget)}`} />
      );
    },
  },
  {
    id: "queued",
    header: "Waiting",
    numeric: true,
    sortBy: ({ lanes }) => sum(lanes, ({ queued }) => queued),
    cell: ({ lanes }) => sum(lanes, ({ queued }) => queued).toLocaleString("en"),
  },
  {
    id: "version",
    header: "Version",
    from: "md",
    cell: ({ runtime }) => <Tag title={plural(runtime.versions.length, "version")}>{runtime.latest ?? "archived"}</Tag>,
  },
  {
    id: "capabilities",
    header: "Capabilities",
    from: "xl",
    cell: ({ runtime }) => (
      <span className="flex items-center gap-1">
        {runtime.capabilities.map((name) => (
          <Tag key={name}>{name}</Tag>
        ))}
        {(runtime.tags[runtime.latest ?? ""] ?? []).map((tag) => (
          <span key={tag} className="text-xs text-faint">
            #{tag}
          </span>
        ))}
      </span>
    ),
  },
];

/** Every runtime that work can be sent to, with how busy it is now. */
export function RuntimesPage() {
  const search = runtimesRoute.useSearch();
  const navigate = useNavigate({ from: "/runtimes" });
  const may = useMay();
  const list = useAll(
    "list_runtimes",
    { query: search.archived === "true" ? { archived: "true" } : {} },
    { every: 10_000 },
  );
  const queue = useRead("get_queue", { query: { limit: 1 } }, { every: 5_000 });
  const rows = useMemo(
    () =>
      list.data
        ?.filter(({ kind }) => search.kind === undefined || kind === search.kind)
        .filter(({ id }) => search.q === undefined || id.includes(search.q))
        .map((runtime): Row => ({ runtime, lanes: lanesOf(queue.data?.lanes ?? [], runtime.id) })),
    [list.data, queue.data, search.kind, search.q],
  );
  const set = (change: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const create = () => void navigate({ to: "/runtimes/new" });
  usePageActions(may("create_runtime") ? [{ id: "new", label: "Register a runtime", key: "c", run: create }] : []);
  const filtered = search.kind !== undefined || search.q !== undefined;
  const clear = () => set({ kind: undefined, q: undefined });
  return (
    <Page
      title="Runtimes"
      actions={
        may("create_runtime") && (
          <Link to="/runtimes/new" className={buttonClass("primary")}>
            Register a runtime
          </Link>
        )
      }
    >
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <FilterSelect
          label="Kind"
          value={search.kind}
          options={(["local", "nomad", "k8s"] as const).map((value) => ({ value, label: value }))}
          onChange={(kind) => set({ kind })}
        />
        <FilterSelect
          label="Archived"
          usual="hidden"
          value={search.archived}
          options={[{ value: "true", label: "shown too" }]}
          onChange={(archived) => set({ archived })}
        />
        {filtered && (
          <Button small kind="quiet" onClick={clear}>
            Clear filter
          </Button>
        )}
      </div>
      <ListTable
        label="Runtimes"
        columns={COLUMNS}
        rows={rows}
        rowId={({ runtime }) => `${runtime.owner}/${runtime.id}`}
        query={list}
        sort={search.sort}
        onSort={(sort) => set({ sort })}
        onOpen={({ runtime }) => void navigate({ to: "/runtimes/$id", params: { id: runtime.id } })}
        empty={
          filtered ? (
            <Empty title="No runtime matches the filter" action={<Button onClick={clear}>Clear filter</Button>} />
          ) : (
            <Empty
              icon={<Server aria-hidden />}
              title="No runtimes yet"
              action={
                may("create_runtime") &&
                (["k8s", "nomad", "local"] as const).map((kind) => (
                  <Link key={kind} to="/runtimes/new" search={{ kind }} className={buttonClass()}>
                    {kind === "k8s" ? "Kubernetes" : kind === "nomad" ? "Nomad" : "This host (development)"}
                  </Link>
                ))
              }
            >
              A runtime is compute of yours that runs jobs: a Kubernetes or Nomad cluster. To use one machine without a
              cluster, pair it as a{" "}
              <Link to="/runners" className="underline">
                runner
              </Link>{" "}
              instead.
            </Empty>
          )
        }
      />
    </Page>
  );
}
