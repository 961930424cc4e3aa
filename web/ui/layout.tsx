import { Link, useNavigate } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { type ReactNode, useEffect, useRef } from "react";
import { usePageActions } from "../shell/actions.ts";
import { cx } from "./class.ts";
import { useKeptFocus } from "./kept-focus.ts";

export interface Crumb {
  label: string;
  to: string;
}

/**
 * A page: its title is the document's, its heading takes the focus after a change of page, and the change is announced
 * (shell/announcer.tsx).
 */
export function Page({
  title,
  heading,
  crumbs = [],
  actions,
  tabs,
  wide = true,
  children,
}: {
  title: string;
  /** Beside the title: chips and ids. */
  heading?: ReactNode;
  crumbs?: Crumb[];
  actions?: ReactNode;
  tabs?: ReactNode;
  wide?: boolean;
  children: ReactNode;
}) {
  const ref = useRef<HTMLHeadingElement>(null);
  const content = useRef<HTMLDivElement>(null);
  useKeptFocus(content, ref);
  const navigate = useNavigate();
  const up = crumbs.at(-1);
  usePageActions(
    up ? [{ id: "up", label: `Go up to ${up.label}`, key: "u", run: () => void navigate({ to: up.to } as never) }] : [],
  );
  useEffect(() => {
    document.title = `${title} · Everdict Edge`;
  }, [title]);
  return (
    <div className="flex min-h-full flex-col">
      <header className="border-b border-line px-4 pt-3 md:px-6">
        <div className="flex min-h-10 flex-wrap items-center gap-x-3 gap-y-2 pb-3">
          {crumbs.length > 0 && (
            <nav aria-label="Breadcrumb" className="md:-mr-2">
              <ol className="flex items-center gap-1 text-muted">
                {crumbs.map(({ label, to }) => (
                  <li key={to} className="flex items-center gap-1">
                    <Link to={to} className="rounded hover:text-ink hover:underline">
                      {label}
                    </Link>
                    <ChevronRight aria-hidden className="size-3.5 text-faint" />
                  </li>
                ))}
              </ol>
            </nav>
          )}
          <div className="flex min-w-0 flex-wrap items-center gap-x-2.5 gap-y-1">
            <h1
              ref={ref}
              id="page-title"
              tabIndex={-1}
              title={title}
              className="text-lg font-semibold tracking-tight wrap-anywhere md:truncate"
            >
              {title}
            </h1>
            {heading}
          </div>
          {actions && <div className="ml-auto flex flex-wrap items-center gap-2">{actions}</div>}
        </div>
        {tabs}
      </header>
      <div ref={content} className={cx("w-full flex-1 px-4 py-4 md:px-6", !wide && "max-w-3xl")}>
        {children}
      </div>
    </div>
  );
}

/** A part of a page with a heading and a border. */
export function Panel({
  title,
  actions,
  className,
  flush = false,
  children,
}: {
  title: string;
  actions?: ReactNode;
  className?: string;
  /** Without padding, for a table. */
  flush?: boolean;
  children: ReactNode;
}) {
  return (
    <section aria-label={title} className={cx("min-w-0 rounded-lg border border-line bg-surface", className)}>
      <div className="flex min-h-10 flex-wrap items-center gap-2 border-b border-line px-3 py-1.5">
        <h2 className="font-medium">{title}</h2>
        {actions && <div className="ml-auto flex flex-wrap items-center gap-1.5">{actions}</div>}
      </div>
      <div className={flush ? "" : "p-3"}>{children}</div>
    </section>
  );
}

/** Facts about one thing: name and value. */
export function Facts({ items, className }: { items: readonly (readonly [string, ReactNode])[]; className?: string }) {
  return (
    <dl className={cx("grid grid-cols-[minmax(6.5rem,auto)_1fr] gap-x-4 gap-y-1.5", className)}>
      {items.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="flex min-h-5 min-w-0 flex-wrap items-center gap-x-2 wrap-anywhere">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A figure with its name: for the head of a page. */
export function Figure({ name, value, note }: { name: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="min-w-28">
      <div className="text-xs text-muted">{name}</div>
      <div className="mt-0.5 text-xl font-semibold tracking-tight tabular-nums">{value}</div>
      <div className="min-h-4.5 text-xs text-faint tabular-nums">{note}</div>
    </div>
  );
}
