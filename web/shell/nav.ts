import { Gauge, ListOrdered, Play } from "lucide-react";
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
];
