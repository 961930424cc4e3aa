import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../api/chunks.ts";
import { oneOf, searchOf, sort, text } from "../api/search.ts";
import { shellRoute } from "./root.tsx";

const KINDS = ["local", "nomad", "k8s"] as const;

export const runtimesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runtimes",
  validateSearch: searchOf({ kind: oneOf(KINDS), q: text, archived: oneOf(["true"]), sort }),
  component: lazyPage(() => import("../pages/runtimes/runtimes-page.tsx"), "RuntimesPage"),
});

export const newRuntimeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runtimes/new",
  validateSearch: searchOf({ kind: oneOf(KINDS) }),
  component: lazyPage(() => import("../pages/runtimes/new-runtime-page.tsx"), "NewRuntimePage"),
});

export const runtimeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runtimes/$id",
  validateSearch: searchOf({ tab: oneOf(["overview", "cluster", "queue", "versions"]), version: text, against: text }),
  component: lazyPage(() => import("../pages/runtimes/runtime-page.tsx"), "RuntimePage"),
});

export const editRuntimeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runtimes/$id/edit",
  validateSearch: searchOf({ version: text }),
  component: lazyPage(() => import("../pages/runtimes/new-runtime-page.tsx"), "EditRuntimePage"),
});

export const runnersRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/runners",
  validateSearch: searchOf({ whose: oneOf(["mine", "workspace"]), offline: oneOf(["hide"]), sort }),
  component: lazyPage(() => import("../pages/machines/runners-page.tsx"), "RunnersPage"),
});

export const relaysRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/relays",
  validateSearch: searchOf({ sort }),
  component: lazyPage(() => import("../pages/machines/relays-page.tsx"), "RelaysPage"),
});

export const computeRoutes = [
  runtimesRoute,
  newRuntimeRoute,
  runtimeRoute,
  editRuntimeRoute,
  runnersRoute,
  relaysRoute,
] as const;
