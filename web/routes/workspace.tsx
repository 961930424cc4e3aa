import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../api/chunks.ts";
import { oneOf, searchOf, sort, text } from "../api/search.ts";
import { rootRoute, shellRoute } from "./root.tsx";

export const secretsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/secrets",
  validateSearch: searchOf({ sort }),
  component: lazyPage(() => import("../pages/workspace/secrets-page.tsx"), "SecretsPage"),
});

export const keysRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/api-keys",
  validateSearch: searchOf({ sort }),
  component: lazyPage(() => import("../pages/workspace/keys-page.tsx"), "KeysPage"),
});

export const membersRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/members",
  validateSearch: searchOf({ sort }),
  component: lazyPage(() => import("../pages/workspace/members-page.tsx"), "MembersPage"),
});

export const auditRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/audit",
  validateSearch: searchOf({ q: text }),
  component: lazyPage(() => import("../pages/workspace/audit-page.tsx"), "AuditPage"),
});

export const limitsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/limits",
  component: lazyPage(() => import("../pages/workspace/limits-page.tsx"), "LimitsPage"),
});

export const workspaceRoutes = [secretsRoute, keysRoute, membersRoute, auditRoute, limitsRoute] as const;

/** Outside the frame: nobody is signed in there yet. */
export const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: searchOf({
    to: text,
    error: oneOf(["UNAUTHENTICATED", "UNAVAILABLE", "NOT_FOUND"]),
    provider: oneOf(["access_denied"]),
  }),
  component: lazyPage(() => import("../pages/workspace/sign-in-page.tsx"), "SignInPage"),
});
