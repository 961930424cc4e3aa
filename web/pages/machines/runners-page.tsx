import { Link, useNavigate } from "@tanstack/react-router";
import { Laptop } from "lucide-react";
import { useState } from "react";
import { type Item, useAll, useWrite } from "../../api/queries.ts";
import { useMay, useSession } from "../../api/session.ts";
import { runnersRoute } from "../../routes/compute.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { Button, buttonClass } from "../../ui/button.tsx";
import { cx } from "../../ui/class.ts";
import { CopyButton } from "../../ui/copy.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { FilterSelect } from "../../ui/field.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { notify } from "../../ui/notify.ts";
import { Empty } from "../../ui/states.tsx";
import { Dot, Tag } from "../../ui/status.tsx";
import { Tabs } from "../../ui/tabs.tsx";
import { Time } from "../../ui/time.tsx";
import { PairDialog } from "./pair-dialog.tsx";

type Runner = Item<"list_runners">;

const COLUMNS: readonly Column<Runner>[] = [
  {
    id: "label",
    header: "Machine",
    sortBy: (runner) => runner.label,
    cell: (runner) => (
      <span className="flex items-center gap-1">
        <Name wrapped className="font-medium">
          {runner.label}
        </Name>
        <code className="text-xs text-faint max-lg:hidden">{runner.id}</code>
        <CopyButton text={`self:${runner.id}`} label={`Copy the target of ${runner.label}`} />
      </span>
    ),
  },
  {
    id: "state",
    header: "State",
    sortBy: (runner) => (runner.online ? (runner.running.length > 0 ? 0 : 1) : 2),
    cell: (runner) =>
      runner.online ? (
        runner.running.length > 0 ? (
          <span className="flex items-center gap-2">
            <Dot tone="info">Busy</Dot>
            {runner.running.slice(0, 2).map(({ runId }, at) => (
              <Link
                key={runId}
                to="/runs/$id"
                params={{ id: runId }}
                title={runId}
                className={cx("inline-flex h-6 items-center font-mono text-xs underline", at > 0 && "max-sm:hidden")}
              >
                {runId.slice(-6)}
              </Link>
            ))}
            {runner.running.length > 2 && (
              <span className="text-faint max-sm:hidden">+{runner.running.length - 2}</span>
            )}
            {runner.running.length > 1 && <span className="text-faint sm:hidden">+{runner.running.length - 1}</span>}
          </span>
        ) : (
          <Dot tone="ok">Idle</Dot>
        )
      ) : (
        <span className="flex items-center gap-2">
          <Dot tone="idle">Offline</Dot>
          <span className="text-xs text-faint">
            {runner.lastSeenAt === null ? "never connected" : <Time at={runner.lastSeenAt} />}
          </span>
        </span>
      ),
  },
  {
    id: "slots",
    header: "Slots",
    numeric: true,
    from: "sm",
    cell: (runner) => (runner.online ? `${runner.slots.total - runner.slots.free} / ${runner.slots.total}` : "–"),
  },
  {
    id: "capabilities",
    header: "Capabilities",
    from: "md",
    cell: (runner) => (
      <span className="flex gap-1">
        {[...runner.capabilities, ...runner.labels.map((label) => `#${label}`)].map((name) => (
          <Tag key={name}>{name}</Tag>
        ))}
      </span>
    ),
  },
  {
    id: "platform",
    header: "Platform",
    from: "lg",
    cell: (runner) => (runner.os === null ? "–" : `${runner.os}/${runner.arch}`),
  },
  { id: "version", header: "Version", from: "xl", cell: (runner) => runner.version ?? "–" },
  {
    id: "paired",
    header: "Paired",
    numeric: true,
    from: "xl",
    sortBy: (runner) => Date.parse(runner.createdAt),
    cell: (runner) => <Time at={runner.createdAt} />,
  },
];

/** Machines that take jobs over the lease protocol: the caller's own, and the workspace's. */
export function RunnersPage() {
  const search = runnersRoute.useSearch();
  const navigate = useNavigate({ from: "/runners" });
  const may = useMay();
  // Machines of one's own are a person's; a key of the workspace has none.
  const { personal } = useSession().me;
  const usual = personal ? "mine" : "workspace";
  const whose = search.whose ?? usual;
  const [pairing, setPairing] = useState(false);
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const every = pairing ? 1_000 : 3_000;
  const mine = useAll("list_runners", {}, { every, enabled: whose === "mine" });
  const shared = useAll("list_workspace_runners", {}, { every, enabled: whose === "workspace" });
  const list = whose === "mine" ? mine : shared;
  const refreshes = ["list_runners", "list_workspace_runners"] as const;
  const pairMine = useWrite("pair_runner", { quiet: true, refreshes });
  const pairShared = useWrite("pair_workspace_runner", { quiet: true, refreshes });
  const revokeMine = useWrite("revoke_runner", { quiet: true, refreshes });
  const revokeShared = useWrite("revoke_workspace_runner", { quiet: true, refreshes });
  const mayPair = whose === "mine" ? personal && may("pair_runner") : may("pair_workspace_runner");
  usePageActions(mayPair ? [{ id: "pair", label: "Pair a machine", key: "c", run: () => setPairing(true) }] : []);
  const revoke = (runner: Runner) =>
    setAsk({
      title: "Revoke this runner?",
      name: runner.label,
      consequences:
        runner.running.length > 0
          ? `Its token stops working at once. Its ${runner.running.length} running jobs end as infrastructure failures and are retried where retries are left.`
          : "Its token stops working at once.",
      verb: "Revoke",
      action: async () => {
        await (whose === "mine" ? revokeMine : revokeShared).mutateAsync({ params: { id: runner.id } });
        notify(`${runner.label} is revoked`);
      },
    });
  const columns: readonly Column<Runner>[] = mayPair
    ? [
        ...COLUMNS,
        {
          id: "act",
          header: "Actions",
          quiet: true,
          numeric: true,
          cell: (runner) => (
            <Button small kind="quiet" onClick={() => revoke(runner)}>
              Revoke
            </Button>
          ),
        },
      ]
    : COLUMNS;
  const rows = list.data?.filter(({ online }) => online || search.offline !== "hide");
  return (
    <Page
      title="Runners"
      actions={
        mayPair && (
          <Button kind="primary" onClick={() => setPairing(true)}>
            Pair a machine
          </Button>
        )
      }
      tabs={
        <Tabs
          label="Whose"
          value={whose}
          onChange={(next) =>
            void navigate({ search: (old) => ({ ...old, whose: next === usual ? undefined : next }), replace: true })
          }
          tabs={[
            { id: "mine", label: "My machines" },
            { id: "workspace", label: "The workspace's" },
          ]}
        />
      }
    >
      <div id={`panel-${whose}`} role="tabpanel" aria-labelledby={`tab-${whose}`}>
        <div className="mb-3">
          <FilterSelect
            label="Offline"
            usual="shown"
            value={search.offline}
            options={[{ value: "hide", label: "hidden" }]}
            onChange={(offline) => void navigate({ search: (old) => ({ ...old, offline }), replace: true })}
          />
        </div>
        <ListTable
          label="Runners"
          columns={columns}
          rows={rows}
          rowId={(runner) => runner.id}
          query={list}
          sort={search.sort}
          onSort={(sort) => void navigate({ search: (old) => ({ ...old, sort }), replace: true })}
          empty={
            <Empty
              icon={<Laptop aria-hidden />}
              title={whose === "mine" ? "No machine of yours is paired" : "The workspace has no runners"}
              action={
                mayPair && (
                  <Button kind="primary" onClick={() => setPairing(true)}>
                    Pair a machine
                  </Button>
                )
              }
            >
              A runner takes jobs to a machine that nothing needs to reach: it asks for work itself.{" "}
              {whose === "mine"
                ? personal
                  ? "Only you can send jobs to yours."
                  : "You act as the workspace: pair one of the workspace's, or sign in as a person for your own."
                : "Everybody in the workspace can send jobs to these."}
            </Empty>
          }
        />
      </div>
      <PairDialog
        what="machine"
        hint="How you will recognise the machine."
        open={pairing}
        onClose={() => setPairing(false)}
        pair={(label) => (whose === "mine" ? pairMine : pairShared).mutateAsync({ body: { label } })}
        onlineNow={(id) => list.data?.some((runner) => runner.id === id && runner.online) ?? false}
        connected={(id) =>
          may("run_scorecard") && (
            <Link to="/scorecards/new" search={{ runtime: `self:${id}` }} className={buttonClass("normal", true)}>
              Run a scorecard on it
            </Link>
          )
        }
      />
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}
