import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { RUN_STATUSES } from "../../contracts/run-states.ts";
import { oneOf, searchOf, text } from "../api/search.ts";
import { shellRoute } from "./root.tsx";

export const runsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runs",
  validateSearch: searchOf({ status: oneOf(RUN_STATUSES), target: text, scorecard: text }),
  component: lazyRouteComponent(() => import("../pages/runs/runs-page.tsx"), "RunsPage"),
});

export const runRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runs/$id",
  validateSearch: searchOf({ tab: oneOf(["overview", "log", "result", "placement"]), q: text, line: text }),
  component: lazyRouteComponent(() => import("../pages/runs/run-page.tsx"), "RunPage"),
});

export const evaluateRoutes = [runsRoute, runRoute] as const;
