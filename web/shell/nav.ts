import {
  Database,
  Gauge,
  Key,
  KeyRound,
  Laptop,
  ListOrdered,
  Play,
  ScrollText,
  Server,
  SlidersHorizontal,
  Terminal,
  Users,
  Waypoints,
} from "lucide-react";
import type { ComponentType } from "react";
import type { OperationName } from "../../contracts/operations/index.ts";

export interface NavItem {
  to: string;
  label: string;
  icon: ComponentType<{ className?: string; "aria-hidden"?: boolean }>;
  /** The second key of `g …`. */
  key: string;
  /** Shown only to those who may do this. */
  needs: OperationName;
}

export interface NavGroup {
  label: string;
  items: readonly NavItem[];
}

/** The sidebar, the two-key jumps and the palette's "go to", in one place. */
export const NAV: readonly NavGroup[] = [
  {
    label: "Evaluate",
    items: [
      { to: "/scorecards", label: "Scorecards", icon: Gauge, key: "s", needs: "list_scorecards" },
      { to: "/runs", label: "Runs", icon: Play, key: "r", needs: "list_runs" },
      { to: "/queue", label: "Queue", icon: ListOrdered, key: "q", needs: "get_queue" },
    ],
  },
  {
    label: "Compute",
    items: [
      { to: "/runtimes", label: "Runtimes", icon: Server, key: "t", needs: "list_runtimes" },
      { to: "/runners", label: "Runners", icon: Laptop, key: "m", needs: "list_runners" },
      { to: "/relays", label: "Relays", icon: Waypoints, key: "y", needs: "list_relays" },
    ],
  },
  {
    label: "Library",
    items: [
      { to: "/harnesses", label: "Harnesses", icon: Terminal, key: "h", needs: "list_harnesses" },
      { to: "/datasets", label: "Datasets", icon: Database, key: "d", needs: "list_datasets" },
    ],
  },
  {
    label: "Workspace",
    items: [
      { to: "/secrets", label: "Secrets", icon: KeyRound, key: "e", needs: "list_secrets" },
      { to: "/api-keys", label: "API keys", icon: Key, key: "k", needs: "list_api_keys" },
      { to: "/members", label: "Members", icon: Users, key: "p", needs: "list_members" },
      { to: "/audit", label: "Audit", icon: ScrollText, key: "a", needs: "list_audit" },
      { to: "/limits", label: "Limits", icon: SlidersHorizontal, key: "l", needs: "get_workspace_limits" },
    ],
  },
];
