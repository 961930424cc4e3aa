import { Link, useNavigate } from "@tanstack/react-router";
import { Database, Terminal } from "lucide-react";
import type { ReactNode } from "react";
import { type Item, useAll } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { datasetsRoute, harnessesRoute } from "../../routes/library.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { Button, buttonClass } from "../../ui/button.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { FilterSelect } from "../../ui/field.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { SearchBox } from "../../ui/search-box.tsx";
import { Empty } from "../../ui/states.tsx";
import { Chip, Tag } from "../../ui/status.tsx";
import { plural } from "../../ui/words.ts";

type Harness = Item<"list_harnesses">;
type Dataset = Item<"list_datasets">;
type Listed = Harness | Dataset;

interface Search {
  q?: string | undefined;
  archived?: "true" | undefined;
  sort?: string | undefined;
}

const nameColumn = (to: "/harnesses/$id" | "/datasets/$id"): Column<Listed> => ({
  id: "id",
  header: "Name",
  sortBy: (item) => item.id,
  cell: (item) => (
    <span className="flex items-center gap-2">
      <Link to={to} params={{ id: item.id }} className="font-medium hover:underline">
        <Name>{item.id}</Name>
      </Link>
      {item.owner === "_shared" && <Tag>shared</Tag>}
      {item.archived && <Tag>archived</Tag>}
    </span>
  ),
});

const SHARED_COLUMNS: readonly Column<Listed>[] = [
  {
    id: "version",
    header: "Version",
    cell: (item) => <Tag title={plural(item.versions.length, "version")}>{item.latest ?? "archived"}</Tag>,
  },
  {
    id: "tags",
    header: "Tags",
    from: "md",
    cell: (item) => (
      <span className="flex gap-1">
        {(item.tags[item.latest ?? ""] ?? []).map((tag) => (
          <Tag key={tag}>{tag}</Tag>
        ))}
      </span>
    ),
  },
  {
    id: "description",
    header: "Description",
    from: "lg",
    className: "max-w-96 truncate",
    cell: (item) => (
      <span className="text-muted" title={item.description ?? undefined}>
        {item.description}
      </span>
    ),
  },
];

function List({
  title,
  newTo,
  newLabel,
  mayCreate,
  columns,
  query,
  search,
  set,
  open,
  empty,
}: {
  title: string;
  newTo: "/harnesses/new" | "/datasets/new";
  newLabel: string;
  mayCreate: boolean;
  columns: readonly Column<Listed>[];
  query: { data: readonly Listed[] | undefined; error: unknown; refetch: () => unknown };
  search: Search;
  set: (change: Search) => void;
  open: (item: Listed) => void;
  empty: ReactNode;
}) {
  const navigate = useNavigate();
  usePageActions(mayCreate ? [{ id: "new", label: newLabel, key: "c", run: () => void navigate({ to: newTo }) }] : []);
  const needle = search.q?.toLowerCase();
  const rows = query.data?.filter(
    (item) => needle === undefined || `${item.id} ${item.description ?? ""}`.toLowerCase().includes(needle),
  );
  return (
    <Page
      title={title}
      actions={
        mayCreate && (
          <Link to={newTo} className={buttonClass("primary")}>
            {newLabel}
          </Link>
        )
      }
    >
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <SearchBox
          label="Find by name"
          value={search.q ?? ""}
          onChange={(q) => set({ q: q || undefined })}
          className="w-56 max-sm:w-full"
        />
        <FilterSelect
          label="Archived"
          usual="hidden"
          value={search.archived}
          options={[{ value: "true", label: "shown too" }]}
          onChange={(archived) => set({ archived })}
        />
      </div>
      <ListTable
        label={title}
        columns={columns}
        rows={rows}
        rowId={(item) => `${item.owner}/${item.id}`}
        query={query}
        sort={search.sort}
        onSort={(sort) => set({ sort })}
        onOpen={open}
        empty={
          needle !== undefined ? (
            <Empty
              title="Nothing has this in its name"
              action={<Button onClick={() => set({ q: undefined })}>Clear filter</Button>}
            />
          ) : (
            empty
          )
        }
      />
    </Page>
  );
}

const archivedQuery = (search: Search) => ({ query: search.archived === "true" ? { archived: "true" as const } : {} });

/** Agents under test, and how each is started. */
export function HarnessesPage() {
  const search = harnessesRoute.useSearch();
  const navigate = useNavigate({ from: "/harnesses" });
  const may = useMay();
  const query = useAll("list_harnesses", archivedQuery(search));
  const columns: readonly Column<Listed>[] = [
    nameColumn("/harnesses/$id"),
    { id: "kind", header: "Kind", cell: (item) => "kind" in item && <Chip>{item.kind}</Chip> },
    ...SHARED_COLUMNS,
  ];
  return (
    <List
      title="Harnesses"
      newTo="/harnesses/new"
      newLabel="Register a harness"
      mayCreate={may("create_harness")}
      columns={columns}
      query={query}
      search={search}
      set={(change) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })}
      open={(item) => void navigate({ to: "/harnesses/$id", params: { id: item.id } })}
      empty={
        <Empty
          icon={<Terminal aria-hidden />}
          title="No harnesses yet"
          action={
            may("create_harness") && (
              <Link to="/harnesses/new" className={buttonClass("primary")}>
                Register a harness
              </Link>
            )
          }
        >
          A harness says how an agent is set up and started for a task.
        </Empty>
      }
    />
  );
}

/** Cases that agents are measured by. */
export function DatasetsPage() {
  const search = datasetsRoute.useSearch();
  const navigate = useNavigate({ from: "/datasets" });
  const may = useMay();
  const query = useAll("list_datasets", archivedQuery(search));
  const columns: readonly Column<Listed>[] = [
    nameColumn("/datasets/$id"),
    {
      id: "cases",
      header: "Cases",
      numeric: true,
      sortBy: (item) => ("cases" in item ? item.cases : 0),
      cell: (item) => "cases" in item && item.cases.toLocaleString("en"),
    },
    ...SHARED_COLUMNS,
  ];
  return (
    <List
      title="Datasets"
      newTo="/datasets/new"
      newLabel="Add a dataset"
      mayCreate={may("create_dataset")}
      columns={columns}
      query={query}
      search={search}
      set={(change) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true })}
      open={(item) => void navigate({ to: "/datasets/$id", params: { id: item.id } })}
      empty={
        <Empty
          icon={<Database aria-hidden />}
          title="No datasets yet"
          action={
            may("create_dataset") && (
              <Link to="/datasets/new" className={buttonClass("primary")}>
                Add a dataset
              </Link>
            )
          }
        >
          A dataset is a list of cases: a task, what it starts from, and the graders that judge the outcome.
        </Empty>
      }
    />
  );
}
