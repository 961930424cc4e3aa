import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useAll, useRead } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { harnessRoute } from "../../routes/library.tsx";
import { Button, buttonClass } from "../../ui/button.tsx";
import { CopyButton } from "../../ui/copy.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { Page, Panel } from "../../ui/layout.tsx";
import { ErrorState, Skeleton } from "../../ui/states.tsx";
import { Chip, Tag } from "../../ui/status.tsx";
import { differences } from "../runtimes/diff.ts";
import { DiffTable } from "../runtimes/diff-table.tsx";
import { useArchive, versionShown } from "./use-archive.ts";
import { Versions } from "./versions.tsx";

/** One harness: its spec, its versions and what changed between them. */
export function HarnessPage() {
  const { id } = harnessRoute.useParams();
  const search = harnessRoute.useSearch();
  const navigate = useNavigate({ from: "/harnesses/$id" });
  const may = useMay();
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const list = useAll("list_harnesses", { query: { archived: "true" } });
  const item = list.data?.find((each) => each.id === id);
  const entry = useRead("get_harness", { params: { id, version: versionShown(search.version, item) } });
  const other = useRead(
    "get_harness",
    { params: { id, version: search.against ?? "latest" } },
    { enabled: search.against !== undefined },
  );
  const archiving = useArchive("harness", id);
  const crumbs = [{ label: "Harnesses", to: "/harnesses" }];
  const { data } = entry;
  if (data === undefined)
    return (
      <Page title={id} crumbs={crumbs}>
        {entry.error && !list.isPending ? (
          <ErrorState error={entry.error} retry={() => void entry.refetch()} />
        ) : (
          <Skeleton className="h-64 w-full" />
        )}
      </Page>
    );
  const json = JSON.stringify(data.spec, null, 2);
  const shared = data.owner === "_shared";
  const set = (change: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <Page
      title={id}
      crumbs={crumbs}
      heading={
        <>
          <Chip>{data.spec.kind}</Chip>
          <Tag>{data.version}</Tag>
          {shared && <Tag>shared</Tag>}
          {data.archived && <Chip tone="warn">archived</Chip>}
        </>
      }
      actions={
        <>
          {may("archive_harness") && !shared && !data.archived && (
            <Button
              kind="danger"
              onClick={() =>
                setAsk({
                  title: "Archive this version?",
                  name: `${id}@${data.version}`,
                  consequences: "It is no longer the latest and takes no new work. What runs goes on.",
                  verb: "Archive",
                  action: () => archiving.archive(data.version),
                })
              }
            >
              Archive
            </Button>
          )}
          {may("archive_harness") && !shared && data.archived && (
            <Button onClick={() => archiving.restore(data.version)}>Bring back</Button>
          )}
          {may("create_harness") && !shared && (
            <Link to="/harnesses/new" search={{ from: id, version: data.version }} className={buttonClass()}>
              New version
            </Link>
          )}
          {may("run_scorecard") && !data.archived && (
            <Link to="/scorecards/new" search={{ harness: id }} className={buttonClass("primary")}>
              Run a scorecard
            </Link>
          )}
        </>
      }
    >
      <div className="grid gap-4 items-start lg:grid-cols-[minmax(0,1fr)_18rem]">
        <div className="flex min-w-0 flex-col gap-4">
          {search.against !== undefined && other.data && (
            <Panel title={`From ${other.data.version} to ${data.version}`}>
              <DiffTable label="Changes" changes={differences(other.data.spec, data.spec)} />
            </Panel>
          )}
          <Panel title="Spec" actions={<CopyButton text={json} label="Copy the JSON" />}>
            <pre tabIndex={0} className="overflow-auto text-xs">
              {json}
            </pre>
          </Panel>
        </div>
        <Versions
          versions={item?.versions ?? [data.version]}
          shown={data.version}
          show={(version) => set({ version })}
          compare={(against) => set({ against })}
        />
      </div>
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}
