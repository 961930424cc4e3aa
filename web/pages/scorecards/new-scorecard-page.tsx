import "../../jitless.ts";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { Controller, type FieldErrors, useForm } from "react-hook-form";
import { EverdictError } from "../../../contracts/errors.ts";
import { useAll, useRead, useWrite } from "../../api/queries.ts";
import { useSession } from "../../api/session.ts";
import { newScorecardRoute } from "../../routes/evaluate.tsx";
import { Needs } from "../../shell/needs.tsx";
import { Button } from "../../ui/button.tsx";
import { Field, Input, Select, TextArea } from "../../ui/field.tsx";
import { Page, Panel } from "../../ui/layout.tsx";
import { ErrorState, Skeleton } from "../../ui/states.tsx";
import { Chip } from "../../ui/status.tsx";
import { check, EMPTY, errorsByField, type FormValues, filterOf } from "./form-values.ts";
import { predict } from "./predict.ts";
import { TargetPicker } from "./target-picker.tsx";

/** What was typed survives a reload and a failed submit. */
const DRAFT = "everdict.draft.scorecard";

function draft(): Partial<FormValues> {
  try {
    return JSON.parse(sessionStorage.getItem(DRAFT) ?? "{}") as Partial<FormValues>;
  } catch {
    return {};
  }
}

const split = (text: string): readonly [string, string] => {
  const at = text.indexOf("@");
  return at < 0 ? [text, "latest"] : [text.slice(0, at), text.slice(at + 1)];
};

/** The values an address asks for, over what was typed before. */
function startValues(search: {
  dataset?: string | undefined;
  harness?: string | undefined;
  runtime?: string | undefined;
}): FormValues {
  const values = { ...EMPTY, ...draft() };
  if (search.dataset !== undefined) [values.dataset, values.datasetVersion] = split(search.dataset);
  if (search.harness !== undefined) [values.harness, values.harnessVersion] = split(search.harness);
  if (search.runtime !== undefined) values.targets = { mode: "named", targets: search.runtime.split(",") };
  return values;
}

function resolve(values: FormValues) {
  const checked = check(values);
  if (checked.ok) return { values, errors: {} };
  const errors: FieldErrors<FormValues> = {};
  for (const [name, message] of Object.entries(checked.errors))
    Object.assign(errors, { [name]: { type: "contract", message } });
  return { values: {}, errors };
}

const TITLE = "New scorecard";
const CRUMBS = [{ label: "Scorecards", to: "/scorecards" }];

/** Dataset × harness × targets: what it needs, where that is, and what will happen, before it is submitted. */
export function NewScorecardPage() {
  return (
    <Needs op="run_scorecard" what="Starting a scorecard" title={TITLE} crumbs={CRUMBS}>
      <Page title={TITLE} crumbs={CRUMBS}>
        <ScorecardForm />
      </Page>
    </Needs>
  );
}

function ScorecardForm() {
  const search = newScorecardRoute.useSearch();
  const navigate = useNavigate();
  const { me } = useSession();
  const [refused, setRefused] = useState<unknown>(null);
  const form = useForm<FormValues>({
    defaultValues: startValues(search),
    resolver: resolve as never,
    shouldFocusError: true,
  });
  const { register, control, watch, formState, setValue, setError, handleSubmit } = form;
  const values = watch();
  const datasets = useAll("list_datasets");
  const harnesses = useAll("list_harnesses");
  const cards = useRead("list_scorecards", { query: { limit: 100 } });
  const ready = values.dataset !== "" && values.harness !== "";
  const filter = filterOf(values);
  const trials = Number(values.trials) || 1;
  const preview = useRead(
    "preview_scorecard",
    {
      body: {
        dataset: { id: values.dataset, version: values.datasetVersion },
        harness: { id: values.harness, version: values.harnessVersion },
        trials: Number.isInteger(trials) && trials >= 1 && trials <= 100 ? trials : 1,
        ...(filter === undefined || !Number.isFinite(filter.limit ?? 1) ? {} : { cases: filter }),
      },
    },
    { enabled: ready, every: 5_000, keep: true },
  );
  const submit = useWrite("run_scorecard", { refreshes: ["list_scorecards", "list_runs", "get_queue"], quiet: true });

  const text = JSON.stringify(values);
  useEffect(() => {
    try {
      sessionStorage.setItem(DRAFT, text);
    } catch {
      // Not kept over a reload.
    }
  }, [text]);

  // One dataset, one harness, one place: nothing to choose.
  const onlyDataset = datasets.data?.length === 1 ? datasets.data[0]?.id : undefined;
  const onlyHarness = harnesses.data?.length === 1 ? harnesses.data[0]?.id : undefined;
  useEffect(() => {
    if (onlyDataset !== undefined && values.dataset === "") setValue("dataset", onlyDataset);
    if (onlyHarness !== undefined && values.harness === "") setValue("harness", onlyHarness);
  }, [onlyDataset, onlyHarness, values.dataset, values.harness, setValue]);

  const go = handleSubmit(async (now) => {
    setRefused(null);
    const checked = check(now);
    if (!checked.ok) return;
    try {
      const card = await submit.mutateAsync({ body: checked.request });
      sessionStorage.removeItem(DRAFT);
      void navigate({ to: "/scorecards/$id", params: { id: card.id } });
    } catch (error) {
      setRefused(error);
      if (!(error instanceof EverdictError)) return;
      const byField = errorsByField(error.issues ?? []);
      for (const [name, message] of Object.entries(byField))
        setError(name as keyof FormValues, { type: "server", message }, { shouldFocus: true });
    }
  });

  const message = (name: keyof FormValues): string | undefined => {
    const found = formState.errors[name] as { message?: string } | undefined;
    return found?.message;
  };
  // An address may name what the list has not brought yet.
  const unlisted = (list: readonly { id: string }[] | undefined, id: string) =>
    id !== "" && !list?.some((item) => item.id === id) ? <option value={id}>{id}</option> : null;
  const versionsOf = (list: readonly { id: string; versions: string[] }[] | undefined, id: string, now: string) => {
    const known = [...(list?.find((item) => item.id === id)?.versions ?? [])].reverse();
    return now === "latest" || known.includes(now) ? known : [now, ...known];
  };
  const data = ready ? preview.data : undefined;
  const last = cards.data?.items.find(
    (card) =>
      card.dataset.id === values.dataset && card.harness.id === values.harness && card.summary?.durationMs.p50 != null,
  );
  const chosen = values.targets.mode === "named" ? values.targets.targets : [];
  const problems = data?.problems ?? [];
  return (
    <form
      aria-label="New scorecard"
      noValidate
      onSubmit={(event) => void go(event)}
      className="grid max-w-6xl gap-4 xl:grid-cols-[1fr_20rem]"
    >
      <div className="flex min-w-0 flex-col gap-4">
        <Panel title="What">
          <div className="grid gap-4 sm:grid-cols-2">
            <div className="flex gap-2">
              <Field label="Dataset" error={message("dataset")} className="min-w-0 flex-1">
                {(ids) => (
                  <Select
                    {...ids}
                    value={values.dataset}
                    {...register("dataset", { onChange: () => setValue("datasetVersion", "latest") })}
                  >
                    <option value="">Choose</option>
                    {unlisted(datasets.data, values.dataset)}
                    {datasets.data?.map((item) => (
                      <option key={`${item.owner}/${item.id}`} value={item.id}>
                        {item.id} ({item.cases} cases{item.owner === "_shared" ? ", shared" : ""})
                      </option>
                    ))}
                  </Select>
                )}
              </Field>
              <Field label="Version" error={message("datasetVersion")} className="w-28">
                {(ids) => (
                  <Select {...ids} value={values.datasetVersion} {...register("datasetVersion")}>
                    <option>latest</option>
                    {versionsOf(datasets.data, values.dataset, values.datasetVersion).map((version) => (
                      <option key={version}>{version}</option>
                    ))}
                  </Select>
                )}
              </Field>
            </div>
            <div className="flex gap-2">
              <Field label="Harness" error={message("harness")} className="min-w-0 flex-1">
                {(ids) => (
                  <Select
                    {...ids}
                    value={values.harness}
                    {...register("harness", { onChange: () => setValue("harnessVersion", "latest") })}
                  >
                    <option value="">Choose</option>
                    {unlisted(harnesses.data, values.harness)}
                    {harnesses.data?.map((item) => (
                      <option key={`${item.owner}/${item.id}`} value={item.id}>
                        {item.id} ({item.kind})
                      </option>
                    ))}
                  </Select>
                )}
              </Field>
              <Field label="Version" error={message("harnessVersion")} className="w-28">
                {(ids) => (
                  <Select {...ids} value={values.harnessVersion} {...register("harnessVersion")}>
                    <option>latest</option>
                    {versionsOf(harnesses.data, values.harness, values.harnessVersion).map((version) => (
                      <option key={version}>{version}</option>
                    ))}
                  </Select>
                )}
              </Field>
            </div>
            <Field
              label="Only cases with a tag"
              optional
              hint="Tags by comma; empty means all."
              error={message("tags")}
            >
              {(ids) => <Input {...ids} {...register("tags")} />}
            </Field>
            <Field label="At most" optional hint="The first so many, in dataset order." error={message("limit")}>
              {(ids) => <Input {...ids} inputMode="numeric" {...register("limit")} />}
            </Field>
            <Field
              label="Only these cases"
              optional
              hint="Ids, by comma or line; empty means all."
              error={message("ids")}
              className="sm:col-span-2"
            >
              {(ids) => <TextArea {...ids} rows={2} {...register("ids")} />}
            </Field>
          </div>
        </Panel>
        <Panel
          title="Where"
          actions={
            data &&
            (data.needs.length === 0 ? (
              <Chip>the cases need nothing special</Chip>
            ) : (
              data.needs.map((need) => <Chip key={need}>needs {need}</Chip>)
            ))
          }
        >
          {!ready ? (
            <p className="text-muted">Choose a dataset and a harness; then the places that can run them stand here.</p>
          ) : preview.error && data === undefined ? (
            <ErrorState error={preview.error} retry={() => void preview.refetch()} />
          ) : data === undefined ? (
            <Skeleton className="h-40 w-full" />
          ) : (
            <Controller
              control={control}
              name="targets"
              render={({ field }) => (
                <fieldset aria-describedby={message("targets") ? "targets-error" : undefined}>
                  <legend className="sr-only">Targets</legend>
                  <TargetPicker preview={data} value={field.value} onChange={field.onChange} />
                  {message("targets") && (
                    <p id="targets-error" role="alert" className="mt-1 text-xs text-bad">
                      {message("targets")}
                    </p>
                  )}
                </fieldset>
              )}
            />
          )}
        </Panel>
        <Panel title="How">
          <div className="grid gap-4 sm:grid-cols-3">
            <Field
              label="Concurrency"
              optional
              hint="Cases at once over all targets; 4 if empty, at most 512."
              error={message("concurrency")}
            >
              {(ids) => <Input {...ids} inputMode="numeric" placeholder="4" {...register("concurrency")} />}
            </Field>
            <Field
              label="Trials"
              optional
              hint="Times each case is run; 1 if empty, at most 100."
              error={message("trials")}
            >
              {(ids) => <Input {...ids} inputMode="numeric" placeholder="1" {...register("trials")} />}
            </Field>
            <Field
              label="Retries"
              optional
              hint="After an infrastructure failure; 1 if empty, at most 5."
              error={message("retries")}
            >
              {(ids) => <Input {...ids} inputMode="numeric" placeholder="1" {...register("retries")} />}
            </Field>
            <Field label="Priority" hint="Interactive runs go before batch ones of this workspace.">
              {(ids) => (
                <Select {...ids} {...register("priority")}>
                  <option value="batch">batch</option>
                  <option value="interactive">interactive</option>
                </Select>
              )}
            </Field>
            <Field
              label="Give up after"
              optional
              hint="Seconds a run may wait while no capable runner is online; it waits if empty."
              error={message("queueTimeoutSec")}
            >
              {(ids) => <Input {...ids} inputMode="numeric" placeholder="never" {...register("queueTimeoutSec")} />}
            </Field>
          </div>
        </Panel>
      </div>
      <aside aria-label="What will happen" className="flex flex-col gap-3 self-start xl:sticky xl:top-4">
        <Panel title="What will happen">
          <div role="status" className="flex min-h-24 flex-col gap-2">
            {data === undefined ? (
              <p className="text-muted">Nothing yet.</p>
            ) : (
              predict(data, chosen, Number(values.concurrency) || 4, last).map((sentence) => (
                <p key={sentence}>{sentence}</p>
              ))
            )}
            {problems.length > 0 && (
              <ul className="list-disc pl-4 text-bad">
                {problems.slice(0, 10).map(({ path, message: words }) => (
                  <li key={`${path} ${words}`}>
                    <code>{path}</code> {words}
                  </li>
                ))}
              </ul>
            )}
          </div>
        </Panel>
        {refused !== null && <ErrorState error={refused} />}
        <Button kind="primary" type="submit" busy={submit.isPending} className="!h-8">
          Start the scorecard
        </Button>
        <p className="text-xs text-muted">It acts as {me.subject}.</p>
      </aside>
    </form>
  );
}
