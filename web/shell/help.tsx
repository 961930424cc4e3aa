import { useState } from "react";
import { recall, remember } from "../api/stored.ts";
import { Modal } from "../ui/dialog.tsx";
import { useCurrentActions } from "./actions.ts";
import { NAV } from "./nav.ts";

const KEYS: readonly (readonly [string, string])[] = [
  ["⌘K / Ctrl K", "Command palette"],
  ["?", "This list"],
  ["j / k", "Next, previous row of a table"],
  ["Enter", "Open the row"],
  ["/", "Search or filter the page"],
  ["r", "Read the page's data again"],
  ["[", "Hide or show the sidebar"],
];

/** The keys, and the switch for those who cannot use single letters. */
export default function Help({ onClose }: { onClose: () => void }) {
  const [letters, setLetters] = useState(recall("letters") !== "off");
  const actions = useCurrentActions().filter(({ key }) => key !== undefined);
  const rows = [
    ...KEYS,
    ...actions.map(({ key, label }) => [key ?? "", label] as const),
    ...NAV.flatMap(({ items }) => items).map(({ key, label }) => [`g ${key}`, label] as const),
  ];
  return (
    <Modal open onClose={onClose} title="Keyboard shortcuts">
      <dl className="grid grid-cols-[8rem_1fr] gap-y-1.5">
        {rows.map(([keys, what]) => (
          <div key={keys} className="contents">
            <dt>
              <kbd className="rounded border border-line bg-sunken px-1.5 py-0.5 text-xs">{keys}</kbd>
            </dt>
            <dd className="text-muted">{what}</dd>
          </div>
        ))}
      </dl>
      <label className="mt-4 flex items-center gap-2 border-t border-line pt-3">
        <input
          type="checkbox"
          checked={letters}
          onChange={(event) => {
            setLetters(event.target.checked);
            remember("letters", event.target.checked ? null : "off");
          }}
        />
        Single letters and two-key jumps
      </label>
    </Modal>
  );
}
