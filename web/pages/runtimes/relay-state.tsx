import { Link } from "@tanstack/react-router";
import type { Item } from "../../api/queries.ts";
import { Dot } from "../../ui/status.tsx";

type Relay = NonNullable<Item<"list_runtimes">["relay"]>;

/** The relay that a runtime names, and how it is; one without an id is not paired in the workspace at all. */
export function RelayState({ relay: { name, id, online, lastError } }: { relay: Relay }) {
  const word = id === null ? "not paired" : online ? "online" : "offline";
  return (
    <Link to="/relays" className="hover:underline">
      <Dot tone={online ? "ok" : "bad"} title={id === null ? (lastError ?? undefined) : undefined}>
        relay {name} {word}
      </Dot>
    </Link>
  );
}
