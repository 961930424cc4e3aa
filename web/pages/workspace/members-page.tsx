import { useNavigate } from "@tanstack/react-router";
import { Users } from "lucide-react";
import { useState } from "react";
import { ROLES, type Role } from "../../../contracts/roles.ts";
import { type Item, useAll, useWrite } from "../../api/queries.ts";
import { useMay, useSession } from "../../api/session.ts";
import { membersRoute } from "../../routes/workspace.tsx";
import { Button } from "../../ui/button.tsx";
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

type Member = Item<"list_members">;

const ROLE_HELP: Record<Role, string> = {
  viewer: "reads, and registers runtimes and harnesses",
  member: "also submits and cancels work, and pairs own machines",
  admin: "also secrets, members, others' work, and cluster control",
};

/** Who may act in this workspace, and as what. */
export function MembersPage() {
  const search = membersRoute.useSearch();
  const navigate = useNavigate({ from: "/members" });
  const may = useMay();
  const { me } = useSession();
  const [adding, setAdding] = useState(false);
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const list = useAll("list_members");
  const refreshes = ["list_members"] as const;
  const set = useWrite("set_member", {
    refreshes,
    optimistic: (shown, { params, body }) =>
      shown.items("list_members", (members) =>
        members.map((member) => (member.subject === params?.subject ? { ...member, ...body } : member)),
      ),
  });
  const changeRole = ({ subject, role: before }: Member, role: Role, undoable = true) =>
    set.mutate(
      { params: { subject }, body: { role } },
      {
        onSuccess: () =>
          notify(
            `${subject} is now ${role}`,
            undoable ? { undo: () => changeRole({ subject, role } as Member, before, false) } : {},
          ),
      },
    );
  const remove = useWrite("remove_member", {
    quiet: true,
    refreshes,
    optimistic: (shown, { params }) =>
      shown.items("list_members", (members) => members.filter(({ subject }) => subject !== params?.subject)),
  });
  const mayWrite = may("set_member");
  const columns: readonly Column<Member>[] = [
    {
      id: "subject",
      header: "Person",
      sortBy: (member) => member.subject,
      cell: (member) => (
        <span className="flex items-center gap-2">
          <Name wrapped className="font-medium">
            {member.subject}
          </Name>
          {member.subject === me.subject && <Chip tone="accent">you</Chip>}
        </span>
      ),
    },
    {
      id: "role",
      header: "Role",
      sortBy: (member) => ROLES.indexOf(member.role),
      cell: (member) =>
        mayWrite && member.subject !== me.subject ? (
          <select
            aria-label={`Role of ${member.subject}`}
            value={member.role}
            onChange={(event) => changeRole(member, event.target.value as Role)}
            className="h-7 rounded-md border border-line-strong bg-surface px-2"
          >
            {ROLES.map((role) => (
              <option key={role}>{role}</option>
            ))}
          </select>
        ) : (
          member.role
        ),
    },
    {
      id: "can",
      header: "May",
      from: "md",
      cell: (member) => <span className="text-muted">{ROLE_HELP[member.role]}</span>,
    },
    {
      id: "since",
      header: "Since",
      numeric: true,
      from: "sm",
      sortBy: (member) => Date.parse(member.createdAt),
      cell: (member) => <Time at={member.createdAt} />,
    },
    ...(mayWrite
      ? [
          {
            id: "act",
            header: "Actions",
            quiet: true,
            numeric: true,
            cell: (member: Member) => (
              <Button
                small
                kind="quiet"
                onClick={() =>
                  setAsk({
                    title: "Remove this member?",
                    name: member.subject,
                    consequences:
                      "They lose access at once, and their personal keys stop working here. What they registered stays.",
                    verb: "Remove",
                    action: async () => {
                      await remove.mutateAsync({ params: { subject: member.subject } });
                      notify(`${member.subject} is removed`);
                    },
                  })
                }
              >
                Remove
              </Button>
            ),
          },
        ]
      : []),
  ];
  return (
    <Page
      title="Members"
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => setAdding(true)}>
            Add a member
          </Button>
        )
      }
    >
      <ListTable
        label="Members"
        columns={columns}
        rows={list.data}
        rowId={(member) => member.subject}
        query={list}
        sort={search.sort}
        onSort={(sort) => void navigate({ search: (old) => ({ ...old, sort }), replace: true })}
        empty={
          <Empty icon={<Users aria-hidden />} title="Nobody but you">
            People sign in at your identity provider; add them here by the subject it gives them.
          </Empty>
        }
      />
      {adding && <AddMember onClose={() => setAdding(false)} />}
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}

function AddMember({ onClose }: { onClose: () => void }) {
  const [subject, setSubject] = useState("");
  const [role, setRole] = useState<Role>("member");
  const add = useWrite("set_member", {
    quiet: true,
    refreshes: ["list_members"],
    onSuccess: () => {
      notify(`${subject} is a ${role}`);
      onClose();
    },
  });
  return (
    <Modal
      open
      onClose={onClose}
      title="Add a member"
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button
            kind="primary"
            busy={add.isPending}
            disabledReason={subject.trim() === "" ? "name them first" : undefined}
            onClick={() => add.mutate({ params: { subject: subject.trim() }, body: { role } })}
          >
            Add
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-4">
        <Field label="Subject" hint="As your identity provider names them; they see it when they sign in.">
          {(control) => (
            <Input {...control} mono value={subject} onChange={(event) => setSubject(event.target.value)} />
          )}
        </Field>
        <Field label="Role" hint={`A ${role} ${ROLE_HELP[role]}.`}>
          {(control) => (
            <Select {...control} value={role} onChange={(event) => setRole(event.target.value as Role)}>
              {ROLES.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </Select>
          )}
        </Field>
        {add.error !== null && <ErrorState error={add.error} />}
      </div>
    </Modal>
  );
}
