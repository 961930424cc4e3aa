import { createRouter } from "@tanstack/react-router";
import { parseSearch, stringifySearch } from "./api/search.ts";
import { evaluateRoutes } from "./routes/evaluate.tsx";
import { homeRoute, rootRoute, shellRoute } from "./routes/root.tsx";

const routeTree = rootRoute.addChildren([homeRoute, shellRoute.addChildren([...evaluateRoutes])]);

export const router = createRouter({
  routeTree,
  basepath: "/dashboard",
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  defaultPendingMs: 200,
  scrollRestoration: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
