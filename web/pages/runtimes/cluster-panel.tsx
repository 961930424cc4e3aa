import { RefreshCw, Square, TriangleAlert } from "lucide-react";
import { useState } from "react";
import type { Amount, ControlRequest, Inspection, NodeView, WorkloadView } from "../../../contracts/inspection.ts";
import { useRead, useWrite } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Button } from "../../ui/button.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { Figure, Panel } from "../../ui/layout.tsx";
import { Meter } from "../../ui/meter.tsx";
import { notify } from "../../ui/notify.ts";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";
import { Chip, Dot } from "../../ui/status.tsx";
import { Time } from "../../ui/time.tsx";
import { memory } from "../../ui/words.ts";

/** How often a watched cluster is read; never while the page is hidden or a dialog is open. */
const REFRESH_MS = 20_000;

const figure = (value: number): string => value.toLocaleString("en", { maximumFractionDigits: 0 });

function AmountMeter({ label, amount, write }: { label: string; amount: Amount; write: (value: number) => string }) {
  return amount.used === null ? (
    <span className="text-xs text-muted tabular-nums" title="The cluster does not measure what is used">
      {write(amount.total)}
    </span>
  ) : (
    <Meter
      label={label}
      value={amount.used}
      max={amount.total}
      text={`${write(amount.used)} / ${write(amount.total)}`}
    />
  );
}

/** The live state of a runtime's cluster, and what an admin may do to it. */
export function ClusterPanel({ id, version, paused }: { id: string; version: string; paused: boolean }) {
  const may = useMay();
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const query = useRead(
    "inspect_runtime",
    { params: { id, version } },
    { every: () => (paused || ask !== null ? false : REFRESH_MS), staleTime: REFRESH_MS },
  );
  const control = useWrite("control_runtime", {
    quiet: true,
    refreshes: ["inspect_runtime"],
    onSuccess: ({ detail }) => notify(detail),
  });
  const look = query.data;
  if (look === undefined)
    return query.error ? (
      <ErrorState error={query.error} retry={() => void query.refetch()} />
    ) : (
      <Skeleton className="h-80 w-full" />
    );
  const admin = may("control_runtime");
  const act = (confirmation: Omit<Confirmation, "action">, body: ControlRequest) =>
    setAsk({ ...confirmation, action: () => control.mutateAsync({ params: { id, version }, body }) });
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <Dot tone={look.reachable ? "ok" : "bad"}>{look.reachable ? "It answers" : "It does not answer"}</Dot>
        <span className="text-muted">{look.detail}</span>
        <span className="ml-auto flex items-center gap-2 text-xs text-faint">
          seen <Time at={look.readAt} />
          <Button
            small
            kind="quiet"
            busy={query.isFetching}
            icon={<RefreshCw aria-hidden className="size-3" />}
            onClick={() => void query.refetch()}
          >
            Look again
          </Button>
        </span>
      </div>
      {look.warnings.length > 0 && (
        <ul className="flex flex-col gap-1 rounded-md border border-line bg-warn-soft p-3">
          {look.warnings.map((warning) => (
            <li key={warning} className="flex gap-2">
              <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-warn" />
              {warning}
            </li>
          ))}
        </ul>
      )}
      <Totals look={look} />
      {look.nodes !== null && (
        <Panel
          title={`Nodes (${look.nodes.length}${look.nodesTotal !== null && look.nodesTotal > look.nodes.length ? ` of ${look.nodesTotal}` : ""})`}
          flush
        >
          <DataTable
            label="Nodes"
            columns={nodeColumns(
              look,
              admin && look.kind !== "local"
                ? (node) =>
                    act(
                      {
                        title: node.schedulable ? "Cordon this node?" : "Let new work back on this node?",
                        name: node.name,
                        consequences: node.schedulable
                          ? "No new work starts on it; what runs there goes on. Work of others is kept off too."
                          : "The cluster may place new work there again.",
                        verb: node.schedulable ? "Cordon" : "Uncordon",
                      },
                      { action: "cordonNode", node: node.name, cordoned: node.schedulable },
                    )
                : undefined,
            )}
            rows={look.nodes}
            rowId={(node) => node.name}
            empty={<Empty title="The cluster has no nodes" />}
          />
        </Panel>
      )}
      {look.workload !== null && (
        <Panel
          title={`Workload (${look.workload.length}${look.workloadTotal !== null && look.workloadTotal > look.workload.length ? ` of ${look.workloadTotal}` : ""})`}
          flush
          actions={
            admin &&
            look.kind !== "local" && (
              <>
                <Button
                  small
                  onClick={() =>
                    act(
                      {
                        title: "Reclaim what is idle?",
                        name: id,
                        consequences: "Units of ours that no live attempt needs are removed.",
                        verb: "Reclaim",
                      },
                      { action: "reclaimIdle" },
                    )
                  }
                >
                  Reclaim idle
                </Button>
                {look.kind === "k8s" && (
                  <Button
                    small
                    onClick={() =>
                      act(
                        {
                          title: "Purge ended units?",
                          name: id,
                          consequences: "Ended Jobs of ours whose result is stored are deleted from the cluster.",
                          verb: "Purge",
                        },
                        { action: "purgeTerminal" },
                      )
                    }
                  >
                    Purge ended
                  </Button>
                )}
              </>
            )
          }
        >
          <DataTable
            label="Workload"
            columns={workloadColumns(
              admin && look.kind !== "local"
                ? (unit) =>
                    act(
                      {
                        title: "Stop this unit?",
                        name: unit.unit,
                        consequences: unit.ours
                          ? "Its attempt ends as an infrastructure failure and may be retried."
                          : "It is not one of ours; this works only where the runtime allows external control.",
                        verb: "Stop it",
                      },
                      { action: "stopWorkload", workload: unit.unit },
                    )
                : undefined,
            )}
            rows={look.workload}
            rowId={(unit) => unit.name}
            empty={<Empty title="Nothing runs there" />}
          />
        </Panel>
      )}
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </div>
  );
}

function Totals({ look }: { look: Inspection }) {
  if (look.capacity === null && look.cluster === null) return null;
  const { capacity, units } = look;
  const used = (amount: Amount, write: (value: number) => string) =>
    amount.used === null ? "use is not measured" : `${write(amount.used)} used`;
  return (
    <div className="flex flex-wrap gap-x-8 gap-y-3 rounded-lg border border-line bg-surface p-3">
      {look.cluster && (
        <Figure name="Version" value={look.cluster.version} note={`namespace ${look.cluster.namespace}`} />
      )}
      {look.nodesTotal !== null && (
        <Figure
          name="Nodes"
          value={figure(look.nodesTotal)}
          note={`${look.nodes?.filter(({ ready }) => !ready).length ?? 0} not ready`}
        />
      )}
      {capacity && (
        <>
          <Figure name={`CPU, ${units.cpu}`} value={figure(capacity.cpu.total)} note={used(capacity.cpu, figure)} />
          <Figure name="Memory" value={memory(capacity.memoryMb.total)} note={used(capacity.memoryMb, memory)} />
          <Figure name="GPUs" value={figure(capacity.gpu.total)} note={used(capacity.gpu, figure)} />
        </>
      )}
    </div>
  );
}

function nodeColumns(look: Inspection, cordon: ((node: NodeView) => void) | undefined): readonly Column<NodeView>[] {
  return [
    { id: "name", header: "Node", cell: (node) => <span className="font-medium">{node.name}</span> },
    {
      id: "state",
      header: "State",
      cell: (node) => (
        <span className="flex gap-1.5">
          <Dot tone={node.ready ? "ok" : "bad"}>{node.ready ? "Ready" : "Not ready"}</Dot>
          {!node.schedulable && <Chip tone="warn">cordoned</Chip>}
        </span>
      ),
    },
    {
      id: "cpu",
      header: `CPU (${look.units.cpu})`,
      from: "md",
      cell: (node) => <AmountMeter label="CPU" amount={node.cpu} write={figure} />,
    },
    {
      id: "memory",
      header: "Memory",
      from: "md",
      cell: (node) => <AmountMeter label="Memory" amount={node.memoryMb} write={memory} />,
    },
    {
      id: "disk",
      header: "Disk",
      from: "xl",
      cell: (node) => (node.diskMb ? <AmountMeter label="Disk" amount={node.diskMb} write={memory} /> : "–"),
    },
    {
      id: "gpu",
      header: "GPUs",
      from: "lg",
      cell: (node) => <AmountMeter label="GPUs" amount={node.gpu} write={figure} />,
    },
    {
      id: "platform",
      header: "Platform",
      from: "xl",
      cell: (node) => (
        <span
          className="text-muted"
          title={[node.kernel, node.containerRuntime ?? "no container engine answers", node.agentVersion].join(", ")}
        >
          {node.os}/{node.arch}
        </span>
      ),
    },
    ...(cordon
      ? [
          {
            id: "act",
            header: "Actions",
            quiet: true,
            numeric: true,
            cell: (node: NodeView) => (
              <Button small kind="quiet" onClick={() => cordon(node)}>
                {node.schedulable ? "Cordon" : "Uncordon"}
              </Button>
            ),
          },
        ]
      : []),
  ];
}

function workloadColumns(stop: ((unit: WorkloadView) => void) | undefined): readonly Column<WorkloadView>[] {
  return [
    { id: "name", header: "Unit", cell: (unit) => <code className="text-xs">{unit.name}</code> },
    { id: "role", header: "Role", cell: (unit) => <Chip tone={unit.ours ? "accent" : "idle"}>{unit.role}</Chip> },
    { id: "state", header: "State", cell: (unit) => unit.state },
    { id: "node", header: "Node", from: "md", cell: (unit) => unit.node ?? "–" },
    {
      id: "since",
      header: "Since",
      numeric: true,
      from: "sm",
      cell: (unit) => (unit.since === null ? "–" : <Time at={unit.since} />),
    },
    ...(stop
      ? [
          {
            id: "act",
            header: "Actions",
            quiet: true,
            numeric: true,
            cell: (unit: WorkloadView) => (
              <Button
                small
                kind="quiet"
                icon={<Square aria-hidden className="size-3" />}
                disabledReason={unit.role === "other" && !unit.ours ? "it is not one of ours" : undefined}
                onClick={() => stop(unit)}
              >
                Stop
              </Button>
            ),
          },
        ]
      : []),
  ];
}
