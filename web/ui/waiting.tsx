import { Clock, TriangleAlert, Unplug } from "lucide-react";
import type { Waiting, WaitReason } from "../../contracts/run.ts";
import { cx } from "./class.ts";
import { duration } from "./words.ts";

/**
 * never: nothing that is there can run it, somebody must act; silent: what could run it does not answer; turn: it waits
 * normally.
 */
export type WaitTier = "never" | "silent" | "turn";

interface WaitWords {
  short: string;
  tier: WaitTier;
  title: string;
  next: string;
}

const WORDS: Record<WaitReason, WaitWords> = {
  slots: {
    short: "waits for a slot",
    tier: "turn",
    title: "Waiting for a free slot",
    next: "It starts by itself when a run before it ends.",
  },
  memory: {
    short: "waits for memory",
    tier: "turn",
    title: "Waiting for memory",
    next: "It starts when enough of the memory budget is free. A larger memoryBudgetMb admits more at once.",
  },
  cpu: {
    short: "waits for CPU",
    tier: "turn",
    title: "Waiting for CPU",
    next: "It starts when enough of the CPU budget is free.",
  },
  quota: {
    short: "waits for quota",
    tier: "turn",
    title: "Waiting for the workspace's own limit",
    next: "It starts when one of the workspace's runs ends. An operator can raise maxInFlight.",
  },
  concurrency: {
    short: "held by its scorecard",
    tier: "turn",
    title: "Held back by its scorecard's concurrency",
    next: "The scorecard hands over the next case when one of its runs ends.",
  },
  reservation: {
    short: "behind a larger run",
    tier: "turn",
    title: "Room is held back for a larger run",
    next: "The larger run has waited long; it goes first, then this one.",
  },
  backoff: {
    short: "waits to try again",
    tier: "turn",
    title: "Waiting before the next attempt",
    next: "The last attempt failed for a reason that often passes; the next one follows by itself.",
  },
  cluster: {
    short: "waits in the cluster",
    tier: "turn",
    title: "Handed to the cluster, not started yet",
    next: "The cluster's own scheduler has it; below are its words.",
  },
  "no-runner": {
    short: "no runner for it",
    tier: "silent",
    title: "Those who could run it are not answering",
    next: "Start the runner on its machine, or pair another one.",
  },
  circuit: {
    short: "runtime is down",
    tier: "silent",
    title: "The runtime does not answer",
    next: "We try again by ourselves; nothing is lost. Check the runtime if it lasts.",
  },
  "relay-offline": {
    short: "relay is offline",
    tier: "silent",
    title: "The relay to the runtime is offline",
    next: "Start the relay on its machine.",
  },
  "secrets-unavailable": {
    short: "secrets unreadable",
    tier: "silent",
    title: "Its secrets cannot be read at the moment",
    next: "It starts as soon as the store of secrets answers again.",
  },
};

const LACKS: WaitWords = {
  short: "nothing can run it",
  tier: "never",
  title: "Nothing that is online can run this",
  next: "Start a machine that has what is missing, or change what the case asks for.",
};

/** The words for a reason. A runner that is there and lacks something is not one that is silent. */
export function waitWords({ reason, detail }: Pick<Waiting, "reason" | "detail">): WaitWords {
  if (reason === "no-runner" && / lacks |large enough/.test(detail)) return LACKS;
  return (
    WORDS[reason] ?? {
      short: reason,
      tier: "turn",
      title: `Waiting: ${reason}`,
      next: "It starts when this has passed.",
    }
  );
}

const ICONS = { never: TriangleAlert, silent: Unplug, turn: Clock };
const LOOK = { never: "text-bad", silent: "text-warn", turn: "text-info" };
const BOX = { never: "bg-bad-soft", silent: "bg-warn-soft", turn: "bg-info-soft" };

/** The reason in two or three words, for a table. */
export function WaitingWord({ waiting }: { waiting: Waiting }) {
  const { short, tier } = waitWords(waiting);
  return (
    <span className={cx("truncate text-xs", tier === "turn" ? "text-muted" : LOOK[tier])} title={waiting.detail}>
      {waiting.position !== null && <span className="tabular-nums">#{waiting.position} · </span>}
      {short}
    </span>
  );
}

/** Why a run waits, what would unblock it, where it stands and for how long. */
export function WaitingPanel({ waiting, since }: { waiting: Waiting; since: string | null }) {
  const { tier, title, next } = waitWords(waiting);
  const Icon = ICONS[tier];
  return (
    <section aria-label="Why it waits" className={cx("flex gap-3 rounded-lg border border-line p-3", BOX[tier])}>
      <Icon aria-hidden className={cx("mt-0.5 size-4 shrink-0", LOOK[tier])} />
      <div className="min-w-0 flex-1">
        <h2 className={cx("font-semibold", LOOK[tier])}>{title}</h2>
        <p className="mt-0.5 break-words">{waiting.detail}</p>
        <p className="mt-1 text-muted">{next}</p>
        <p className="mt-1.5 flex flex-wrap gap-x-3 text-xs text-muted tabular-nums">
          {waiting.position !== null && <span>position {waiting.position}</span>}
          {waiting.etaSec !== null && (
            <span>about {duration(waiting.etaSec * 1_000)} to go, by what runs took so far</span>
          )}
          {since}
        </p>
      </div>
    </section>
  );
}
