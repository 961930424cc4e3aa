import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { BookOpen, CircleHelp, CloudOff, Menu as MenuIcon, PanelLeftOpen, Search, X } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { patiently } from "../api/chunks.ts";
import { useConnectionLost } from "../api/connection.ts";
import { useMay } from "../api/session.ts";
import { IconButton } from "../ui/button.tsx";
import { cx } from "../ui/class.ts";
import { useCurrentActions } from "./actions.ts";
import { RouteAnnouncer } from "./announcer.tsx";
import { NAV } from "./nav.ts";
import { useShortcuts } from "./shortcuts.ts";
import { ThemeSwitch } from "./theme-switch.tsx";
import { WorkspaceSwitcher } from "./workspace-switcher.tsx";

const IS_MAC = navigator.platform.startsWith("Mac");
const Palette = lazy(() => patiently(() => import("./palette.tsx")));
const Help = lazy(() => patiently(() => import("./help.tsx")));
const Toasts = lazy(() => patiently(() => import("./toasts.tsx")));

function Sidebar({ onGo }: { onGo: () => void }) {
  const may = useMay();
  return (
    <nav aria-label="Main" className="flex-1 overflow-y-auto px-2 py-2">
      {NAV.map(({ label, items }) => {
        const shown = items.filter(({ needs }) => may(needs));
        if (shown.length === 0) return null;
        return (
          <div key={label} className="mb-3">
            <div className="px-2 py-1 text-2xs font-medium tracking-wide text-faint uppercase">{label}</div>
            <ul>
              {shown.map(({ to, label: name, icon: Icon, key }) => (
                <li key={to}>
                  <Link
                    to={to}
                    onClick={onGo}
                    title={`${name} (g ${key})`}
                    className="flex h-7 items-center gap-2 rounded-md px-2 text-muted hover:bg-hover hover:text-ink"
                    activeProps={{ className: "bg-hover font-medium !text-ink", "aria-current": "page" }}
                  >
                    <Icon aria-hidden className="size-4 shrink-0" />
                    {name}
                  </Link>
                </li>
              ))}
            </ul>
          </div>
        );
      })}
    </nav>
  );
}

function LostBanner() {
  const lost = useConnectionLost();
  return (
    <div role="status" aria-live="polite">
      {lost && (
        <div className="flex items-center gap-2 border-b border-line bg-warn-soft px-4 py-1.5 text-warn">
          <CloudOff aria-hidden className="size-4 shrink-0" />
          The control plane does not answer. What you see may be out of date; we go on trying.
        </div>
      )}
    </div>
  );
}

/** What stands around every page: where you are, where you can go, and what holds everywhere. */
export function AppShell() {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const actions = useCurrentActions();
  const [open, setOpen] = useState<"palette" | "help" | null>(null);
  const [drawer, setDrawer] = useState(false);
  const [narrow, setNarrow] = useState(false);
  const jumps = Object.fromEntries(
    NAV.flatMap(({ items }) => items).map(({ key, to }) => [`g ${key}`, () => void navigate({ to } as never)]),
  );
  const pageKeys = Object.fromEntries(actions.flatMap(({ key, run }) => (key === undefined ? [] : [[key, run]])));
  useShortcuts({
    ...jumps,
    ...pageKeys,
    "mod+k": () => setOpen("palette"),
    "?": () => setOpen("help"),
    r: () => void queries.invalidateQueries(),
    "[": () => setNarrow((now) => !now),
    "/": () => document.querySelector<HTMLInputElement>("main input[type=search]")?.focus(),
  });
  return (
    <div className="flex h-full max-md:flex-col">
      <a
        href="#main"
        className="sr-only z-50 rounded-md bg-accent-solid px-3 py-2 text-white focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to the content
      </a>
      <header className="flex h-11 shrink-0 items-center gap-2 border-b border-line bg-side px-2 md:hidden">
        <button
          type="button"
          aria-label={drawer ? "Close the menu" : "Open the menu"}
          aria-expanded={drawer}
          onClick={() => setDrawer(!drawer)}
          className="inline-flex size-8 items-center justify-center rounded hover:bg-hover"
        >
          {drawer ? <X aria-hidden className="size-4" /> : <MenuIcon aria-hidden className="size-4" />}
        </button>
        <span className="font-semibold">Everdict Edge</span>
        <button
          type="button"
          aria-label="Command palette"
          onClick={() => setOpen("palette")}
          className="ml-auto inline-flex size-8 items-center justify-center rounded hover:bg-hover"
        >
          <Search aria-hidden className="size-4" />
        </button>
      </header>
      <aside
        aria-label="Sidebar"
        className={cx(
          "flex w-56 shrink-0 flex-col border-r border-line bg-side max-md:w-full max-md:border-r-0",
          !drawer && "max-md:hidden",
          drawer && "max-md:flex-1",
          narrow && "md:hidden",
        )}
      >
        <div className="flex flex-col gap-2 px-2 pt-2">
          <WorkspaceSwitcher />
          <button
            type="button"
            onClick={() => setOpen("palette")}
            className="flex h-7 items-center gap-2 rounded-md border border-line bg-surface px-2 text-faint hover:border-line-strong max-md:hidden"
          >
            <Search aria-hidden className="size-3.5" />
            Search or go to
            <kbd className="ml-auto text-2xs">{IS_MAC ? "⌘K" : "Ctrl K"}</kbd>
          </button>
        </div>
        <Sidebar onGo={() => setDrawer(false)} />
        <div className="flex items-center gap-1 border-t border-line p-2">
          <ThemeSwitch />
          <a
            href="/docs/"
            title="API reference"
            aria-label="API reference"
            className="ml-auto inline-flex size-7 items-center justify-center rounded text-faint hover:bg-hover hover:text-ink"
          >
            <BookOpen aria-hidden className="size-4" />
          </a>
          <button
            type="button"
            title="Keyboard shortcuts (?)"
            aria-label="Keyboard shortcuts"
            onClick={() => setOpen("help")}
            className="inline-flex size-7 items-center justify-center rounded text-faint hover:bg-hover hover:text-ink"
          >
            <CircleHelp aria-hidden className="size-4" />
          </button>
        </div>
      </aside>
      {narrow && (
        // The way back for those who did not hide it on purpose.
        <div className="flex shrink-0 flex-col border-r border-line bg-side p-1.5 max-md:hidden">
          <IconButton label="Show the sidebar ([)" onClick={() => setNarrow(false)}>
            <PanelLeftOpen aria-hidden className="size-4" />
          </IconButton>
        </div>
      )}
      <div className={cx("flex min-w-0 flex-1 flex-col", drawer && "max-md:hidden")}>
        <LostBanner />
        <main id="main" tabIndex={-1} className="min-h-0 flex-1 overflow-y-auto outline-none">
          <Outlet />
        </main>
      </div>
      <RouteAnnouncer />
      <Suspense>
        {open === "palette" && <Palette onClose={() => setOpen(null)} onHelp={() => setOpen("help")} />}
        {open === "help" && <Help onClose={() => setOpen(null)} />}
        <Toasts />
      </Suspense>
    </div>
  );
}
