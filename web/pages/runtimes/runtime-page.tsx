import { Link, useNavigate } from "@tanstack/react-router";
import { Pencil, Play } from "lucide-react";
import { useState } from "react";
import { useAll, useRead } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { runtimeRoute } from "../../routes/compute.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { Button, buttonClass } from "../../ui/button.tsx";
import { CopyButton } from "../../ui/copy.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { Facts, Page, Panel } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Meter } from "../../ui/meter.tsx";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";
import { Chip, Dot, Tag } from "../../ui/status.tsx";
import { TabPanel, Tabs } from "../../ui/tabs.tsx";
import { Time } from "../../ui/time.tsx";
import { WaitingWord } from "../../ui/waiting.tsx";
import { duration, memory, plural } from "../../ui/words.ts";
import { useArchive, versionShown } from "../library/use-archive.ts";
import { Versions } from "../library/versions.tsx";
import { ClusterPanel } from "./cluster-panel.tsx";
import { differences } from "./diff.ts";
import { DiffTable } from "./diff-table.tsx";
import { type Draft, type RuntimeKind, read, SECTIONS } from "./fields.ts";
import { healthOf, lanesOf } from "./health.ts";
import { RelayState } from "./relay-state.tsx";

type TabId = "overview" | "cluster" | "queue" | "versions";
const CRUMBS = [{ label: "Runtimes", to: "/runtimes" }];

/** One runtime: what it is, what its cluster says now, what waits for it, and how it changed. */
export function RuntimePage() {
  const { id } = runtimeRoute.useParams();
  const search = runtimeRoute.useSearch();
  const navigate = useNavigate({ from: "/runtimes/$id" });
  const may = useMay();
  const list = useAll("list_runtimes", { query: { archived: "true" } }, { every: 10_000 });
  const item = list.data?.find((each) => each.id === id);
  const version = versionShown(search.version, item);
  const entry = useRead("get_runtime", { params: { id, version } });
  // The cluster's tab asks; the header says the same as it, and the newer of its answer and the last exchange elsewhere.
  const look = useRead(
    "inspect_runtime",
    { params: { id, version: entry.data?.version ?? version } },
    { enabled: false },
  );
  const queue = useRead("get_queue", { query: { target: id, limit: 1 } }, { every: 10_000 });
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const archiving = useArchive("runtime", id);
  const tab: TabId = search.tab ?? "overview";
  const setTab = (next: TabId) =>
    void navigate({ search: (old) => ({ ...old, tab: next === "overview" ? undefined : next }), replace: true });
  const edit = () => void navigate({ to: "/runtimes/$id/edit", params: { id }, search: { version: search.version } });
  const shared = entry.data?.owner === "_shared";
  const editable = may("create_runtime") && entry.data !== undefined && !shared;
  usePageActions([
    ...(editable ? [{ id: "edit", label: "Edit this runtime", key: "e", run: edit }] : []),
    { id: "cluster", label: "Show the cluster", key: "l", run: () => setTab("cluster") },
  ]);
  if (entry.data === undefined)
    return (
      <Page title={id} crumbs={CRUMBS}>
        {entry.error && !list.isPending ? (
          <ErrorState error={entry.error} retry={() => void entry.refetch()} />
        ) : (
          <Skeleton className="h-64 w-full" />
        )}
      </Page>
    );
  const spec = entry.data.spec as Draft;
  const checkedAt = item?.health?.checkedAt ?? null;
  const newer = look.data && (checkedAt === null || Date.parse(look.data.readAt) > Date.parse(checkedAt));
  const words = healthOf(
    item?.health ?? null,
    lanesOf(queue.data?.lanes ?? [], id),
    newer || tab === "cluster" ? look.data : undefined,
  );
  const askArchive = (one: string | undefined) =>
    setAsk({
      title: one === undefined ? "Archive this runtime?" : "Archive this version?",
      name: one === undefined ? id : `${id}@${one}`,
      consequences: "It takes no new work. What runs goes on, and what waits for it by this name will not start.",
      verb: "Archive",
      action: () => archiving.archive(one),
    });
  return (
    <Page
      title={id}
      crumbs={CRUMBS}
      heading={
        <>
          <Chip>{String(spec.kind)}</Chip>
          <Tag>{entry.data.version}</Tag>
          {shared && <Tag>shared</Tag>}
          {entry.data.archived && <Chip tone="warn">archived</Chip>}
          <Dot tone={words.tone} title={words.help}>
            {words.word}
          </Dot>
          {entry.data.relay && <RelayState relay={entry.data.relay} />}
        </>
      }
      actions={
        <>
          {may("run_scorecard") && !entry.data.archived && (
            <Link to="/scorecards/new" search={{ runtime: id }} className={buttonClass()}>
              <Play aria-hidden className="size-3.5" />
              Run a scorecard here
            </Link>
          )}
          {may("archive_runtime") && !shared && !entry.data.archived && (
            <Button kind="danger" onClick={() => askArchive(undefined)}>
              Archive
            </Button>
          )}
          {may("archive_runtime") && !shared && entry.data.archived && (
            <Button onClick={() => archiving.restore(search.version)}>Bring back</Button>
          )}
          {editable && (
            <Button kind="primary" icon={<Pencil aria-hidden className="size-3.5" />} onClick={edit}>
              Edit
            </Button>
          )}
        </>
      }
      tabs={
        <Tabs<TabId>
          label="Runtime"
          value={tab}
          onChange={setTab}
          tabs={[
            { id: "overview", label: "Overview" },
            { id: "cluster", label: "Cluster status" },
            { id: "queue", label: "Queue" },
            { id: "versions", label: "Versions", count: item?.versions.length },
          ]}
        />
      }
    >
      <TabPanel id={tab}>
        {tab === "overview" && <Overview spec={spec} by={entry.data.createdBy} at={entry.data.createdAt} />}
        {tab === "cluster" && <ClusterPanel id={id} version={entry.data.version} paused={ask !== null} />}
        {tab === "queue" && <QueueOf id={id} />}
        {tab === "versions" && (
          <VersionsTab
            versions={item?.versions ?? []}
            current={spec}
            against={search.against}
            choose={(change) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })}
            archive={may("archive_runtime") && !shared ? askArchive : undefined}
          />
        )}
      </TabPanel>
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}

function shown(value: unknown) {
  if (value === true) return "yes";
  if (value === false) return "no";
  if (typeof value === "string" || typeof value === "number") return <code className="break-all">{String(value)}</code>;
  if (Array.isArray(value) && value.every((item) => typeof item === "string"))
    return value.length === 0 ? (
      <span className="text-faint">none</span>
    ) : (
      value.map((item) => <Tag key={item}>{item}</Tag>)
    );
  return <code className="text-xs break-all">{JSON.stringify(value)}</code>;
}

/** Every field that is set, in the order of the form. */
function Overview({ spec, by, at }: { spec: Draft; by: string; at: string }) {
  const json = JSON.stringify(spec, null, 2);
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      {SECTIONS[spec.kind as RuntimeKind].map(({ title, fields }) => {
        const set = fields.filter(({ path }) => read(spec, path) !== undefined);
        return set.length === 0 ? null : (
          <Panel key={title} title={title}>
            <Facts items={set.map(({ path, label }) => [label, shown(read(spec, path))] as const)} />
          </Panel>
        );
      })}
      <Panel title="Registered">
        <Facts
          items={[
            ["By", by],
            ["At", <Time key="t" at={at} />],
          ]}
        />
      </Panel>
      <Panel title="As JSON" actions={<CopyButton text={json} label="Copy the JSON" />}>
        <pre tabIndex={0} className="max-h-80 overflow-auto text-xs">
          {json}
        </pre>
      </Panel>
    </div>
  );
}

function QueueOf({ id }: { id: string }) {
  const queue = useRead("get_queue", { query: { target: id, limit: 100 } }, { every: 3_000 });
  const lanes = lanesOf(queue.data?.lanes ?? [], id);
  type Entry = NonNullable<typeof queue.data>["entries"][number];
  const columns: readonly Column<Entry>[] = [
    { id: "position", header: "Position", numeric: true, cell: (entry) => entry.position },
    {
      id: "run",
      header: "Run",
      cell: (entry) => (
        <Link to="/runs/$id" params={{ id: entry.runId }} className="font-mono text-xs hover:underline">
          {entry.runId}
        </Link>
      ),
    },
    { id: "why", header: "Why it waits", cell: (entry) => <WaitingWord waiting={entry.waiting} /> },
    { id: "since", header: "Since", numeric: true, cell: (entry) => <Time at={entry.enqueuedAt} /> },
  ];
  return (
    <div className="flex flex-col gap-4">
      {lanes.map((lane) => (
        // The lane as people name it: without the kind and the owner that the Scheduler puts before it.
        <Panel key={lane.lane} title={lane.lane.replace(/^rt:[^:]*:/, "")}>
          <div className="flex flex-wrap items-center gap-x-8 gap-y-2">
            <Meter
              label="Slots in use"
              value={lane.slots.inFlight}
              max={lane.slots.total}
              text={`${lane.slots.inFlight} of ${lane.slots.total} slots`}
            />
            {lane.memoryMb && (
              <Meter
                label="Memory in use"
                value={lane.memoryMb.inFlight}
                max={lane.memoryMb.budget}
                text={`${memory(lane.memoryMb.inFlight)} of ${memory(lane.memoryMb.budget)}`}
              />
            )}
            <span className="text-muted">
              {plural(lane.queued, "run")} waiting
              {lane.queued > 0 && `, the oldest for ${duration(lane.oldestSec * 1_000)}`}
            </span>
            {lane.health.detail !== null && <span className="text-bad">{lane.health.detail}</span>}
          </div>
        </Panel>
      ))}
      <ListTable
        label="Waiting runs"
        columns={columns}
        rows={queue.data?.entries}
        rowId={(entry) => entry.runId}
        query={queue}
        empty={<Empty title="Nothing waits here" />}
      />
    </div>
  );
}

function VersionsTab({
  versions,
  current,
  against,
  choose,
  archive,
}: {
  versions: readonly string[];
  current: Draft;
  against: string | undefined;
  choose: (change: { version?: string; against?: string }) => void;
  archive: ((version: string) => void) | undefined;
}) {
  const shownVersion = String(current.version);
  const other = against ?? versions.find((each) => each !== shownVersion);
  const compared = useRead(
    "get_runtime",
    { params: { id: String(current.id), version: other ?? "latest" } },
    { enabled: other !== undefined },
  );
  return (
    <div className="grid gap-4 lg:grid-cols-[18rem_1fr]">
      <Versions
        versions={versions}
        shown={shownVersion}
        show={(version) => choose({ version })}
        compare={(each) => choose({ against: each })}
        archive={archive}
      />
      {other === undefined ? (
        <Panel title="Changes">
          <p className="text-muted">This is the only version.</p>
        </Panel>
      ) : (
        <Panel title={`From ${other} to ${shownVersion}`}>
          {compared.data ? (
            <DiffTable label="Changes" changes={differences(compared.data.spec, current)} />
          ) : (
            <Skeleton className="h-16 w-full" />
          )}
        </Panel>
      )}
    </div>
  );
}
