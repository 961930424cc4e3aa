import { useNavigate } from "@tanstack/react-router";
import { Waypoints } from "lucide-react";
import { useState } from "react";
import { type Item, useAll, useWrite } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { relaysRoute } from "../../routes/compute.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { Button } from "../../ui/button.tsx";
import { Id } from "../../ui/copy.tsx";
import type { Column } from "../../ui/data-table.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { Page } from "../../ui/layout.tsx";
import { ListTable } from "../../ui/list-table.tsx";
import { Name } from "../../ui/name.tsx";
import { notify } from "../../ui/notify.ts";
import { Empty } from "../../ui/states.tsx";
import { Dot, Tag } from "../../ui/status.tsx";
import { Time } from "../../ui/time.tsx";
import { PairDialog } from "./pair-dialog.tsx";

type Relay = Item<"list_relays">;

const COLUMNS: readonly Column<Relay>[] = [
  {
    id: "label",
    header: "Relay",
    sortBy: (relay) => relay.label,
    cell: (relay) => (
      <span className="flex items-center gap-1">
        <Name wrapped className="font-medium">
          {relay.label}
        </Name>
        <Id id={relay.id} className="max-lg:hidden" />
      </span>
    ),
  },
  {
    id: "state",
    header: "State",
    sortBy: (relay) => (relay.online ? 0 : 1),
    cell: (relay) => (
      <span className="flex items-center gap-2">
        <Dot tone={relay.online ? "ok" : "bad"}>{relay.online ? "Online" : "Offline"}</Dot>
        <span className="text-xs text-faint">
          {relay.online ? (
            relay.hostname
          ) : relay.lastSeenAt === null ? (
            "never connected"
          ) : (
            <>
              last seen <Time at={relay.lastSeenAt} />
            </>
          )}
        </span>
      </span>
    ),
  },
  {
    id: "reaches",
    header: "May reach",
    cell: (relay) => (
      <span className="flex flex-wrap gap-1">
        {relay.contexts.map((name) => (
          <Tag key={`c ${name}`} title="context of its kubeconfig">
            context {name}
          </Tag>
        ))}
        {relay.hosts.map((name) => (
          <Tag key={`h ${name}`} title="host">
            {name}
          </Tag>
        ))}
        {relay.exec.map((name) => (
          <Tag key={`e ${name}`} title="credential plugin">
            runs {name}
          </Tag>
        ))}
        {relay.contexts.length + relay.hosts.length === 0 && <span className="text-faint">nothing yet</span>}
      </span>
    ),
  },
  {
    id: "rate",
    header: "Requests/s",
    numeric: true,
    from: "md",
    sortBy: (relay) => relay.requestsPerSec,
    cell: (relay) => relay.requestsPerSec.toFixed(1),
  },
  {
    id: "error",
    header: "Last error",
    from: "md",
    cell: (relay) =>
      relay.lastError === null ? (
        <span className="text-faint">none</span>
      ) : (
        <span className="flex items-center gap-2" title={relay.lastError.message}>
          <code className="text-xs text-bad">{relay.lastError.code}</code>
          <Time at={relay.lastError.at} className="text-xs text-faint" />
        </span>
      ),
  },
  { id: "version", header: "Version", from: "xl", cell: (relay) => relay.version ?? "–" },
];

/** Machines that carry API traffic to clusters the control plane cannot dial. */
export function RelaysPage() {
  const search = relaysRoute.useSearch();
  const navigate = useNavigate({ from: "/relays" });
  const may = useMay();
  const [pairing, setPairing] = useState(false);
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const list = useAll("list_relays", {}, { every: pairing ? 1_000 : 5_000 });
  const pair = useWrite("pair_relay", { quiet: true, refreshes: ["list_relays"] });
  const revoke = useWrite("revoke_relay", { quiet: true, refreshes: ["list_relays"] });
  const mayPair = may("pair_relay");
  usePageActions(mayPair ? [{ id: "pair", label: "Pair a relay", key: "c", run: () => setPairing(true) }] : []);
  const columns: readonly Column<Relay>[] = mayPair
    ? [
        ...COLUMNS,
        {
          id: "act",
          header: "Actions",
          quiet: true,
          numeric: true,
          cell: (relay) => (
            <Button
              small
              kind="quiet"
              onClick={() =>
                setAsk({
                  title: "Revoke this relay?",
                  name: relay.label,
                  consequences:
                    "Its connection is closed at once. Runtimes that name it cannot be reached until another relay has its label.",
                  verb: "Revoke",
                  action: async () => {
                    await revoke.mutateAsync({ params: { id: relay.id } });
                    notify(`${relay.label} is revoked`);
                  },
                })
              }
            >
              Revoke
            </Button>
          ),
        },
      ]
    : COLUMNS;
  return (
    <Page
      title="Relays"
      actions={
        mayPair && (
          <Button kind="primary" onClick={() => setPairing(true)}>
            Pair a relay
          </Button>
        )
      }
    >
      <ListTable
        label="Relays"
        columns={columns}
        rows={list.data}
        rowId={(relay) => relay.id}
        query={list}
        sort={search.sort}
        onSort={(sort) => void navigate({ search: (old) => ({ ...old, sort }), replace: true })}
        empty={
          <Empty
            icon={<Waypoints aria-hidden />}
            title="No relays yet"
            action={
              mayPair && (
                <Button kind="primary" onClick={() => setPairing(true)}>
                  Pair a relay
                </Button>
              )
            }
          >
            A relay carries API traffic to a cluster that the edge cannot dial: a private network, a private certificate
            authority, client certificates, or a kubeconfig whose credential comes from a command.
          </Empty>
        }
      />
      <PairDialog
        what="relay"
        hint="Lower-case letters, digits and hyphens; runtimes name it in their relay field."
        open={pairing}
        onClose={() => setPairing(false)}
        pair={(label) => pair.mutateAsync({ body: { label } })}
        beside={
          <>
            As it stands it may reach nothing: add <code>--allow-context NAME</code> for a context of the machine’s
            kubeconfig, or <code>--allow-host HOST:PORT</code> for a server to dial.
          </>
        }
        onlineNow={(id) => list.data?.some((relay) => relay.id === id && relay.online) ?? false}
      />
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}
