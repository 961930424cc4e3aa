import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { EverdictError, type Issue } from "../../../contracts/errors.ts";
import { useAll, useRead, useWrite } from "../../api/queries.ts";
import { newHarnessRoute } from "../../routes/library.tsx";
import { Needs } from "../../shell/needs.tsx";
import { Button } from "../../ui/button.tsx";
import { Page, Panel } from "../../ui/layout.tsx";
import { notify } from "../../ui/notify.ts";
import { ErrorState, Skeleton } from "../../ui/states.tsx";
import { nextVersion } from "../runtimes/diff.ts";
import { JsonEditor, readJson } from "./json-editor.tsx";

const EXAMPLE = {
  kind: "command",
  id: "my-agent",
  version: "1.0.0",
  setup: ["cd work"],
  command: "my-agent --task {{task}}",
  env: { MODEL: "fast", API_KEY: { secretRef: "MODEL_API_KEY" } },
};

const CRUMBS = [{ label: "Harnesses", to: "/harnesses" }];

/** Registers a harness, or the next version of one. */
export function NewHarnessPage() {
  const { from, version = "latest" } = newHarnessRoute.useSearch();
  const title = from === undefined ? "Register a harness" : `New version of ${from}`;
  return (
    <Needs op="create_harness" what="Registering a harness" title={title} crumbs={CRUMBS}>
      <Page title={title} crumbs={CRUMBS}>
        {from === undefined ? <Editor start={EXAMPLE} /> : <NextVersion from={from} version={version} />}
      </Page>
    </Needs>
  );
}

function NextVersion({ from, version }: { from: string; version: string }) {
  const base = useRead("get_harness", { params: { id: from, version } });
  const known = useAll("list_harnesses", { query: { archived: "true" } });
  const versions = known.data?.find(({ id }) => id === from)?.versions;
  if (base.error) return <ErrorState error={base.error} retry={() => void base.refetch()} />;
  return base.data && versions ? (
    <Editor start={{ ...base.data.spec, version: nextVersion(versions) }} />
  ) : (
    <Skeleton className="h-96 w-full" />
  );
}

function Editor({ start }: { start: object }) {
  const navigate = useNavigate();
  const [text, setText] = useState(() => JSON.stringify(start, null, 2));
  const [checked, setChecked] = useState<string | null>(null);
  const check = useWrite("validate_harness", { quiet: true });
  const create = useWrite("create_harness", {
    quiet: true,
    refreshes: ["list_harnesses"],
    onSuccess: ({ id, version }) => {
      notify(`${id}@${version} is registered`);
      void navigate({ to: "/harnesses/$id", params: { id } });
    },
  });
  const parsed = readJson(text);
  const answer = checked === text ? check.data : undefined;
  const refused: readonly Issue[] = create.error instanceof EverdictError ? (create.error.issues ?? []) : [];
  const lacking = parsed.ok ? undefined : "it is not JSON yet";
  return (
    <div className="grid gap-4 xl:grid-cols-[1fr_22rem]">
      <div className="flex flex-col gap-3">
        <JsonEditor
          label="Harness"
          hint="{{task}} stands where the case's task goes; it is always passed as data."
          text={text}
          onChange={setText}
          issues={answer ? answer.errors : refused}
        />
        {create.error !== null && refused.length === 0 && <ErrorState error={create.error} />}
        <div className="flex gap-2">
          <Button
            busy={check.isPending}
            disabledReason={lacking}
            onClick={() =>
              parsed.ok &&
              check.mutate({ body: parsed.value as Record<string, unknown> }, { onSuccess: () => setChecked(text) })
            }
          >
            Check without saving
          </Button>
          <Button
            kind="primary"
            busy={create.isPending}
            disabledReason={lacking}
            onClick={() => parsed.ok && create.mutate({ body: parsed.value as never })}
          >
            Register
          </Button>
        </div>
      </div>
      <Panel title="Check" className="self-start">
        <div role="status" className="flex flex-col gap-1">
          {answer === undefined ? (
            <p className="text-muted">Not made yet.</p>
          ) : (
            <>
              <p className={answer.ok ? "text-ok" : "text-bad"}>
                {answer.ok ? "Nothing to change" : "Something to change"}
              </p>
              {answer.missingSecrets.map((name) => (
                <p key={name} className="text-warn">
                  <code>{name}</code> is not stored yet; runs are refused until it is.
                </p>
              ))}
              {answer.warnings.map((warning) => (
                <p key={warning} className="text-warn">
                  {warning}
                </p>
              ))}
            </>
          )}
        </div>
      </Panel>
    </div>
  );
}
