import { type ReactNode, useRef } from "react";
import { cx } from "./class.ts";

export interface Tab<T extends string> {
  id: T;
  label: string;
  count?: number | undefined;
}

/** Tabs whose choice is in the URL: the caller holds it. The panel is the caller's, with `tabPanel(id)`. */
export function Tabs<T extends string>({
  label,
  tabs,
  value,
  onChange,
}: {
  label: string;
  tabs: readonly Tab<T>[];
  value: T;
  onChange: (value: T) => void;
}) {
  const list = useRef<HTMLDivElement>(null);
  const move = (step: number) => {
    const at = tabs.findIndex(({ id }) => id === value);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onChange(next.id);
    list.current?.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
  };
  return (
    <div
      ref={list}
      role="tablist"
      aria-label={label}
      className="-mb-px flex gap-4 overflow-x-auto"
      onKeyDown={(event) => {
        if (event.key === "ArrowRight") move(1);
        if (event.key === "ArrowLeft") move(-1);
      }}
    >
      {tabs.map(({ id, label: name, count }) => {
        const selected = id === value;
        return (
          <button
            key={id}
            id={`tab-${id}`}
            type="button"
            role="tab"
            aria-selected={selected}
            aria-controls={`panel-${id}`}
            tabIndex={selected ? 0 : -1}
            onClick={() => onChange(id)}
            className={cx(
              "flex h-8 items-center gap-1.5 border-b-2 whitespace-nowrap",
              selected ? "border-accent font-medium text-ink" : "border-transparent text-muted hover:text-ink",
            )}
          >
            {name}
            {count !== undefined && (
              <span className="rounded bg-idle-soft px-1 text-2xs text-muted tabular-nums">
                {count.toLocaleString("en")}
              </span>
            )}
          </button>
        );
      })}
    </div>
  );
}

export function TabPanel({ id, children, className }: { id: string; children: ReactNode; className?: string }) {
  return (
    <div
      id={`panel-${id}`}
      role="tabpanel"
      aria-labelledby={`tab-${id}`}
      tabIndex={-1}
      className={cx("outline-none", className)}
    >
      {children}
    </div>
  );
}
