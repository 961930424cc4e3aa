import { useNavigate } from "@tanstack/react-router";
import { ScrollText } from "lucide-react";
import { type Item, usePages } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { auditRoute } from "../../routes/workspace.tsx";
import { CopyButton } from "../../ui/copy.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { SearchBox } from "../../ui/search-box.tsx";
import { Empty } from "../../ui/states.tsx";
import { Time } from "../../ui/time.tsx";

type Row = Item<"list_audit">;

const COLUMNS: readonly Column<Row>[] = [
  { id: "at", header: "When", cell: (row) => <Time at={row.at} /> },
  { id: "actor", header: "Who", cell: (row) => <Name className="font-medium">{row.actor}</Name> },
  { id: "action", header: "Did", cell: (row) => <code className="text-xs">{row.action}</code> },
  {
    id: "target",
    header: "To",
    // Of some there is no page: where it is narrow, the table is moved to read it.
    cell: (row) =>
      row.target === null ? "–" : <Name className="max-sm:max-w-none max-sm:!whitespace-nowrap">{row.target}</Name>,
  },
  {
    id: "detail",
    header: "Detail",
    from: "lg",
    className: "max-w-96 truncate",
    cell: (row) =>
      row.detail === null ? (
        ""
      ) : (
        <code className="text-xs text-muted" title={JSON.stringify(row.detail)}>
          {JSON.stringify(row.detail)}
        </code>
      ),
  },
  {
    id: "request",
    header: "Request",
    from: "xl",
    cell: (row) => (
      <span className="inline-flex items-center gap-0.5">
        <code className="text-xs text-faint">{row.requestId.slice(-8)}</code>
        <CopyButton text={row.requestId} label="Copy the request id" />
      </span>
    ),
  },
];

/** Who changed what, newest first. */
export function AuditPage() {
  const { q } = auditRoute.useSearch();
  const navigate = useNavigate({ from: "/audit" });
  const may = useMay();
  const list = usePages("list_audit", { query: { limit: 100 } }, { enabled: may("list_audit") });
  if (!may("list_audit"))
    return (
      <Page title="Audit">
        <Empty icon={<ScrollText aria-hidden />} title="The audit trail is for admins" />
      </Page>
    );
  const needle = q?.toLowerCase();
  const rows = list.items?.filter(
    (row) => needle === undefined || `${row.actor} ${row.action} ${row.target ?? ""}`.toLowerCase().includes(needle),
  );
  return (
    <Page title="Audit">
      <SearchBox
        label="Find a person, an action or a thing"
        value={q ?? ""}
        onChange={(next) => void navigate({ search: (old) => ({ ...old, q: next || undefined }), replace: true })}
        className="mb-3 w-72 max-w-full"
      />
      <ListTable
        label="Audit"
        columns={COLUMNS}
        rows={rows}
        rowId={(row) => row.id}
        query={list}
        empty={
          <Empty
            icon={<ScrollText aria-hidden />}
            title={needle ? "Nothing loaded matches" : "Nothing was changed yet"}
          />
        }
      />
    </Page>
  );
}
