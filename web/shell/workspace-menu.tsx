import { Menu } from "@base-ui/react/menu";
import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Check } from "lucide-react";
import type { RefObject } from "react";
import { useSession } from "../api/session.ts";
import { remember } from "../api/stored.ts";
import { useSignOut } from "./sign-out.ts";

const ITEM = "flex h-8 cursor-pointer items-center gap-2 rounded px-2 outline-none data-highlighted:bg-hover";

/** The workspaces of whoever is signed in. Ids mean nothing across workspaces, so another one starts at its scorecards. */
export default function WorkspaceMenu({
  anchor,
  onClose,
}: {
  anchor: RefObject<HTMLButtonElement | null>;
  onClose: () => void;
}) {
  const { me, workspace } = useSession();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const signOut = useSignOut();
  const choose = (id: string) => {
    remember("workspace", id);
    queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] === workspace });
    void navigate({ to: "/scorecards", search: { workspace: id } } as never);
  };
  return (
    <Menu.Root open onOpenChange={(open) => !open && onClose()}>
      <Menu.Portal>
        <Menu.Positioner anchor={anchor} sideOffset={4} align="start" className="z-50">
          <Menu.Popup
            finalFocus={anchor}
            aria-label="Workspace"
            className="max-h-80 min-w-56 overflow-auto rounded-lg border border-line bg-surface p-1 shadow-float outline-none"
          >
            {me.workspaces.map(({ id, name }) => (
              <Menu.Item key={id} onClick={() => choose(id)} className={ITEM}>
                <span className="truncate">{name}</span>
                <code className="text-xs text-faint">{id}</code>
                {id === workspace && <Check aria-label="current" className="ml-auto size-4 text-accent" />}
              </Menu.Item>
            ))}
            <Menu.Separator className="my-1 h-px bg-line" />
            <Menu.Group>
              <Menu.GroupLabel className="px-2 py-1 text-xs text-muted">
                <code>{me.subject}</code> · {me.role}
                {me.operator && " · operator"}
              </Menu.GroupLabel>
              {signOut && (
                <Menu.Item onClick={() => void signOut()} className={ITEM}>
                  Sign out
                </Menu.Item>
              )}
            </Menu.Group>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
