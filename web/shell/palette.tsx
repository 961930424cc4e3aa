import { Dialog } from "@base-ui/react/dialog";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Database, Server, Terminal } from "lucide-react";
import { useState } from "react";
import type { Scorecard } from "../../contracts/scorecard.ts";
import { useAll } from "../api/queries.ts";
import { useMay, useSession } from "../api/session.ts";
import { useCurrentActions } from "./actions.ts";
import { NAV } from "./nav.ts";
import { setTheme } from "./theme.ts";

const ITEM =
  "flex h-8 cursor-pointer items-center gap-2 rounded px-2 data-[selected=true]:bg-accent-soft data-[selected=true]:text-accent";
const GROUP =
  "[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:py-1.5 [&_[cmdk-group-heading]]:text-xs [&_[cmdk-group-heading]]:text-faint";
/** Names change seldom; the palette is opened often. */
const NAMES_STALE_MS = 30_000;
const ID = /^(run|sc)_[0-9a-z]{1,32}$/;

/** ⌘K: what this page can do, then where to go, then what has a name or was seen lately. An id that is pasted opens its page. */
export default function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const { workspace } = useSession();
  const may = useMay();
  const actions = useCurrentActions();
  const [typed, setTyped] = useState("");
  const options = { staleTime: NAMES_STALE_MS };
  const runtimes = useAll("list_runtimes", {}, { ...options, enabled: may("list_runtimes") });
  const harnesses = useAll("list_harnesses", {}, { ...options, enabled: may("list_harnesses") });
  const datasets = useAll("list_datasets", {}, { ...options, enabled: may("list_datasets") });
  const named = [
    { what: "Runtime", base: "/runtimes", icon: Server, items: runtimes.data },
    { what: "Harness", base: "/harnesses", icon: Terminal, items: harnesses.data },
    { what: "Dataset", base: "/datasets", icon: Database, items: datasets.data },
  ].flatMap(({ items, ...rest }) => (items ?? []).map(({ id }) => ({ ...rest, id })));
  const recent = queries
    .getQueriesData<Scorecard>({ queryKey: [workspace, "get_scorecard"] })
    .flatMap(([, card]) => (card ? [card] : []))
    .slice(0, 5);
  const act = (run: () => void) => () => {
    onClose();
    run();
  };
  const go = (to: string) => act(() => void navigate({ to } as never));
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-black/40" />
        <Dialog.Popup
          aria-label="Command palette"
          className="fixed top-[12vh] left-1/2 z-50 w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 overflow-hidden rounded-lg border border-line bg-surface shadow-float outline-none"
        >
          <Command label="Command palette" loop>
            <Command.Input
              placeholder="Type a command, a page, a name, or paste an id"
              value={typed}
              onValueChange={setTyped}
              className="h-11 w-full border-b border-line bg-transparent px-4 text-base outline-none"
              onKeyDown={(event) => {
                const text = event.currentTarget.value.trim();
                if (event.key !== "Enter" || !ID.test(text)) return;
                event.preventDefault();
                go(text.startsWith("run_") ? `/runs/${text}` : `/scorecards/${text}`)();
              }}
            />
            <Command.List className="max-h-[50vh] overflow-auto p-1.5">
              <Command.Empty className="px-2 py-6 text-center text-muted">
                Nothing matches. An id of a run or scorecard opens with Enter.
              </Command.Empty>
              {actions.length > 0 && (
                <Command.Group heading="On this page" className={GROUP}>
                  {actions.map(({ id, label, key, run }) => (
                    <Command.Item key={id} value={label} onSelect={act(run)} className={ITEM}>
                      {label}
                      {key && <kbd className="ml-auto text-xs text-faint">{key}</kbd>}
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              <Command.Group heading="Go to" className={GROUP}>
                {NAV.flatMap(({ items }) => items)
                  .filter(({ needs }) => may(needs))
                  .map(({ to, label, icon: Icon, key }) => (
                    <Command.Item key={to} value={`Go to ${label}`} onSelect={go(to)} className={ITEM}>
                      <Icon aria-hidden className="size-4 text-faint" />
                      {label}
                      <kbd className="ml-auto text-xs text-faint">g {key}</kbd>
                    </Command.Item>
                  ))}
              </Command.Group>
              {typed.trim() !== "" && named.length > 0 && (
                <Command.Group heading="By name" className={GROUP}>
                  {named.map(({ what, base, icon: Icon, id }) => (
                    <Command.Item
                      key={`${base}/${id}`}
                      value={`${what} ${id}`}
                      onSelect={go(`${base}/${id}`)}
                      className={ITEM}
                    >
                      <Icon aria-hidden className="size-4 shrink-0 text-faint" />
                      <span className="truncate">{id}</span>
                      <span className="ml-auto text-xs text-faint">{what}</span>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              {recent.length > 0 && (
                <Command.Group heading="Seen lately" className={GROUP}>
                  {recent.map(({ id, dataset, harness }) => (
                    <Command.Item
                      key={id}
                      value={`${dataset.id} ${harness.id} ${id}`}
                      onSelect={go(`/scorecards/${id}`)}
                      className={ITEM}
                    >
                      {dataset.id} × {harness.id}
                      <code className="ml-auto truncate text-xs text-faint">{id}</code>
                    </Command.Item>
                  ))}
                </Command.Group>
              )}
              <Command.Group heading="Data" className={GROUP}>
                <Command.Item
                  value="Refresh, read again"
                  onSelect={act(() => void queries.invalidateQueries())}
                  className={ITEM}
                >
                  Read the page's data again
                  <kbd className="ml-auto text-xs text-faint">r</kbd>
                </Command.Item>
              </Command.Group>
              <Command.Group heading="Appearance and help" className={GROUP}>
                {(["light", "dark", "system"] as const).map((theme) => (
                  <Command.Item
                    key={theme}
                    value={`Theme ${theme}`}
                    onSelect={act(() => setTheme(theme))}
                    className={ITEM}
                  >
                    Theme: {theme}
                  </Command.Item>
                ))}
                <Command.Item value="Keyboard shortcuts" onSelect={act(onHelp)} className={ITEM}>
                  Keyboard shortcuts
                  <kbd className="ml-auto text-xs text-faint">?</kbd>
                </Command.Item>
                <Command.Item
                  value="API reference"
                  onSelect={act(() => window.location.assign("/docs/"))}
                  className={ITEM}
                >
                  API reference
                </Command.Item>
              </Command.Group>
            </Command.List>
          </Command>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
