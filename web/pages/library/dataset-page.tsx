import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type Item, useAll, usePages, useRead } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { datasetRoute } from "../../routes/library.tsx";
import { Button, buttonClass } from "../../ui/button.tsx";
import { CopyButton } from "../../ui/copy.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { Confirm, type Confirmation, Modal } from "../../ui/dialog.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";
import { Chip, Tag } from "../../ui/status.tsx";
import { plural } from "../../ui/words.ts";
import { useArchive, versionShown } from "./use-archive.ts";
import { Versions } from "./versions.tsx";

type Case = Item<"list_dataset_cases">;

/** One dataset: its cases, and its versions. */
export function DatasetPage() {
  const { id } = datasetRoute.useParams();
  const search = datasetRoute.useSearch();
  const navigate = useNavigate({ from: "/datasets/$id" });
  const may = useMay();
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const list = useAll("list_datasets", { query: { archived: "true" } });
  const item = list.data?.find((each) => each.id === id);
  const version = search.version ?? item?.latest ?? versionShown(undefined, item);
  const cases = usePages("list_dataset_cases", { params: { id, version }, query: { limit: 100 } });
  const entry = useRead(
    "list_dataset_cases",
    { params: { id, version }, query: { limit: 1 } },
    { enabled: item === undefined && list.isSuccess },
  );
  const archiving = useArchive("dataset", id);
  const set = (change: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const crumbs = [{ label: "Datasets", to: "/datasets" }];
  if (item === undefined)
    return (
      <Page title={id} crumbs={crumbs}>
        {(entry.error ?? list.error) ? (
          <ErrorState error={entry.error ?? list.error} retry={() => void list.refetch()} />
        ) : (
          <Skeleton className="h-64 w-full" />
        )}
      </Page>
    );
  const columns: readonly Column<Case>[] = [
    {
      id: "id",
      header: "Case",
      cell: (one) => (
        <button type="button" className="rounded font-medium hover:underline" onClick={() => set({ case: one.id })}>
          <Name>{one.id}</Name>
        </button>
      ),
    },
    {
      id: "task",
      header: "Task",
      className: "max-w-96 truncate",
      cell: (one) => (
        <span className="text-muted" title={one.task}>
          {one.task}
        </span>
      ),
    },
    { id: "env", header: "Starts from", from: "md", cell: (one) => one.env.kind },
    {
      id: "graders",
      header: "Graders",
      from: "sm",
      cell: (one) => (
        <span className="flex gap-1">
          {one.graders.slice(0, 3).map((grader) => (
            <Tag key={JSON.stringify(grader)}>{grader.kind}</Tag>
          ))}
          {one.graders.length > 3 && <span className="text-faint">+{one.graders.length - 3}</span>}
        </span>
      ),
    },
    {
      id: "tags",
      header: "Tags",
      from: "lg",
      cell: (one) => (
        <span className="flex gap-1">
          {(one.tags ?? []).map((tag) => (
            <Tag key={tag}>{tag}</Tag>
          ))}
        </span>
      ),
    },
  ];
  const shown = cases.items?.find((one) => one.id === search.case);
  const shared = item.owner === "_shared";
  const json = shown === undefined ? "" : JSON.stringify(shown, null, 2);
  return (
    <Page
      title={id}
      crumbs={crumbs}
      heading={
        <>
          <Tag>{version}</Tag>
          {shared && <Tag>shared</Tag>}
          {item.archived && <Chip tone="warn">archived</Chip>}
          {version === item.latest && <span className="text-muted">{plural(item.cases, "case")}</span>}
        </>
      }
      actions={
        <>
          {may("archive_dataset") && !shared && !item.archived && (
            <Button
              kind="danger"
              onClick={() =>
                setAsk({
                  title: "Archive this version?",
                  name: `${id}@${version}`,
                  consequences: "It is no longer the latest; scorecards made of it stay.",
                  verb: "Archive",
                  action: () => archiving.archive(version),
                })
              }
            >
              Archive
            </Button>
          )}
          {may("archive_dataset") && !shared && item.archived && (
            <Button onClick={() => archiving.restore(search.version)}>Bring back</Button>
          )}
          {may("create_dataset") && !shared && (
            <Link to="/datasets/new" search={{ from: id }} className={buttonClass()}>
              New version
            </Link>
          )}
          {may("run_scorecard") && !item.archived && (
            <Link to="/scorecards/new" search={{ dataset: id }} className={buttonClass("primary")}>
              Run a scorecard
            </Link>
          )}
        </>
      }
    >
      <div className="grid gap-4 items-start lg:grid-cols-[minmax(0,1fr)_18rem]">
        <ListTable
          label="Cases"
          columns={columns}
          rows={cases.items}
          rowId={(one) => one.id}
          query={cases}
          onOpen={(one) => set({ case: one.id })}
          empty={<Empty title="It has no cases" />}
        />
        <Versions versions={item.versions} shown={version} show={(next) => set({ version: next })} />
      </div>
      <Modal
        open={shown !== undefined}
        onClose={() => set({ case: undefined })}
        title={`Case ${search.case ?? ""}`}
        wide
      >
        <div className="relative">
          <pre tabIndex={0} className="overflow-auto pr-8 text-xs">
            {json}
          </pre>
          <CopyButton text={json} label="Copy the case" className="absolute top-0 right-0" />
        </div>
      </Modal>
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}
