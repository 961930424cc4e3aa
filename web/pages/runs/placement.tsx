import type { Run } from "../../../contracts/run.ts";
import { isTerminal } from "../../../contracts/run-states.ts";
import { useRead } from "../../api/queries.ts";
import { Id } from "../../ui/copy.tsx";
import { Facts, Panel } from "../../ui/layout.tsx";
import { ErrorState, Skeleton } from "../../ui/states.tsx";
import { Verbatim } from "./failure.tsx";

/** Where the run is or was, with what the infrastructure said about it, word for word. */
export function PlacementPanel({ run }: { run: Run }) {
  const query = useRead(
    "get_run_placement",
    { params: { id: run.id } },
    { every: isTerminal(run.status) ? () => false : 3_000 },
  );
  if (query.error) return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  if (!query.data) return <Skeleton className="h-48 w-full" />;
  const { unit, node, ranOn, state, events } = query.data;
  return (
    <Panel title="Placement">
      <Facts
        items={[
          ["Unit", unit === null ? "none yet" : <Id key="u" id={unit} label="Copy unit name" />],
          ["Node", node ?? "not known"],
          ["Ran on", ranOn ?? "not yet"],
          ["State", state],
        ]}
      />
      {events.length === 0 ? (
        <p className="mt-3 text-muted">The infrastructure has said nothing about it.</p>
      ) : (
        <Verbatim title="Events, word for word" lines={events} />
      )}
    </Panel>
  );
}
