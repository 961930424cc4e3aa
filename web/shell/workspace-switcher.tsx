import { ChevronsUpDown } from "lucide-react";
import { lazy, Suspense, useRef, useState } from "react";
import { patiently } from "../api/chunks.ts";
import { useSession } from "../api/session.ts";

const WorkspaceMenu = lazy(() => patiently(() => import("./workspace-menu.tsx")));

/** Where one acts, and the way to another place. */
export function WorkspaceSwitcher() {
  const { workspace } = useSession();
  const [open, setOpen] = useState(false);
  const anchor = useRef<HTMLButtonElement>(null);
  return (
    <>
      <button
        ref={anchor}
        type="button"
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(true)}
        className="flex h-9 w-full items-center gap-2 rounded-md px-2 text-left hover:bg-hover"
      >
        <span
          aria-hidden
          className="inline-flex size-5 items-center justify-center rounded bg-accent-solid text-2xs font-semibold text-white uppercase"
        >
          {workspace.slice(0, 1)}
        </span>
        <span className="min-w-0 flex-1 truncate font-semibold">
          <span className="sr-only">Workspace </span>
          {workspace}
        </span>
        <ChevronsUpDown aria-hidden className="size-3.5 text-faint" />
      </button>
      <Suspense>{open && <WorkspaceMenu anchor={anchor} onClose={() => setOpen(false)} />}</Suspense>
    </>
  );
}
