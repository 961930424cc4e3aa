import { Link } from "@tanstack/react-router";
import { CircleCheck, RotateCcw } from "lucide-react";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { Button } from "../../ui/button.tsx";
import { Empty, Skeleton } from "../../ui/states.tsx";
import { Chip } from "../../ui/status.tsx";
import { plural } from "../../ui/words.ts";
import { CLASS_WORDS } from "../runs/run-words.ts";
import { type CauseGroup, type Cell, failureGroups } from "./cells.ts";

/** Cases of a cause that are named before "show all". */
const NAMED = 8;

interface Retry {
  blocked: string | undefined;
  busy: boolean;
  run: (failureClass: string) => void;
}

/** What was not measured: by whose fault it was, then by cause, in words, with the way to run it again. */
export function Failures({
  card,
  cells,
  retry,
  onCause,
}: {
  card: Scorecard;
  cells: readonly Cell[] | undefined;
  retry: Retry | null;
  onCause: (failureClass: string, code: string) => void;
}) {
  if (cells === undefined) return <Skeleton className="h-64 w-full" />;
  const groups = failureGroups(cells);
  if (groups.length === 0)
    return (
      <div className="rounded-lg border border-line bg-surface">
        <Empty
          icon={<CircleCheck aria-hidden />}
          title={card.finishedAt === null ? "Nothing has failed so far" : "Nothing failed"}
        >
          Every run that has ended was measured. A low grade is a measurement, not a failure: see the cases that did not
          pass.
        </Empty>
      </div>
    );
  return (
    <div className="flex flex-col gap-4">
      {groups.map((group) => {
        const words = CLASS_WORDS[group.class];
        return (
          <section
            key={group.class}
            aria-label={words?.title ?? group.class}
            className="rounded-lg border border-line bg-surface"
          >
            <div className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-3 py-2">
              <h2 className="font-semibold">{words?.title ?? group.class}</h2>
              <Chip tone="bad">{plural(group.cells.length, "run")}</Chip>
              <span className="text-muted">{words?.help}</span>
              {retry && (
                <Button
                  small
                  className="ml-auto"
                  busy={retry.busy}
                  disabledReason={retry.blocked}
                  icon={<RotateCcw aria-hidden className="size-3" />}
                  onClick={() => retry.run(group.class)}
                >
                  Run these {group.cells.length.toLocaleString("en")} again
                </Button>
              )}
            </div>
            <ul className="divide-y divide-line">
              {group.causes.map((cause) => (
                <Cause key={cause.code} cause={cause} onAll={() => onCause(group.class, cause.code)} />
              ))}
            </ul>
          </section>
        );
      })}
    </div>
  );
}

function Cause({ cause, onAll }: { cause: CauseGroup; onAll: () => void }) {
  return (
    <li className="px-3 py-2.5">
      <div className="flex flex-wrap items-center gap-2">
        <code className="font-medium text-bad">{cause.code}</code>
        <span className="text-muted tabular-nums">{plural(cause.cells.length, "run")}</span>
        <Chip>{cause.retryable ? "a retry may help" : "a retry alone will not help"}</Chip>
      </div>
      <p className="mt-1 max-w-4xl break-words">{cause.message}</p>
      {cause.variants > 1 && (
        <p className="text-xs text-faint">and {plural(cause.variants - 1, "other message")} of this cause</p>
      )}
      <ul className="mt-1.5 flex flex-wrap gap-x-3 gap-y-1 text-xs">
        {cause.cells.slice(0, NAMED).map((cell) => (
          <li key={cell.runId}>
            <Link to="/runs/$id" params={{ id: cell.runId }} className="text-accent underline underline-offset-2">
              {cell.caseId}
              {cell.trial > 1 && ` (trial ${cell.trial})`}
            </Link>
          </li>
        ))}
        <li>
          <button type="button" onClick={onAll} className="rounded text-muted hover:text-ink hover:underline">
            {cause.cells.length > NAMED
              ? `show all ${cause.cells.length.toLocaleString("en")} in the list`
              : "show in the list"}
          </button>
        </li>
      </ul>
    </li>
  );
}
