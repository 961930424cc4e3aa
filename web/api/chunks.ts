import { lazyRouteComponent } from "@tanstack/react-router";
import { pauseUntilHeard, setConnectionLost } from "./connection.ts";

const AGAIN_MS = 2_000;

/** Whether the server is there: any answer will do. */
const answers = (): Promise<boolean> =>
  fetch("/dashboard/", { method: "HEAD", cache: "no-store" }).then(
    () => true,
    () => false,
  );

/**
 * Loads code of the dashboard. While the control plane does not answer, it is asked for again and what is shown stays; it
 * fails only where the server is there and no longer has it, because it serves a newer version.
 */
export async function patiently<T>(load: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await load();
    } catch (error) {
      if (await answers()) throw error;
      setConnectionLost(true);
      await pauseUntilHeard(AGAIN_MS);
    }
  }
}

/** A page in a chunk of its own. */
// biome-ignore lint/suspicious/noExplicitAny: as the router types what it loads
export const lazyPage = <T extends Record<string, any>, K extends keyof T & string>(
  load: () => Promise<T>,
  name: K,
): ReturnType<typeof lazyRouteComponent<T, K>> => lazyRouteComponent(() => patiently(load), name);
