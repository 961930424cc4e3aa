import { createRoute } from "@tanstack/react-router";
import { FAILURE_CLASSES, RUN_STATUSES } from "../../contracts/run-states.ts";
import { lazyPage } from "../api/chunks.ts";
import { oneOf, searchOf, sort, text } from "../api/search.ts";
import { shellRoute } from "./root.tsx";

const SCORECARD_STATUSES = ["queued", "running", "succeeded", "failed", "cancelled"] as const;

export const runsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runs",
  validateSearch: searchOf({ status: oneOf(RUN_STATUSES), target: text, scorecard: text }),
  component: lazyPage(() => import("../pages/runs/runs-page.tsx"), "RunsPage"),
});

export const runRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runs/$id",
  validateSearch: searchOf({ tab: oneOf(["overview", "log", "result", "placement"]), q: text, line: text }),
  component: lazyPage(() => import("../pages/runs/run-page.tsx"), "RunPage"),
});

export const scorecardsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/scorecards",
  validateSearch: searchOf({ status: oneOf(SCORECARD_STATUSES), dataset: text, view: oneOf(["list", "trend"]) }),
  component: lazyPage(() => import("../pages/scorecards/scorecards-page.tsx"), "ScorecardsPage"),
});

export const newScorecardRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/scorecards/new",
  validateSearch: searchOf({ dataset: text, harness: text, runtime: text }),
  component: lazyPage(() => import("../pages/scorecards/new-scorecard-page.tsx"), "NewScorecardPage"),
});

export const compareRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/scorecards/compare",
  validateSearch: searchOf({ a: text, b: text, show: oneOf(["improved", "regressed", "changed"]), sort, q: text }),
  component: lazyPage(() => import("../pages/scorecards/compare-page.tsx"), "ComparePage"),
});

export const SHOWN_STATUSES = ["queued", "running", "passed", "not-passed", "failed", "cancelled"] as const;
export type ShownStatus = (typeof SHOWN_STATUSES)[number];

export const scorecardRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/scorecards/$id",
  validateSearch: searchOf({
    tab: oneOf(["cases", "failures", "heat", "durations"]),
    status: oneOf(SHOWN_STATUSES),
    class: oneOf(FAILURE_CLASSES),
    q: text,
    sort,
  }),
  component: lazyPage(() => import("../pages/scorecards/scorecard-page.tsx"), "ScorecardPage"),
});

export const queueRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/queue",
  validateSearch: searchOf({ target: text, sort, view: oneOf(["now", "hour"]) }),
  component: lazyPage(() => import("../pages/queue/queue-page.tsx"), "QueuePage"),
});

export const evaluateRoutes = [
  runsRoute,
  runRoute,
  scorecardsRoute,
  newScorecardRoute,
  compareRoute,
  scorecardRoute,
  queueRoute,
] as const;
