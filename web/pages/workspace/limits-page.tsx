import { useState } from "react";
import { EverdictError } from "../../../contracts/errors.ts";
import { type Output, useRead, useWrite } from "../../api/queries.ts";
import { useMay, useSession } from "../../api/session.ts";
import { Button } from "../../ui/button.tsx";
import { Field, Input } from "../../ui/field.tsx";
import { Page, Panel } from "../../ui/layout.tsx";
import { notify } from "../../ui/notify.ts";
import { Empty, ErrorState, Skeleton } from "../../ui/states.tsx";

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
        <LimitsForm key={JSON.stringify(query.data)} limits={query.data} />
      ) : query.error ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : (
        <Skeleton className="h-64 w-full" />
      )}
    </Page>
  );
}

function LimitsForm({ limits }: { limits: Output<"get_workspace_limits"> }) {
  const { workspace } = useSession();
  const [weight, setWeight] = useState(String(limits.weight));
  const [maxInFlight, setMaxInFlight] = useState(limits.maxInFlight === null ? "" : String(limits.maxInFlight));
  const [queueDepth, setQueueDepth] = useState(String(limits.queueDepth));
  const set = useWrite("set_workspace_limits", {
    quiet: true,
    refreshes: ["get_workspace_limits"],
    onSuccess: () => notify("The limits are set", { detail: "They count from the next admission." }),
  });
  const issue = (path: string): string | undefined =>
    set.error instanceof EverdictError ? set.error.issues?.find((item) => item.path === path)?.message : undefined;
  return (
    <Panel title={`What ${workspace} may take`}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          set.mutate({
            params: { id: workspace },
            body: {
              weight: Number(weight),
              maxInFlight: maxInFlight.trim() === "" ? null : Number(maxInFlight),
              queueDepth: Number(queueDepth),
            },
          });
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
