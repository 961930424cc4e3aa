import { createRoute } from "@tanstack/react-router";
import { lazyPage } from "../api/chunks.ts";
import { oneOf, searchOf, sort, text } from "../api/search.ts";
import { shellRoute } from "./root.tsx";

const listSearch = searchOf({ q: text, archived: oneOf(["true"]), sort });

export const harnessesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/harnesses",
  validateSearch: listSearch,
  component: lazyPage(() => import("../pages/library/library-pages.tsx"), "HarnessesPage"),
});

export const newHarnessRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/harnesses/new",
  validateSearch: searchOf({ from: text, version: text }),
  component: lazyPage(() => import("../pages/library/new-harness-page.tsx"), "NewHarnessPage"),
});

export const harnessRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/harnesses/$id",
  validateSearch: searchOf({ version: text, against: text }),
  component: lazyPage(() => import("../pages/library/harness-page.tsx"), "HarnessPage"),
});

export const datasetsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/datasets",
  validateSearch: listSearch,
  component: lazyPage(() => import("../pages/library/library-pages.tsx"), "DatasetsPage"),
});

export const newDatasetRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/datasets/new",
  validateSearch: searchOf({ from: text }),
  component: lazyPage(() => import("../pages/library/new-dataset-page.tsx"), "NewDatasetPage"),
});

export const datasetRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/datasets/$id",
  validateSearch: searchOf({ version: text, case: text }),
  component: lazyPage(() => import("../pages/library/dataset-page.tsx"), "DatasetPage"),
});

export const libraryRoutes = [
  harnessesRoute,
  newHarnessRoute,
  harnessRoute,
  datasetsRoute,
  newDatasetRoute,
  datasetRoute,
] as const;
