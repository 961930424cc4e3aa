import { createRootRoute, createRoute, Outlet, redirect, retainSearchParams } from "@tanstack/react-router";
import { searchOf, text } from "../api/search.ts";
import { AppShell } from "../shell/app-shell.tsx";
import { SessionProvider } from "../shell/session-provider.tsx";
import { NotFound, RouteError } from "./trouble.tsx";

/** The workspace is part of every address below. */
export const rootRoute = createRootRoute({
  validateSearch: searchOf({ workspace: text }),
  search: { middlewares: [retainSearchParams<{ workspace?: string | undefined }>(["workspace"]) as never] },
  component: Outlet,
  errorComponent: RouteError,
});

/** Parent of every page that needs somebody signed in, in a workspace. */
export const shellRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "shell",
  component: () => (
    <SessionProvider>
      <AppShell />
    </SessionProvider>
  ),
});

/** Whatever is at no other address. */
export const nowhereRoute = createRoute({ getParentRoute: () => shellRoute, path: "$", component: NotFound });

export const homeRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/scorecards", replace: true } as never);
  },
});
