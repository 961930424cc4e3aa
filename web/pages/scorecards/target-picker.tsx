import { cx } from "../../ui/class.ts";
import { Chip, Dot, Tag } from "../../ui/status.tsx";
import type { Choice, Preview } from "./predict.ts";

export interface Picked {
  /** cases: as each case says, else the deployment's own; auto: every capable runtime; named: these. */
  mode: "cases" | "auto" | "named";
  targets: readonly string[];
}

const GROUPS: readonly (readonly [Choice["group"], string])[] = [
  ["runtime", "Runtimes"],
  ["own-runners", "My machines"],
  ["workspace-runners", "The workspace's machines"],
];

const ROW = "flex min-h-9 flex-wrap items-center gap-x-3 gap-y-0.5 px-3 py-1.5";

function Reach({ choice }: { choice: Choice }) {
  if (choice.online === null) return null;
  return (
    <Dot tone={choice.online ? "ok" : "idle"}>
      <span className="text-xs">{choice.online ? "online" : "offline"}</span>
    </Dot>
  );
}

/** One place. One that cannot run the cases stays to be seen, says what it lacks, and can be reached by the keyboard. */
function Row({ choice, checked, onToggle }: { choice: Choice; checked: boolean; onToggle: () => void }) {
  const { slots } = choice;
  const id = `target-${choice.target.replaceAll(/[^a-z0-9-]/gi, "-")}`;
  return (
    <li className={cx(ROW, !choice.ok && "bg-sunken")}>
      <input
        type="checkbox"
        id={id}
        checked={checked}
        aria-disabled={!choice.ok || undefined}
        aria-describedby={`${id}-facts`}
        onChange={() => {
          if (choice.ok) onToggle();
        }}
      />
      <label htmlFor={id} className={cx("font-medium wrap-anywhere", !choice.ok && "text-faint")}>
        {choice.label}
      </label>
      <span id={`${id}-facts`} className="flex flex-wrap items-center gap-x-3 gap-y-0.5 text-muted">
        {choice.kind !== "pool" && choice.kind !== "runner" && <Tag>{choice.kind}</Tag>}
        {choice.shared && <Tag>shared</Tag>}
        <Reach choice={choice} />
        {choice.reason !== null && (
          <Chip title="It cannot be chosen for these cases" className="!h-auto min-h-5 !whitespace-normal">
            {choice.reason}
          </Chip>
        )}
        {choice.ok && slots && slots.total > 0 && (
          <span className="text-xs tabular-nums">
            {Math.max(0, slots.total - slots.inFlight)} of {slots.total} free
          </span>
        )}
        {choice.ok && <span className="text-xs tabular-nums">{choice.queued} waiting</span>}
      </span>
    </li>
  );
}

/** Where it runs: a rule, or places by name; what can run the cases stands before what cannot. */
export function TargetPicker({
  preview,
  value,
  onChange,
}: {
  preview: Preview;
  value: Picked;
  onChange: (next: Picked) => void;
}) {
  const anyRuntime = preview.targets.some(({ group, ok }) => group === "runtime" && ok);
  const toggle = (target: string) => {
    const on = value.mode === "named" && value.targets.includes(target);
    const before = value.mode === "named" ? value.targets : [];
    onChange({ mode: "named", targets: on ? before.filter((other) => other !== target) : [...before, target] });
  };
  const rules: { mode: "cases" | "auto"; label: string; detail: string; ok: boolean }[] = [
    {
      mode: "cases",
      label: "As each case says",
      detail:
        preview.placed.length > 0
          ? `cases name ${preview.placed.join(", ")}${preview.default === null ? "" : `; the others run on ${preview.default}`}`
          : preview.default === null
            ? "no case names a target, and the deployment has none of its own"
            : `no case names a target; the deployment's own is ${preview.default}`,
      ok: preview.placed.length > 0 || preview.default !== null,
    },
    {
      mode: "auto",
      label: "Every capable runtime",
      detail: anyRuntime ? "cases are shared by how fast each one proves to be" : "no runtime has what the cases need",
      ok: anyRuntime,
    },
  ];
  return (
    <div className="divide-y divide-line overflow-hidden rounded-md border border-line-strong bg-surface">
      <ul aria-label="By rule">
        {rules.map(({ mode, label, detail, ok }) => (
          <li key={mode} className={cx(ROW, !ok && "bg-sunken")}>
            <input
              type="radio"
              name="target-rule"
              id={`rule-${mode}`}
              checked={value.mode === mode}
              aria-disabled={!ok || undefined}
              aria-describedby={`rule-${mode}-detail`}
              onChange={() => {
                if (ok) onChange({ mode, targets: [] });
              }}
            />
            <label htmlFor={`rule-${mode}`} className={cx("font-medium", !ok && "text-faint")}>
              {label}
            </label>
            <span id={`rule-${mode}-detail`} className="text-xs text-muted">
              {detail}
            </span>
          </li>
        ))}
      </ul>
      {GROUPS.map(([group, title]) => {
        const all = preview.targets.filter((choice) => choice.group === group);
        if (all.length === 0) return null;
        const able = all.filter(({ ok }) => ok);
        const unable = all.filter(({ ok }) => !ok);
        return (
          <section key={group} aria-label={title}>
            <h3 className="bg-side px-3 py-1 text-xs font-medium text-muted">{title}</h3>
            {[["can run this", able] as const, ["cannot", unable] as const].map(
              ([words, list]) =>
                list.length > 0 && (
                  <div key={words}>
                    <div className="px-3 pt-1.5 text-2xs tracking-wide text-faint uppercase">{words}</div>
                    <ul aria-label={`${title}: ${words}`}>
                      {list.map((choice) => (
                        <Row
                          key={choice.target}
                          choice={choice}
                          checked={value.mode === "named" && value.targets.includes(choice.target)}
                          onToggle={() => toggle(choice.target)}
                        />
                      ))}
                    </ul>
                  </div>
                ),
            )}
          </section>
        );
      })}
      {preview.targets.length === 0 && (
        <p className="px-3 py-3 text-muted">
          There is nothing to run on yet: register a runtime, or pair a machine with <code>everdict runner --pair</code>
          .
        </p>
      )}
    </div>
  );
}
