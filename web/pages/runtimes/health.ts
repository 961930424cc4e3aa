import type { Item, Output } from "../../api/queries.ts";
import type { Tone } from "../../ui/status.tsx";

type Health = Item<"list_runtimes">["health"];
export type Lane = Output<"get_queue">["lanes"][number];

export interface HealthWords {
  tone: Tone;
  word: string;
  help: string;
}

const HEALTH = {
  ok: { tone: "ok", word: "Ready", help: "The last exchange worked; work starts as slots come free" },
  degraded: { tone: "warn", word: "Degraded", help: "Some calls fail; running work goes on, new work starts slower" },
  open: { tone: "bad", word: "Not answering", help: "Nothing new starts until it answers; running work is left alone" },
  unknown: { tone: "idle", word: "Not looked at", help: "Nothing has run there yet, and no test was made" },
} satisfies Record<string, HealthWords>;

/**
 * How a runtime is, in the same words on every page.
 *
 * @param lanes what its Scheduler met with: newer than the last test, and said only when it is trouble
 * @param look what an inspection just found; it is believed over an exchange of before
 */
export function healthOf(
  health: Health,
  lanes: readonly Pick<Lane, "health">[],
  look?: { reachable: boolean; detail: string },
): HealthWords {
  const trouble = (["open", "degraded"] as const).flatMap((state) =>
    lanes.filter((lane) => lane.health.state === state),
  );
  const met = trouble[0]?.health;
  const state = met?.state ?? health?.state ?? "unknown";
  if (look && !look.reachable) return { ...HEALTH.open, help: look.detail };
  if (look && (state === "unknown" || state === "open")) return { tone: "ok", word: "Answers", help: look.detail };
  return { ...HEALTH[state], help: (met ?? health)?.detail ?? HEALTH[state].help };
}

/** How a pool of machines is, or one of them. */
export const machinesOf = ({ slots }: Pick<Lane, "slots">): HealthWords =>
  slots.total > 0
    ? { tone: "ok", word: "Online", help: "Work is taken as slots come free" }
    : { tone: "idle", word: "Offline", help: "No machine of it is online; what is sent there waits" };

/** Lanes of all versions of one runtime: they share one envelope. */
export const lanesOf = (lanes: readonly Lane[], id: string): Lane[] =>
  lanes.filter(({ target }) => target.split("@", 1)[0] === id);
