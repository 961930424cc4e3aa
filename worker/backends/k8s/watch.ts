import * as z from "zod";
import type { BackendOwner } from "../backend.ts";
import { readChunks } from "../transport/read-body.ts";
import { Pod } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { MAIN, selectorOf } from "./labels.ts";
import { RIGHTS } from "./rights.ts";

/** Beyond the watch's own end, for the network. */
const SLACK_MS = 5_000;
const MAX_WATCH_BYTES = 16 * 1024 * 1024;
const MAX_LINE_CHARS = 2 * 1024 * 1024;

const WatchEvent = z.object({ type: z.string(), object: z.unknown() });

/** What of a pod is news: where it stands, not what its controllers noted. */
export function standing(pod: Pod): string {
  const { status, metadata } = pod;
  const main = status.containerStatuses?.find(({ name }) => name === MAIN)?.state;
  const container = main?.terminated ? "ended" : main?.running ? "running" : (main?.waiting?.reason ?? "");
  const broken = status.initContainerStatuses?.some(({ state }) => (state.terminated?.exitCode ?? 0) !== 0) ?? false;
  return [status.phase ?? "", container, metadata.deletionTimestamp != null, broken].join("/");
}

/**
 * Waits for news of an object's pods by the cluster's own watch. An old resourceVersion comes back as HTTP 200 with one
 * ERROR event; like any other end of the watch it only means: list again.
 * @param known standing of each pod by uid, from the listing that the watch goes on from
 * @throws ClusterError when the watch could not be opened or broke
 */
export async function waitForNews(
  client: K8sClient,
  owner: BackendOwner,
  resourceVersion: string,
  known: ReadonlyMap<string, string>,
  waitMs: number,
): Promise<void> {
  const response = await client.open(RIGHTS.watchPods, {
    query: {
      watch: "1",
      labelSelector: selectorOf(owner),
      resourceVersion,
      allowWatchBookmarks: "true",
      timeoutSeconds: String(Math.max(1, Math.ceil(waitMs / 1_000))),
    },
    deadlineMs: waitMs + SLACK_MS,
  });
  const decoder = new TextDecoder();
  let line = "";
  try {
    await readChunks(response, MAX_WATCH_BYTES, (chunk) => {
      line += decoder.decode(chunk, { stream: true });
      for (let end = line.indexOf("\n"); end >= 0; end = line.indexOf("\n")) {
        if (isNews(line.slice(0, end), known)) return false;
        line = line.slice(end + 1);
      }
      return line.length <= MAX_LINE_CHARS;
    });
  } catch {
    // A watch that breaks is a watch that ended: the next listing says what is.
  }
}

function isNews(line: string, known: ReadonlyMap<string, string>): boolean {
  if (line.trim() === "") return false;
  let raw: unknown;
  try {
    raw = JSON.parse(line);
  } catch {
    return true;
  }
  const event = WatchEvent.safeParse(raw);
  if (!event.success || event.data.type === "ERROR") return true;
  if (event.data.type === "BOOKMARK") return false;
  const pod = Pod.safeParse(event.data.object);
  if (!pod.success || event.data.type === "DELETED") return true;
  return known.get(pod.data.metadata.uid) !== standing(pod.data);
}
