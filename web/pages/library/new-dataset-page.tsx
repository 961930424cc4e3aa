import { useNavigate } from "@tanstack/react-router";
import { Upload } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import { EverdictError, type Issue } from "../../../contracts/errors.ts";
import { useAll, useWrite } from "../../api/queries.ts";
import { newDatasetRoute } from "../../routes/library.tsx";
import { Needs } from "../../shell/needs.tsx";
import { Button } from "../../ui/button.tsx";
import { Field, Input, TextArea } from "../../ui/field.tsx";
import { Page, Panel } from "../../ui/layout.tsx";
import { notify } from "../../ui/notify.ts";
import { ErrorState } from "../../ui/states.tsx";
import { plural } from "../../ui/words.ts";
import { nextVersion } from "../runtimes/diff.ts";
import { placeOf, readCases } from "./case-rows.ts";

const EXAMPLE = `{"id":"greets","task":"say hi","expected":"hi","graders":[{"kind":"contains","value":"hi"}]}
{"id":"counts","task":"count to three","graders":[{"kind":"regex","pattern":"1.*2.*3"}],"timeoutSec":60}`;

const CRUMBS = [{ label: "Datasets", to: "/datasets" }];

/** Adds a dataset by pasting or uploading: a document, an array of cases, or one case a line. */
export function NewDatasetPage() {
  const { from } = newDatasetRoute.useSearch();
  const title = from === undefined ? "Add a dataset" : `New version of ${from}`;
  return (
    <Needs op="create_dataset" what="Adding a dataset" title={title} crumbs={CRUMBS}>
      <Page title={title} crumbs={CRUMBS}>
        <DatasetForm from={from} />
      </Page>
    </Needs>
  );
}

function DatasetForm({ from }: { from: string | undefined }) {
  const navigate = useNavigate();
  const known = useAll("list_datasets", { query: { archived: "true" } });
  const [id, setId] = useState(from ?? "");
  const [version, setVersion] = useState("");
  const [text, setText] = useState("");
  const [checked, setChecked] = useState<string | null>(null);
  const file = useRef<HTMLInputElement>(null);
  const rows = useMemo(() => readCases(text), [text]);
  const name = id || rows.head.id || "";
  const versions = known.data?.find((item) => item.id === name)?.versions ?? [];
  const number = version || rows.head.version || nextVersion(versions);
  const body = { id: name, version: number, cases: rows.cases };
  const key = `${name} ${number} ${text}`;
  const check = useWrite("validate_dataset", { quiet: true });
  const create = useWrite("create_dataset", {
    quiet: true,
    refreshes: ["list_datasets"],
    onSuccess: (made) => {
      notify(`${made.id}@${made.version} is added`, { detail: plural(rows.cases.length, "case") });
      void navigate({ to: "/datasets/$id", params: { id: made.id } });
    },
  });
  const answer = checked === key ? check.data : undefined;
  const refused: readonly Issue[] = create.error instanceof EverdictError ? (create.error.issues ?? []) : [];
  const issues = answer ? answer.errors : refused;
  const lacking =
    rows.problems.length > 0
      ? "some lines are not JSON"
      : rows.cases.length === 0
        ? "paste some cases first"
        : name === ""
          ? "name it first"
          : undefined;
  const found = [
    ...rows.problems.map(({ line, message }) => ({ place: `line ${line}`, message })),
    ...issues.map((issue) => ({ place: placeOf(rows, issue), message: issue.message })),
  ];
  return (
    <div className="grid gap-4 xl:grid-cols-[1fr_24rem]">
      <div className="flex min-w-0 flex-col gap-4">
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label="Id" hint="What scorecards name.">
            {(control) => <Input {...control} mono value={name} onChange={(event) => setId(event.target.value)} />}
          </Field>
          <Field label="Version" hint="Versions are immutable.">
            {(control) => (
              <Input {...control} mono value={number} onChange={(event) => setVersion(event.target.value)} />
            )}
          </Field>
        </div>
        <Field
          label="Cases"
          hint={
            <>
              JSON Lines, an array, or a whole dataset; at most 10,000 cases and 16 MiB.{" "}
              <button type="button" className="underline" onClick={() => setText(EXAMPLE)}>
                Put an example there
              </button>
            </>
          }
          error={found.length > 0 ? `${plural(found.length, "row")} to change` : undefined}
        >
          {(control) => (
            <TextArea
              {...control}
              rows={18}
              value={text}
              onChange={(event) => setText(event.target.value)}
              onDragOver={(event) => event.preventDefault()}
              onDrop={(event) => {
                const dropped = event.dataTransfer.files[0];
                if (!dropped) return;
                event.preventDefault();
                void dropped.text().then(setText);
              }}
            />
          )}
        </Field>
        <div className="flex flex-wrap gap-2">
          <input
            ref={file}
            type="file"
            accept=".json,.jsonl,.ndjson,application/json"
            className="hidden"
            aria-label="File with cases"
            onChange={(event) => {
              void event.target.files?.[0]?.text().then(setText);
              event.target.value = "";
            }}
          />
          <Button icon={<Upload aria-hidden className="size-3.5" />} onClick={() => file.current?.click()}>
            Upload a file
          </Button>
          <Button
            busy={check.isPending}
            disabledReason={lacking}
            onClick={() => check.mutate({ body }, { onSuccess: () => setChecked(key) })}
          >
            Check without saving
          </Button>
          <Button
            kind="primary"
            busy={create.isPending}
            disabledReason={lacking}
            onClick={() => create.mutate({ body: body as never })}
          >
            Add {rows.cases.length > 0 ? plural(rows.cases.length, "case") : "the dataset"}
          </Button>
        </div>
        {create.error !== null && refused.length === 0 && <ErrorState error={create.error} />}
        {check.error !== null && <ErrorState error={check.error} />}
      </div>
      <Panel title={found.length > 0 ? `${plural(found.length, "row")} to change` : "Check"} className="self-start">
        <div role="status">
          {found.length > 0 ? (
            <ul className="flex max-h-96 flex-col gap-1.5 overflow-auto text-xs">
              {found.slice(0, 200).map(({ place, message }) => (
                <li key={`${place} ${message}`}>
                  <span className="font-medium">{place}</span> <span className="text-bad">{message}</span>
                </li>
              ))}
            </ul>
          ) : answer?.ok ? (
            <p className="text-ok">Nothing to change</p>
          ) : (
            <p className="text-muted">
              {rows.cases.length > 0
                ? `${plural(rows.cases.length, "case")} read, not checked yet.`
                : "Nothing pasted yet."}
            </p>
          )}
          {answer?.warnings.map((warning) => (
            <p key={warning} className="text-warn">
              {warning}
            </p>
          ))}
        </div>
      </Panel>
    </div>
  );
}
