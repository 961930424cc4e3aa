import { useBlocker, useNavigate } from "@tanstack/react-router";
import { CircleCheck, CircleX, Lock } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { EverdictError } from "../../../contracts/errors.ts";
import { type Output, useAll, useWrite } from "../../api/queries.ts";
import { useSession } from "../../api/session.ts";
import { Button } from "../../ui/button.tsx";
import { Field, Input } from "../../ui/field.tsx";
import { Panel } from "../../ui/layout.tsx";
import { notify } from "../../ui/notify.ts";
import { ErrorState } from "../../ui/states.tsx";
import { ProbeResult, ValidationResult } from "./checks.tsx";
import { differences } from "./diff.ts";
import { DiffTable } from "./diff-table.tsx";
import { FieldEditor } from "./field-editor.tsx";
import { type Draft, emptyDraft, type RuntimeKind, read, SECTIONS, write } from "./fields.ts";

const KINDS: readonly { kind: RuntimeKind; label: string }[] = [
  { kind: "k8s", label: "Kubernetes" },
  { kind: "nomad", label: "Nomad" },
  { kind: "local", label: "This host" },
];

const draftKey = (workspace: string, what: string) => `everdict.draft.${workspace}.${what}`;

function recalled(key: string): Draft | null {
  try {
    const text = sessionStorage.getItem(key);
    return text === null ? null : (JSON.parse(text) as Draft);
  } catch {
    return null;
  }
}

function keep(key: string, draft: Draft | null): void {
  try {
    if (draft === null) sessionStorage.removeItem(key);
    else sessionStorage.setItem(key, JSON.stringify(draft));
  } catch {
    // It is not kept over a reload then.
  }
}

/** A test and the very spec it was made of: an edit makes it worth nothing. */
interface Tested<T> {
  of: string;
  answer: T;
}

/** Registers a runtime, or its next version: what was tested is what is saved. */
export function RuntimeForm({
  start,
  before,
  choosesKind,
}: {
  start: Draft;
  /** The version that is edited. */
  before: Draft | null;
  choosesKind: boolean;
}) {
  const { workspace } = useSession();
  const navigate = useNavigate();
  const key = draftKey(workspace, before === null ? "new-runtime" : `runtime-${String(before.id)}`);
  const [draft, setDraft] = useState<Draft>(() => recalled(key) ?? start);
  const [probe, setProbe] = useState<Tested<Output<"probe_runtime">> | null>(null);
  const [dry, setDry] = useState<Tested<Output<"validate_runtime">> | null>(null);
  const [said, setSaid] = useState("");
  const form = useRef<HTMLFormElement>(null);
  const relays = useAll("list_relays");
  const kind = draft.kind as RuntimeKind;
  const text = JSON.stringify(draft);
  const changed = text !== JSON.stringify(start);
  const saved = useRef(false);

  const probing = useWrite("probe_runtime", { quiet: true });
  const checking = useWrite("validate_runtime", { quiet: true });
  const saving = useWrite("create_runtime", {
    quiet: true,
    refreshes: ["list_runtimes", "get_runtime"],
    onSuccess: ({ id, version, warnings }) => {
      saved.current = true;
      keep(key, null);
      notify(`${id}@${version} is registered`, warnings[0] === undefined ? {} : { detail: warnings[0] });
      void navigate({ to: "/runtimes/$id", params: { id } });
    },
  });

  useEffect(() => keep(key, changed && !saved.current ? draft : null), [key, changed, draft]);
  useBlocker({
    shouldBlockFn: () =>
      changed &&
      !saved.current &&
      !window.confirm("Leave? What you typed is kept on this page until you close the tab."),
    enableBeforeUnload: () => false,
  });

  const passedProbe = probe?.of === text && probe.answer.reachable;
  const passedDry = dry?.of === text && dry.answer.ok;
  const open = passedProbe || passedDry;

  const change = (next: Draft) => {
    setDraft(next);
    if (open) setSaid("The tests no longer hold for what you typed; test again before saving.");
  };

  const issues = useMemo(() => {
    const found = new Map<string, string>();
    for (const error of [probing.error, saving.error])
      if (error instanceof EverdictError) for (const { path, message } of error.issues ?? []) found.set(path, message);
    if (dry?.of === text) for (const { path, message } of dry.answer.errors) found.set(path, message);
    return found;
  }, [dry, text, probing.error, saving.error]);
  /** Of the field itself, or of something inside it. */
  const issueOf = (path: string): string | undefined => {
    const own = issues.get(path);
    if (own !== undefined) return own;
    for (const [at, message] of issues) if (at.startsWith(`${path}.`)) return `${at.slice(path.length + 1)} ${message}`;
    return undefined;
  };
  const focusFirst = () =>
    requestAnimationFrame(() => form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());

  const test = async () => {
    setSaid("Testing the connection");
    try {
      const answer = await probing.mutateAsync({ body: draft as never });
      setProbe({ of: text, answer });
      setSaid(answer.reachable ? "The connection test passed; you can save." : "The connection test failed.");
    } catch {
      setSaid("The connection test could not be made.");
      focusFirst();
    }
  };
  const dryRun = async () => {
    setSaid("Checking the spec");
    try {
      const answer = await checking.mutateAsync({ body: draft });
      setDry({ of: text, answer });
      setSaid(answer.ok ? "The dry run passed; you can save." : "The dry run found something to change.");
      if (!answer.ok) focusFirst();
    } catch {
      setSaid("The dry run could not be made.");
    }
  };
  const changes = before === null ? [] : differences(before, draft);
  const blocked = open ? undefined : "pass the connection test or the dry run first";

  return (
    <form
      ref={form}
      className="grid gap-4 xl:grid-cols-[1fr_24rem]"
      onSubmit={(event) => {
        event.preventDefault();
        if (blocked === undefined) saving.mutate({ body: draft as never }, { onError: focusFirst });
      }}
    >
      <div className="flex min-w-0 flex-col gap-4">
        <Panel title="Kind and name">
          <div className="flex flex-col gap-4">
            {choosesKind && (
              <div role="radiogroup" aria-label="Kind" className="flex flex-wrap gap-1.5">
                {KINDS.map(({ kind: each, label }) => (
                  <button
                    key={each}
                    type="button"
                    role="radio"
                    aria-checked={kind === each}
                    onClick={() =>
                      each !== kind && change({ ...emptyDraft(each), id: draft.id, version: draft.version })
                    }
                    className={
                      kind === each
                        ? "h-8 rounded-md border border-accent bg-accent-soft px-3 font-medium text-accent"
                        : "h-8 rounded-md border border-line-strong px-3 text-muted hover:bg-hover"
                    }
                  >
                    {label}
                  </button>
                ))}
              </div>
            )}
            <div className="grid gap-4 sm:grid-cols-2">
              <Field label="Id" hint="What runs and scorecards name." error={issueOf("id")}>
                {(control) => (
                  <Input
                    {...control}
                    mono
                    disabled={before !== null}
                    value={String(draft.id ?? "")}
                    onChange={(event) => change(write(draft, "id", event.target.value))}
                  />
                )}
              </Field>
              <Field
                label="Version"
                hint={
                  before === null
                    ? "Versions are immutable."
                    : `Changes make a new version; you edit ${String(before.version)}.`
                }
                error={issueOf("version")}
              >
                {(control) => (
                  <Input
                    {...control}
                    mono
                    value={String(draft.version ?? "")}
                    onChange={(event) => change(write(draft, "version", event.target.value))}
                  />
                )}
              </Field>
            </div>
          </div>
        </Panel>
        {SECTIONS[kind].map(({ title, fields }) => (
          <Panel key={title} title={title}>
            <div className="grid gap-4 md:grid-cols-2">
              {fields.map((field) => (
                <FieldEditor
                  key={`${kind} ${field.path}`}
                  field={field}
                  value={read(draft, field.path)}
                  error={issueOf(field.path)}
                  onChange={(value) => change(write(draft, field.path, value))}
                  relays={relays.data ?? []}
                />
              ))}
            </div>
          </Panel>
        ))}
      </div>
      <div className="flex flex-col gap-4 self-start xl:sticky xl:top-4">
        <Test
          title="Connection test"
          state={probe === null ? "none" : probe.of !== text ? "stale" : probe.answer.reachable ? "passed" : "failed"}
          busy={probing.isPending}
          run={() => void test()}
          verb="Test the connection"
        >
          {probe?.of === text && <ProbeResult probe={probe.answer} />}
          {probing.error !== null && <ErrorState error={probing.error} />}
        </Test>
        <Test
          title="Dry run"
          state={dry === null ? "none" : dry.of !== text ? "stale" : dry.answer.ok ? "passed" : "failed"}
          busy={checking.isPending}
          run={() => void dryRun()}
          verb="Check without saving"
        >
          {dry?.of === text && <ValidationResult validation={dry.answer} />}
          {checking.error !== null && <ErrorState error={checking.error} />}
        </Test>
        {before !== null && (
          <Panel title={`Changes to ${String(before.version)}`}>
            <DiffTable label="Changes" changes={changes} />
          </Panel>
        )}
        {saving.error !== null && <ErrorState error={saving.error} />}
        <div className="flex items-center gap-3">
          <Button kind="primary" type="submit" busy={saving.isPending} disabledReason={blocked}>
            {before === null ? "Register" : `Save as ${String(draft.version)}`}
          </Button>
          {blocked !== undefined && (
            <span className="inline-flex items-center gap-1.5 text-xs text-muted">
              <Lock aria-hidden className="size-3.5" />
              {blocked}
            </span>
          )}
        </div>
        <p role="status" aria-live="polite" className="text-xs text-muted">
          {said}
        </p>
      </div>
    </form>
  );
}

const STATE = {
  none: "Not made yet.",
  stale: "You changed something since; make it again.",
  passed: "Passed",
  failed: "Failed",
} as const;

function Test({
  title,
  state,
  busy,
  run,
  verb,
  children,
}: {
  title: string;
  state: keyof typeof STATE;
  busy: boolean;
  run: () => void;
  verb: string;
  children: ReactNode;
}) {
  return (
    <Panel
      title={title}
      actions={
        <Button small busy={busy} onClick={run}>
          {busy ? "Running" : verb}
        </Button>
      }
    >
      <div className="flex flex-col gap-2">
        <p className="flex items-center gap-1.5">
          {state === "passed" && <CircleCheck aria-hidden className="size-4 text-ok" />}
          {state === "failed" && <CircleX aria-hidden className="size-4 text-bad" />}
          <span className={state === "passed" ? "text-ok" : state === "failed" ? "text-bad" : "text-muted"}>
            {busy ? "Running" : STATE[state]}
          </span>
        </p>
        {!busy && children}
      </div>
    </Panel>
  );
}
