import { createRouter } from "@tanstack/react-router";
import { parseSearch, stringifySearch } from "./api/search.ts";
import { computeRoutes } from "./routes/compute.tsx";
import { evaluateRoutes } from "./routes/evaluate.tsx";
import { libraryRoutes } from "./routes/library.tsx";
import { homeRoute, nowhereRoute, rootRoute, shellRoute } from "./routes/root.tsx";
import { RouteError } from "./routes/trouble.tsx";
import { signInRoute, workspaceRoutes } from "./routes/workspace.tsx";

const routeTree = rootRoute.addChildren([
  homeRoute,
  signInRoute,
  shellRoute.addChildren([...evaluateRoutes, ...computeRoutes, ...libraryRoutes, ...workspaceRoutes, nowhereRoute]),
]);

export const router = createRouter({
  routeTree,
  basepath: "/dashboard",
  parseSearch,
  stringifySearch,
  // A page that breaks leaves the frame around it.
  defaultErrorComponent: RouteError,
  defaultPreload: "intent",
  defaultPendingMs: 200,
  scrollRestoration: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
