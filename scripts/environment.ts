import { dirname } from "node:path";

/** Folder of the checkout. */
export const ROOT = dirname(import.meta.dirname);

/** No build or local server looks anything up on the internet, nor reports anything. */
export const QUIET = {
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
  X_LOCAL_EXPLORER: "false",
  CI: "1",
} as const;

Object.assign(process.env, QUIET);

/** Environment of child processes: the pinned Node first in PATH. */
export const childEnvironment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  ...QUIET,
  PATH: `${ROOT}/node_modules/.bin:${process.env.PATH ?? ""}`,
});
