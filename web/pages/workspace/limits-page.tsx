import { useState } from "react";
import { EverdictError } from "../../../contracts/errors.ts";
import { type Output, useRead, useWrite } from "../../api/queries.ts";
import { useMay, useSession } from "../../api/session.ts";
import { Button } from "../../ui/button.tsx";
import { Field, Input } from "../../ui/field.tsx";
import { Page, Panel } from "../../ui/layout.tsx";
import { Meter } from "../../ui/meter.tsx";
import { notify } from "../../ui/notify.ts";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";
import { plural } from "../../ui/words.ts";

type Limits = Output<"get_workspace_limits">;

/** What is in the form; runs that come in meanwhile do not change it. */
const edited = ({ runsUsed: _, ...limits }: Limits) => JSON.stringify(limits);

const shown = (limit: number | null): string => (limit === null ? "" : String(limit));
/** A limit as it was typed: nothing is none, and what is no number must not pass for it. */
const typed = (text: string): number | null => (text.trim() === "" ? null : Number(text));

/** What the workspace may take of the deployment; for operators. */
export function LimitsPage() {
  const { workspace } = useSession();
  const may = useMay();
  const allowed = may("get_workspace_limits");
  const query = useRead("get_workspace_limits", { params: { id: workspace } }, { enabled: allowed });
  return (
    <Page title="Limits" wide={false}>
      {!allowed ? (
        <Empty title="Limits are for operators of the deployment" />
      ) : query.data ? (
        <LimitsForm key={edited(query.data)} limits={query.data} />
      ) : query.error ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <Skeleton className="h-64 w-full" />
      )}
    </Page>
  );
}

function LimitsForm({ limits }: { limits: Limits }) {
  const { workspace } = useSession();
  const [weight, setWeight] = useState(String(limits.weight));
  const [maxInFlight, setMaxInFlight] = useState(shown(limits.maxInFlight));
  const [queueDepth, setQueueDepth] = useState(String(limits.queueDepth));
  const [runsBudget, setRunsBudget] = useState(shown(limits.runsBudget));
  const set = useWrite("set_workspace_limits", {
    quiet: true,
    refreshes: ["get_workspace_limits"],
    onSuccess: () =>
      notify("The limits are set", { detail: "They count from the next admission, the budget from the next submit." }),
  });
  const [unreadable, setUnreadable] = useState<string | null>(null);
  const issue = (path: string): string | undefined => {
    if (path === unreadable) return "must be a number, or empty for no limit";
    return set.error instanceof EverdictError
      ? set.error.issues?.find((item) => item.path === path)?.message
      : undefined;
  };
  return (
    <Panel title={`What ${workspace} may take`}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          const perhaps = { maxInFlight: typed(maxInFlight), runsBudget: typed(runsBudget) };
          // JSON has no NaN: it would arrive as null, which is no limit at all.
          const wrong = Object.entries(perhaps).find(([, limit]) => Number.isNaN(limit));
          setUnreadable(wrong?.[0] ?? null);
          if (wrong) return;
          const body = { weight: Number(weight), queueDepth: Number(queueDepth), ...perhaps };
          set.mutate({ params: { id: workspace }, body });
        }}
      >
        <Field label="Weight" hint="Its share against other workspaces where they meet." error={issue("weight")}>
          {(control) => (
            <Input
              {...control}
              inputMode="decimal"
              value={weight}
              onChange={(event) => setWeight(event.target.value)}
            />
          )}
        </Field>
        <Field label="Attempts in flight" hint="Over all its targets." error={issue("maxInFlight")} optional>
          {(control) => (
            <Input
              {...control}
              inputMode="numeric"
              placeholder="no limit if empty"
              value={maxInFlight}
              onChange={(event) => setMaxInFlight(event.target.value)}
            />
          )}
        </Field>
        <Field label="Waiting runs" hint="More are refused until some have ended." error={issue("queueDepth")}>
          {(control) => (
            <Input
              {...control}
              inputMode="numeric"
              value={queueDepth}
              onChange={(event) => setQueueDepth(event.target.value)}
            />
          )}
        </Field>
        <Field
          label="Runs a month"
          hint="Each case and trial is one, and each run of a retry. More are refused until the next month (UTC) begins."
          error={issue("runsBudget")}
          optional
        >
          {(control) => (
            <>
              <Input
                {...control}
                inputMode="numeric"
                placeholder="no limit if empty"
                value={runsBudget}
                onChange={(event) => setRunsBudget(event.target.value)}
              />
              <Used limits={limits} />
            </>
          )}
        </Field>
        {set.error !== null && <ErrorState error={set.error} />}
        <div>
          <Button kind="primary" type="submit" busy={set.isPending}>
            Set the limits
          </Button>
        </div>
      </form>
    </Panel>
  );
}

/** The runs of this month beside the budget that is set. */
function Used({ limits: { runsBudget, runsUsed } }: { limits: Limits }) {
  if (runsBudget === null)
    return <p className="text-xs tabular-nums">{plural(runsUsed, "run")} submitted this month</p>;
  return (
    <Meter
      label="Runs of this month"
      value={Math.min(runsUsed, runsBudget)}
      max={runsBudget}
      text={`${runsUsed.toLocaleString("en")} of ${plural(runsBudget, "run")} of this month used`}
    />
  );
}
