import type { LogOptions, LogTail } from "../backend.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { jobAllocations, logTail, readJob } from "./calls.ts";
import type { NomadClient } from "./client.ts";
import { MAIN_TASK } from "./document.ts";
import { failureOfWords, isEnded } from "./evidence.ts";

const MAX_TAIL_BYTES = 1024 * 1024;

/**
 * The newest output of a job's last allocation: standard output, then standard error, as Nomad keeps them apart.
 * @throws ClusterError; NOT_FOUND for an unknown job, or in Nomad's words and ours when its log is gone (N 16)
 */
export async function jobLogs(client: NomadClient, name: string, options: LogOptions): Promise<LogTail> {
  const bytes = Math.min(Math.max(1, options.tailBytes), MAX_TAIL_BYTES);
  const allocations = await jobAllocations(client, name);
  const alloc = allocations.at(-1);
  if (alloc === undefined) {
    if ((await readJob(client, name)) === null)
      throw new ClusterError("NOT_FOUND", `the cluster knows no job '${name}'`, { status: 404 });
    return { text: "", live: true };
  }
  const live = !isEnded(alloc.ClientStatus);
  try {
    const stdout = await logTail(client, alloc.ID, MAIN_TASK, "stdout", bytes);
    const stderr = await logTail(client, alloc.ID, MAIN_TASK, "stderr", bytes);
    return { text: joined(stdout, stderr, bytes), live };
  } catch (error) {
    if (!(error instanceof ClusterError) || error.code !== "NOT_FOUND") throw error;
    // A task that is on its way has no log yet, also one whose allocation was just made.
    if (live && /not started yet|Unknown allocation/.test(error.reason)) return { text: "", live };
    const { message } = failureOfWords("client", error.reason, { unit: name, node: null, events: [] });
    throw new ClusterError("NOT_FOUND", message, { status: 404, reason: error.reason });
  }
}

/** Each stream gets half of the room, and what the other leaves. */
function joined(stdout: string, stderr: string, bytes: number): string {
  const half = Math.floor(bytes / 2);
  const out = stdout.slice(-Math.max(half, bytes - stderr.length));
  const err = stderr.slice(-Math.max(half, bytes - out.length));
  return out === "" || err === "" || out.endsWith("\n") ? out + err : `${out}\n${err}`;
}
