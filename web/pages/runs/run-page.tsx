import { Link, useNavigate } from "@tanstack/react-router";
import { Ban, RefreshCw } from "lucide-react";
import { useState } from "react";
import type { Run } from "../../../contracts/run.ts";
import { isTerminal } from "../../../contracts/run-states.ts";
import { useRead, useWrite } from "../../api/queries.ts";
import { useMay, useSession } from "../../api/session.ts";
import { runRoute } from "../../routes/evaluate.tsx";
import { usePageActions } from "../../shell/actions.ts";
import { ApiCall } from "../../ui/api-call.tsx";
import { Button } from "../../ui/button.tsx";
import { Id } from "../../ui/copy.tsx";
import { Confirm, type Confirmation } from "../../ui/dialog.tsx";
import { Facts, Page, Panel } from "../../ui/layout.tsx";
import { notify } from "../../ui/notify.ts";
import { ErrorState, Skeleton } from "../../ui/states.tsx";
import { Status } from "../../ui/status.tsx";
import { TabPanel, Tabs } from "../../ui/tabs.tsx";
import { Elapsed, Time, useNow } from "../../ui/time.tsx";
import { WaitingPanel } from "../../ui/waiting.tsx";
import { duration, plural, score } from "../../ui/words.ts";
import { AttemptsTimeline } from "./attempts.tsx";
import { FailurePanel } from "./failure.tsx";
import { LogView } from "./log-view.tsx";
import { PlacementPanel } from "./placement.tsx";
import { ResultPanel } from "./result.tsx";
import { canCancel, shownStatus } from "./run-words.ts";
import { useRunLog } from "./use-run-log.ts";

type TabId = "overview" | "log" | "result" | "placement";

/** One run: why it waits, its attempts, its output as it comes, where it is, and what was measured. */
export function RunPage() {
  const { id } = runRoute.useParams();
  const search = runRoute.useSearch();
  const navigate = useNavigate({ from: "/runs/$id" });
  const { me } = useSession();
  const may = useMay();
  const log = useRunLog(id);
  const query = useRead(
    "get_run",
    { params: { id } },
    {
      // The stream tells of changes; a look now and then also corrects the position in the queue.
      every: (run) => (run && isTerminal(run.status) ? false : log.state === "live" ? 5_000 : 2_000),
    },
  );
  const [ask, setAsk] = useState<Confirmation | null>(null);
  const cancel = useWrite("cancel_run", {
    refreshes: ["get_run", "list_runs", "get_queue", "get_scorecard"],
    quiet: true,
    // One that waits is cancelled as soon as it is asked for; one that runs has its grace period.
    optimistic: (shown) =>
      shown.answer("get_run", (old) =>
        old.id === id && old.status === "queued" ? { ...old, status: "cancelled" as const, waiting: null } : old,
      ),
    onSuccess: () => notify("Cancelling", { detail: "It ends within its grace period." }),
  });
  const run = query.data;
  const tab: TabId = search.tab ?? "overview";
  const setTab = (next: TabId) =>
    void navigate({ search: (old) => ({ ...old, tab: next === "overview" ? undefined : next }), replace: true });
  const mine = run !== undefined && (run.createdBy === me.subject || me.role === "admin");
  const cancellable = run !== undefined && canCancel(run) && may("cancel_run") && mine;
  const askCancel = () =>
    run &&
    setAsk({
      title: "Cancel this run?",
      name: `${run.caseId} · ${run.id}`,
      consequences:
        run.status === "queued"
          ? "It leaves the queue and is not measured."
          : "The agent is told to stop, then killed. What it has done so far is not measured.",
      verb: "Cancel the run",
      action: () => cancel.mutateAsync({ params: { id } }),
    });
  usePageActions([
    ...(cancellable ? [{ id: "cancel", label: "Cancel this run", key: "x", run: askCancel }] : []),
    { id: "log", label: "Show the log", key: "l", run: () => setTab("log") },
    { id: "overview", label: "Show the overview", key: "o", run: () => setTab("overview") },
  ]);
  return (
    <Page
      title={run?.caseId ?? "Run"}
      heading={
        <>
          <span role="status" aria-live="polite">
            {run && <Status status={shownStatus(run)} />}
          </span>
          <Id id={id} />
          {run?.scorecardId != null && (
            <Link
              to="/scorecards/$id"
              params={{ id: run.scorecardId }}
              className="text-xs text-accent underline underline-offset-2"
            >
              its scorecard
            </Link>
          )}
        </>
      }
      crumbs={[{ label: "Runs", to: "/runs" }]}
      actions={
        <>
          {run !== undefined && (log.state === "reconnecting" || log.state === "polling") && (
            <span role="status" className="inline-flex items-center gap-1 text-xs text-warn">
              <RefreshCw aria-hidden className="size-3.5 animate-spin" />
              {log.state === "polling" ? "live updates are off, asking instead" : "reconnecting"}
            </span>
          )}
          <ApiCall name="get_run" input={{ params: { id } }} />
          {cancellable && (
            <Button kind="danger" icon={<Ban aria-hidden className="size-3.5" />} onClick={askCancel}>
              Cancel
            </Button>
          )}
        </>
      }
      tabs={
        <Tabs<TabId>
          label="Run"
          value={tab}
          onChange={setTab}
          tabs={[
            { id: "overview", label: "Overview" },
            { id: "log", label: "Log" },
            { id: "result", label: "Result" },
            { id: "placement", label: "Placement" },
          ]}
        />
      }
    >
      <TabPanel id={tab}>
        {run === undefined ? (
          query.error ? (
            <ErrorState error={query.error} retry={() => void query.refetch()} />
          ) : (
            <Skeleton className="h-96 w-full" />
          )
        ) : (
          <>
            {tab === "overview" && <Overview run={run} />}
            {tab === "log" && (
              <LogView
                runId={id}
                log={log}
                query={search.q ?? ""}
                onQuery={(q) => void navigate({ search: (old) => ({ ...old, q: q || undefined }), replace: true })}
                line={search.line === undefined ? null : Number(search.line) || null}
                onLine={(line) => void navigate({ search: (old) => ({ ...old, line: String(line) }), replace: true })}
              />
            )}
            {tab === "result" && <ResultPanel run={run} />}
            {tab === "placement" && <PlacementPanel run={run} />}
          </>
        )}
      </TabPanel>
      <Confirm ask={ask} onClose={() => setAsk(null)} />
    </Page>
  );
}

function Overview({ run }: { run: Run }) {
  const now = useNow();
  const waited = run.waiting ? `waiting for ${duration(Math.max(0, now - Date.parse(run.createdAt)))}` : null;
  const notYet = isTerminal(run.status) ? "never" : "not yet";
  return (
    <div className="grid gap-4 xl:grid-cols-[minmax(0,1fr)_22rem]">
      <div className="flex min-w-0 flex-col gap-4">
        {run.waiting && <WaitingPanel waiting={run.waiting} since={waited} />}
        {run.failure && <FailurePanel failure={run.failure} />}
        {run.result && (
          <Panel title="Measured">
            <div className="flex flex-wrap items-baseline gap-x-6 gap-y-1">
              <span className="text-xl font-semibold tabular-nums">
                <span className="sr-only">Score </span>
                {score(run.result.score)}
              </span>
              <span className="text-muted">
                {run.result.scores.filter(({ pass }) => pass).length} of {plural(run.result.scores.length, "grader")}{" "}
                passed, exit code {run.result.exitCode ?? "none"}, {duration(run.result.durationMs)}
              </span>
            </div>
          </Panel>
        )}
        <Panel title="Attempts">
          <AttemptsTimeline run={run} />
        </Panel>
      </div>
      <Panel title="Facts" className="self-start">
        <Facts
          items={[
            [
              "Harness",
              <Link
                key="h"
                to="/harnesses/$id"
                params={{ id: run.harness.id }}
                search={{ version: run.harness.version }}
                className="underline"
              >
                {run.harness.id}@{run.harness.version}
              </Link>,
            ],
            ["Target", run.target],
            [
              "Runtime",
              run.runtime ? (
                <Link
                  key="r"
                  to="/runtimes/$id"
                  params={{ id: run.runtime.id }}
                  search={{ version: run.runtime.version }}
                  className="underline"
                >
                  {run.runtime.id}@{run.runtime.version}
                </Link>
              ) : (
                "a runner"
              ),
            ],
            ["Ran on", run.provenance?.ranOn ?? run.attempts.at(-1)?.holder ?? notYet],
            [
              "Evidence",
              run.provenance === null
                ? "–"
                : run.provenance.attestation === "managed"
                  ? "the control plane's own"
                  : "the runner's word",
            ],
            ["Trial", String(run.trial)],
            [
              "Scorecard",
              run.scorecardId === null ? (
                "none"
              ) : (
                <Link key="s" to="/scorecards/$id" params={{ id: run.scorecardId }} className="break-all underline">
                  {run.scorecardId}
                </Link>
              ),
            ],
            ["Submitted", <Time key="t" at={run.createdAt} />],
            ["By", run.createdBy],
            ["Started", run.startedAt === null ? notYet : <Time key="t" at={run.startedAt} />],
            ["Ran for", run.startedAt === null ? "–" : <Elapsed key="t" from={run.startedAt} to={run.finishedAt} />],
          ]}
        />
      </Panel>
    </div>
  );
}
