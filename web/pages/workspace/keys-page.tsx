import { useNavigate } from "@tanstack/react-router";
import { Key } from "lucide-react";
import { useState } from "react";
import { ROLES, type Role, SCOPES, type Scope } from "../../../contracts/roles.ts";
import { type Item, type Output, useAll, useWrite } from "../../api/queries.ts";
import { useMay, useSession } from "../../api/session.ts";
import { keysRoute } from "../../routes/workspace.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { Button } from "../../ui/button.tsx";
import { CopyButton } from "../../ui/copy.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { Confirm, type Confirmation, Modal } from "../../ui/dialog.tsx";
import { Field, Input, Select } from "../../ui/field.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { notify } from "../../ui/notify.ts";
import { Empty, ErrorState } from "../../ui/states.tsx";
import { Chip } from "../../ui/status.tsx";
import { Time } from "../../ui/time.tsx";

type ApiKey = Item<"list_api_keys">;

/** Keys of programs and people; a token is shown once. */
export function KeysPage() {
  const search = keysRoute.useSearch();
  const navigate = useNavigate({ from: "/api-keys" });
  const may = useMay();
  const [making, setMaking] = useState(false);
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const list = useAll("list_api_keys");
  const revoke = useWrite("revoke_api_key", {
    quiet: true,
    refreshes: ["list_api_keys"],
    optimistic: (shown, { params }) =>
      shown.items("list_api_keys", (keys) => keys.filter(({ id }) => id !== params?.id)),
  });
  const mayMake = may("create_api_key");
  usePageActions(mayMake ? [{ id: "new", label: "Create an API key", key: "c", run: () => setMaking(true) }] : []);
  const columns: readonly Column<ApiKey>[] = [
    {
      id: "name",
      header: "Name",
      sortBy: (key) => key.name,
      cell: (key) => (
        <span className="flex items-center gap-2">
          <Name wrapped className="font-medium">
            {key.name}
          </Name>
          {key.personal && <Chip title="Acts as the person who made it">personal</Chip>}
        </span>
      ),
    },
    { id: "role", header: "Role", sortBy: (key) => key.role, cell: (key) => key.role },
    { id: "scope", header: "Scope", sortBy: (key) => key.scope, cell: (key) => key.scope },
    { id: "by", header: "Made by", from: "md", cell: (key) => <span className="text-muted">{key.createdBy}</span> },
    {
      id: "used",
      header: "Last used",
      numeric: true,
      from: "sm",
      sortBy: (key) => (key.lastUsedAt === null ? 0 : Date.parse(key.lastUsedAt)),
      cell: (key) =>
        key.lastUsedAt === null ? <span className="text-faint">never</span> : <Time at={key.lastUsedAt} />,
    },
    {
      id: "created",
      header: "Created",
      numeric: true,
      from: "sm",
      sortBy: (key) => Date.parse(key.createdAt),
      cell: (key) => <Time at={key.createdAt} />,
    },
    ...(mayMake
      ? [
          {
            id: "act",
            header: "Actions",
            quiet: true,
            numeric: true,
            cell: (key: ApiKey) => (
              <Button
                small
                kind="quiet"
                onClick={() =>
                  setAsk({
                    title: "Revoke this key?",
                    name: key.name,
                    consequences: "Whoever uses it is refused from the next request on. It cannot be brought back.",
                    verb: "Revoke",
                    action: async () => {
                      await revoke.mutateAsync({ params: { id: key.id } });
                      notify(`${key.name} is revoked`);
                    },
                  })
                }
              >
                Revoke
              </Button>
            ),
          },
        ]
      : []),
  ];
  return (
    <Page
      title="API keys"
      actions={
        mayMake && (
          <Button kind="primary" onClick={() => setMaking(true)}>
            Create an API key
          </Button>
        )
      }
    >
      <ListTable
        label="API keys"
        columns={columns}
        rows={list.data}
        rowId={(key) => key.id}
        query={list}
        sort={search.sort}
        onSort={(sort) => void navigate({ search: (old) => ({ ...old, sort }), replace: true })}
        empty={
          <Empty
            icon={<Key aria-hidden />}
            title="No API keys yet"
            action={
              mayMake && (
                <Button kind="primary" onClick={() => setMaking(true)}>
                  Create an API key
                </Button>
              )
            }
          >
            A key lets a program act in this workspace: the CLI, a CI job, an agent over MCP.
          </Empty>
        }
      />
      {making && <NewKey onClose={() => setMaking(false)} />}
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}

function NewKey({ onClose }: { onClose: () => void }) {
  const { me } = useSession();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>(me.role);
  const [scope, setScope] = useState<Scope>(me.scope === "read" ? "read" : "write");
  const [personal, setPersonal] = useState(false);
  const [made, setMade] = useState<Output<"create_api_key"> | null>(null);
  const create = useWrite("create_api_key", { quiet: true, refreshes: ["list_api_keys"], onSuccess: setMade });
  const go = () => create.mutate({ body: { name, role, scope, personal } });
  return (
    <Modal
      open
      onClose={onClose}
      title={made === null ? "Create an API key" : `${made.name} is ready`}
      footer={
        made === null ? (
          <>
            <Button onClick={onClose}>Leave it</Button>
            <Button
              kind="primary"
              busy={create.isPending}
              disabledReason={name.trim() === "" ? "name it first" : undefined}
              onClick={go}
            >
              Create
            </Button>
          </>
        ) : (
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        )
      }
    >
      {made === null ? (
        <div className="flex flex-col gap-4">
          <Field label="Name" hint="Who or what will use it.">
            {(control) => <Input {...control} value={name} onChange={(event) => setName(event.target.value)} />}
          </Field>
          <div className="grid grid-cols-2 gap-4">
            <Field label="Role" hint="Never above yours.">
              {(control) => (
                <Select {...control} value={role} onChange={(event) => setRole(event.target.value as Role)}>
                  {ROLES.slice(0, ROLES.indexOf(me.role) + 1).map((each) => (
                    <option key={each}>{each}</option>
                  ))}
                </Select>
              )}
            </Field>
            <Field label="Scope" hint="What of the role it may use.">
              {(control) => (
                <Select {...control} value={scope} onChange={(event) => setScope(event.target.value as Scope)}>
                  {SCOPES.slice(0, SCOPES.indexOf(me.scope) + 1).map((each) => (
                    <option key={each}>{each}</option>
                  ))}
                </Select>
              )}
            </Field>
          </div>
          {me.personal && (
            <label className="flex items-start gap-2">
              <input
                type="checkbox"
                className="mt-0.5 size-4"
                checked={personal}
                onChange={(event) => setPersonal(event.target.checked)}
              />
              <span>
                <span className="font-medium">Personal</span>
                <span className="block text-xs text-muted">
                  It acts as you, on your own runners too, and ends when you leave. Else it acts as the workspace.
                </span>
              </span>
            </label>
          )}
          {create.error !== null && <ErrorState error={create.error} />}
        </div>
      ) : (
        <div className="flex flex-col gap-2">
          <p>Copy it now; it is not shown again.</p>
          <div className="flex items-center gap-1 rounded-md border border-line bg-sunken p-2">
            <code className="min-w-0 flex-1 text-xs break-all">{made.token ?? "shown once, and that was before"}</code>
            {made.token !== null && <CopyButton text={made.token} label="Copy the key" />}
          </div>
        </div>
      )}
    </Modal>
  );
}
