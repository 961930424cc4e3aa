import { useNavigate } from "@tanstack/react-router";
import { KeyRound } from "lucide-react";
import { useState } from "react";
import { type Item, useAll, useWrite } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { secretsRoute } from "../../routes/workspace.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { Button } from "../../ui/button.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { notify } from "../../ui/notify.ts";
import { Empty } from "../../ui/states.tsx";
import { Chip, Tag } from "../../ui/status.tsx";
import { Time } from "../../ui/time.tsx";
import { SecretDialog } from "./secret-dialog.tsx";

type Secret = Item<"list_secrets">;
type Open = { rotating: Secret } | "new" | null;

/** Names, uses and who refers to them. A value goes in and never comes out. */
export function SecretsPage() {
  const search = secretsRoute.useSearch();
  const navigate = useNavigate({ from: "/secrets" });
  const may = useMay();
  const [open, setOpen] = useState<Open>(null);
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const list = useAll("list_secrets", {}, { enabled: may("list_secrets") });
  const remove = useWrite("delete_secret", {
    quiet: true,
    refreshes: ["list_secrets", "list_secret_names"],
    optimistic: (shown, { params }) =>
      shown.items("list_secrets", (secrets) => secrets.filter(({ name }) => name !== params?.name)),
  });
  const mayWrite = may("put_secret");
  usePageActions(mayWrite ? [{ id: "new", label: "Store a secret", key: "c", run: () => setOpen("new") }] : []);
  if (!may("list_secrets"))
    return (
      <Page title="Secrets">
        <Empty icon={<KeyRound aria-hidden />} title="Secrets are for admins">
          Ask an admin of this workspace to store or rotate one. Forms still offer you the names.
        </Empty>
      </Page>
    );
  const columns: readonly Column<Secret>[] = [
    {
      id: "name",
      header: "Name",
      sortBy: (one) => one.name,
      cell: (one) => (
        <code>
          <Name wrapped className="font-medium">
            {one.name}
          </Name>
        </code>
      ),
    },
    {
      id: "use",
      header: "Use",
      sortBy: (one) => one.use ?? "",
      cell: (one) => (one.use === null ? <Chip tone="warn">none: usable by nothing</Chip> : <Chip>{one.use}</Chip>),
    },
    {
      id: "hosts",
      header: "Hosts",
      from: "md",
      cell: (one) => (
        <span className="flex gap-1">
          {one.hosts.map((host) => (
            <Tag key={host}>{host}</Tag>
          ))}
        </span>
      ),
    },
    {
      id: "usedBy",
      header: "Used by",
      from: "lg",
      cell: (one) =>
        one.usedBy.length === 0 ? (
          <span className="text-faint">nothing</span>
        ) : (
          <span title={one.usedBy.join(", ")}>
            {one.usedBy.slice(0, 2).join(", ")}
            {one.usedBy.length > 2 && ` and ${one.usedBy.length - 2} more`}
          </span>
        ),
    },
    {
      id: "source",
      header: "Kept in",
      from: "xl",
      cell: (one) => (one.source === "vault" ? "the vault" : "a Worker secret"),
    },
    {
      id: "updated",
      header: "Changed",
      numeric: true,
      from: "sm",
      sortBy: (one) => (one.updatedAt === null ? 0 : Date.parse(one.updatedAt)),
      cell: (one) => (one.updatedAt === null ? "–" : <Time at={one.updatedAt} />),
    },
    ...(mayWrite
      ? [
          {
            id: "act",
            header: "Actions",
            quiet: true,
            numeric: true,
            cell: (one: Secret) =>
              one.source === "worker" ? (
                <span className="text-xs text-faint">by deployment</span>
              ) : (
                <span className="inline-flex gap-1">
                  <Button small kind="quiet" onClick={() => setOpen({ rotating: one })}>
                    Rotate
                  </Button>
                  <Button
                    small
                    kind="quiet"
                    onClick={() =>
                      setAsk({
                        title: "Delete this secret?",
                        name: one.name,
                        consequences:
                          one.usedBy.length === 0
                            ? "Nothing refers to it."
                            : `Still referred to by ${one.usedBy.join(", ")}; their next dispatch will fail.`,
                        verb: "Delete",
                        typeName: one.usedBy.length > 0,
                        action: async () => {
                          await remove.mutateAsync({ params: { name: one.name } });
                          notify(`${one.name} is deleted`);
                        },
                      })
                    }
                  >
                    Delete
                  </Button>
                </span>
              ),
          },
        ]
      : []),
  ];
  const rotating = open !== null && open !== "new" ? open.rotating : null;
  return (
    <Page
      title="Secrets"
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => setOpen("new")}>
            Store a secret
          </Button>
        )
      }
    >
      <ListTable
        label="Secrets"
        columns={columns}
        rows={list.data}
        rowId={(one) => one.name}
        query={list}
        sort={search.sort}
        onSort={(sort) => void navigate({ search: (old) => ({ ...old, sort }), replace: true })}
        empty={
          <Empty
            icon={<KeyRound aria-hidden />}
            title="No secrets yet"
            action={
              mayWrite && (
                <Button kind="primary" onClick={() => setOpen("new")}>
                  Store a secret
                </Button>
              )
            }
          >
            Specs hold names only. A secret has one use: injected into jobs, sent to a cluster, or for image pulls.
          </Empty>
        }
      />
      {open === "new" && <SecretDialog open onClose={() => setOpen(null)} />}
      {rotating && (
        <SecretDialog
          open
          rotating
          name={rotating.name}
          use={rotating.use ?? "job"}
          hosts={rotating.hosts}
          onClose={() => setOpen(null)}
        />
      )}
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}
