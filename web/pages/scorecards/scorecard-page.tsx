import { Link, useNavigate } from "@tanstack/react-router";
import { Ban, GitCompare, RefreshCw, RotateCcw } from "lucide-react";
import { useState } from "react";
import { isTerminal } from "../../../contracts/run-states.ts";
import type { Scorecard } from "../../../contracts/scorecard.ts";
import { useRead, useWrite } from "../../api/queries.ts";
import { useMay, useSession } from "../../api/session.ts";
import { type ShownStatus, scorecardRoute } from "../../routes/evaluate.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { ApiCall } from "../../ui/api-call.tsx";
import { Button, buttonClass } from "../../ui/button.tsx";
import { Id } from "../../ui/copy.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { Figure, Page } from "../../ui/layout.tsx";
import { DistributionBar, type Segment } from "../../ui/meter.tsx";
import { notify } from "../../ui/notify.ts";
import { ErrorState, Skeleton } from "../../ui/states.tsx";
import { Chip, Status, statusWord } from "../../ui/status.tsx";
import { TabPanel, Tabs } from "../../ui/tabs.tsx";
import { Elapsed, Time } from "../../ui/time.tsx";
import { waitWords } from "../../ui/waiting.tsx";
import { duration, percent, plural, score } from "../../ui/words.ts";
import { CaseTable } from "./case-table.tsx";
import { type Cell, countBy, titleOf } from "./cells.ts";
import { Durations } from "./durations.tsx";
import { Failures } from "./failures.tsx";
import { HeatGrid } from "./heat-grid.tsx";
import { RateBar, shownStatus, unmeasured } from "./progress.tsx";
import { useScorecard } from "./use-scorecard.ts";

type TabId = "cases" | "failures" | "heat" | "durations";

/** One scorecard: its result as it forms, every case, what failed and why. */
export function ScorecardPage() {
  const { id } = scorecardRoute.useParams();
  const search = scorecardRoute.useSearch();
  const navigate = useNavigate({ from: "/scorecards/$id" });
  const { me } = useSession();
  const may = useMay();
  const { card, cells, error, retry, live } = useScorecard(id);
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const refreshes = ["get_scorecard", "get_scorecard_grid", "list_scorecards", "list_runs", "get_queue"] as const;
  const cancel = useWrite("cancel_scorecard", { refreshes, quiet: true });
  const again = useWrite("retry_scorecard", {
    refreshes,
    onSuccess: () => notify("Running again", { detail: "New runs take the place of those that were not measured." }),
  });
  const set = (change: Partial<typeof search>, keep = true) =>
    void navigate({ search: (old) => ({ ...(keep ? old : {}), ...change }), replace: true });
  const tab: TabId = search.tab ?? "cases";
  const open = card !== undefined && !isTerminal(card.status);
  const cancellable = open && may("cancel_scorecard") && (card.createdBy === me.subject || me.role === "admin");
  const retriable =
    card !== undefined && !open && may("retry_scorecard") ? unmeasured(card) + card.progress.cancelled : 0;
  const askCancel = () =>
    card &&
    setAsk({
      title: "Cancel this scorecard?",
      name: `${titleOf(card)} · ${card.id}`,
      consequences: `${plural(card.progress.queued + card.progress.running, "run")} that have not ended are cancelled. What was measured stays.`,
      verb: "Cancel the scorecard",
      action: () => cancel.mutateAsync({ params: { id } }),
    });
  const retryAll = () => again.mutate({ params: { id } });
  usePageActions([
    ...(cancellable ? [{ id: "cancel", label: "Cancel this scorecard", key: "x", run: askCancel }] : []),
    ...(retriable > 0 ? [{ id: "retry", label: "Run again what was not measured", run: retryAll }] : []),
    { id: "failures", label: "Show failures", key: "f", run: () => set({ tab: "failures" }) },
    { id: "cases", label: "Show cases", key: "c", run: () => set({ tab: undefined }) },
    { id: "heat", label: "Show the heat grid", key: "h", run: () => set({ tab: "heat" }) },
  ]);
  const failed = cells?.filter(({ shown }) => shown === "failed").length;
  return (
    <Page
      title={card ? titleOf(card) : "Scorecard"}
      heading={
        <>
          <span role="status" aria-live="polite">
            {card && <Status status={shownStatus(card)} />}
          </span>
          <Id id={id} />
        </>
      }
      crumbs={[{ label: "Scorecards", to: "/scorecards" }]}
      actions={
        <>
          {card !== undefined && (live === "reconnecting" || live === "polling") && (
            <span role="status" className="inline-flex items-center gap-1 text-xs text-warn">
              <RefreshCw aria-hidden className="size-3.5 animate-spin" />
              {live === "polling" ? "live updates are off, asking instead" : "reconnecting"}
            </span>
          )}
          <ApiCall name="get_scorecard" input={{ params: { id } }} />
          {card && !open && (
            <Link to="/scorecards/compare" search={{ b: id }} className={buttonClass()}>
              <GitCompare aria-hidden className="size-3.5" />
              Compare
            </Link>
          )}
          {card && may("run_scorecard") && (
            <Link
              to="/scorecards/new"
              search={{
                dataset: `${card.dataset.id}@${card.dataset.version}`,
                harness: `${card.harness.id}@${card.harness.version}`,
                runtime: card.targets.join(","),
              }}
              className={buttonClass()}
            >
              <RotateCcw aria-hidden className="size-3.5" />
              Run like this
            </Link>
          )}
          {cancellable && (
            <Button kind="danger" icon={<Ban aria-hidden className="size-3.5" />} onClick={askCancel}>
              Cancel
            </Button>
          )}
        </>
      }
      tabs={
        <Tabs<TabId>
          label="Scorecard"
          value={tab}
          onChange={(next) => set({ tab: next === "cases" ? undefined : next })}
          tabs={[
            { id: "cases", label: "Cases", count: card && Math.round(card.progress.total / card.trials) },
            { id: "failures", label: "Failures", count: failed },
            { id: "heat", label: "Heat grid" },
            { id: "durations", label: "Durations" },
          ]}
        />
      }
    >
      {card === undefined ? (
        error ? (
          <ErrorState error={error} retry={retry} />
        ) : (
          <Skeleton className="h-[7.6rem] w-full" />
        )
      ) : (
        <Summary
          card={card}
          cells={cells}
          selected={search.status}
          onSelect={(status) => set({ status, tab: undefined })}
        />
      )}
      <TabPanel id={tab} className="mt-4">
        {card === undefined ? (
          error === null && <Skeleton className="h-96 w-full" />
        ) : error !== null && cells === undefined ? (
          <ErrorState error={error} retry={retry} />
        ) : (
          <>
            {tab === "cases" && <CaseTable card={card} cells={cells} search={search} onSearch={set} />}
            {tab === "failures" && (
              <Failures
                card={card}
                cells={cells}
                retry={
                  may("retry_scorecard")
                    ? {
                        blocked: open ? "it is still running" : undefined,
                        busy: again.isPending,
                        run: (failureClass) =>
                          again.mutate({ params: { id }, query: { class: failureClass } as never }),
                      }
                    : null
                }
                onCause={(failureClass, code) =>
                  set({ tab: undefined, class: failureClass as never, q: code, status: undefined })
                }
              />
            )}
            {tab === "heat" && <HeatGrid card={card} cells={cells} />}
            {tab === "durations" && <Durations cells={cells} />}
          </>
        )}
      </TabPanel>
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}

const SEGMENTS: readonly ShownStatus[] = ["passed", "not-passed", "failed", "cancelled", "running", "queued"];

/** The result as it is now, and the distribution of all runs; a segment filters the cases. */
function Summary({
  card,
  cells,
  selected,
  onSelect,
}: {
  card: Scorecard;
  cells: readonly Cell[] | undefined;
  selected: ShownStatus | undefined;
  onSelect: (status: ShownStatus | undefined) => void;
}) {
  const { progress, summary } = card;
  const counts = cells
    ? countBy(cells)
    : {
        queued: progress.queued,
        running: progress.running,
        passed: progress.succeeded,
        "not-passed": 0,
        failed: progress.failed,
        cancelled: progress.cancelled,
      };
  const measured = counts.passed + counts["not-passed"];
  const rate = summary?.passRate ?? (measured === 0 ? null : counts.passed / measured);
  const segments: Segment[] = SEGMENTS.map((id) => {
    const { word, tone } = statusWord(id);
    return { id, label: word, tone, count: counts[id], rest: id === "queued" };
  });
  const lost = unmeasured(card);
  return (
    <section aria-label="Result" className="flex flex-col gap-4">
      <div className="flex flex-wrap gap-x-8 gap-y-3">
        <Figure
          name="Pass rate"
          value={rate === null ? "–" : percent(rate)}
          note={
            summary?.passRateInterval ? (
              <span className="flex items-center gap-1.5">
                <RateBar rate={rate ?? 0} interval={summary.passRateInterval} />
                {percent(Math.round(summary.passRateInterval[0] * 1000) / 1000)} to{" "}
                {percent(Math.round(summary.passRateInterval[1] * 1000) / 1000)}
              </span>
            ) : rate === null ? (
              "nothing measured yet"
            ) : (
              "so far"
            )
          }
        />
        <Figure
          name="Mean score"
          value={score(summary?.meanScore)}
          note={summary ? `of ${plural(summary.measured, "measured run")}` : "when it has ended"}
        />
        <Figure
          name="Median, p95"
          value={
            summary?.durationMs.p50 == null
              ? "–"
              : `${duration(summary.durationMs.p50)}, ${duration(summary.durationMs.p95 ?? summary.durationMs.p50)}`
          }
          note="of measured runs"
        />
        <Figure
          name="Not measured"
          value={lost === 0 ? "0" : <span className="text-bad">{lost.toLocaleString("en")}</span>}
          note={
            summary
              ? Object.entries(summary.failedByClass)
                  .filter(([, count]) => count > 0)
                  .map(([name, count]) => `${count} ${name}`)
                  .join(", ")
              : ""
          }
        />
        <Figure
          name={card.finishedAt === null ? "Running for" : "Took"}
          value={<Elapsed from={card.createdAt} to={card.finishedAt} />}
          note={
            <>
              <Time at={card.createdAt} /> by {card.createdBy}
            </>
          }
        />
        <div className="min-w-0">
          <div className="text-xs text-muted">Runs on</div>
          <div className="mt-1 flex flex-wrap gap-1">
            {card.targets.map((target) => (
              <Chip key={target}>{target}</Chip>
            ))}
          </div>
          <div className="mt-1 text-xs text-faint">
            {card.concurrency} at once, {plural(card.trials, "trial")}, {plural(card.retries, "retry", "retries")}
          </div>
        </div>
      </div>
      <DistributionBar
        label="Runs by state"
        segments={segments}
        selected={selected}
        onSelect={(segment) => onSelect(segment as ShownStatus | undefined)}
      />
      {card.finishedAt === null && <WhyWaiting card={card} />}
    </section>
  );
}

/** Why the first waiting run has not started: one line that is always there, so that nothing moves when it has words. */
function WhyWaiting({ card }: { card: Scorecard }) {
  const query = useRead(
    "list_scorecard_runs",
    { params: { id: card.id }, query: { status: "queued", limit: 20 } },
    { every: 4_000, enabled: card.progress.queued > 0, keep: true },
  );
  // What stands in a queue says more than what its scorecard holds back.
  const waiting = query.data?.items.filter((run) => run.waiting !== null) ?? [];
  const run = waiting.find((each) => each.waiting?.reason !== "concurrency") ?? waiting[0];
  const words = run?.waiting ? waitWords(run.waiting) : null;
  return (
    <p className="-mt-2 flex min-h-6 min-w-0 items-center gap-x-2 gap-y-1 max-md:flex-wrap" role="status">
      {run?.waiting && words && card.progress.queued > 0 ? (
        <>
          <Chip tone={words.tier === "never" ? "bad" : words.tier === "silent" ? "warn" : "idle"}>{words.title}</Chip>
          <span className="min-w-0 truncate text-muted max-md:hidden" title={run.waiting.detail}>
            {run.waiting.detail}
          </span>
          <Link to="/runs/$id" params={{ id: run.id }} className="shrink-0 text-accent underline underline-offset-2">
            {run.caseId}
          </Link>
        </>
      ) : (
        <span className="text-muted">{card.progress.running > 0 ? "Runs are on their way." : "Starting."}</span>
      )}
    </p>
  );
}
