import { attemptName } from "../../../contracts/names.ts";
import type { BackendOwner, LogOptions, LogTail } from "../backend.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { readChunks } from "../transport/read-body.ts";
import { Pod, page, timeOf } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { LABEL, MAIN, selectorOf } from "./labels.ts";
import { RIGHTS } from "./rights.ts";

const MAX_TAIL_BYTES = 1024 * 1024;
/** Of the newest log file, which a kubelet keeps below 10 MiB. */
const MAX_LOG_BYTES = 12 * 1024 * 1024;
/** Enough lines for the bytes wanted; limitBytes would keep the first ones of the selection. */
const BYTES_PER_LINE = 40;

/** The newest output of a unit's main container. @throws ClusterError NOT_FOUND when there is no pod */
export async function tailLog(
  client: K8sClient,
  owner: BackendOwner,
  name: string,
  options: LogOptions,
): Promise<LogTail> {
  const pod = await podOf(client, owner, name);
  const tailBytes = Math.min(MAX_TAIL_BYTES, Math.max(1, options.tailBytes));
  const ended = /^(Succeeded|Failed)$/.test(pod.status.phase ?? "");
  try {
    const tailLines = String(Math.ceil(tailBytes / BYTES_PER_LINE) + 64);
    const query = { container: MAIN, tailLines };
    const response = await client.open(RIGHTS.podLog, { name: pod.metadata.name, query, accept: "*/*" });
    let tail: Uint8Array<ArrayBuffer> = new Uint8Array(0);
    await readChunks(response, MAX_LOG_BYTES, (chunk) => {
      const joined = new Uint8Array(tail.length + chunk.length);
      joined.set(tail);
      joined.set(chunk, tail.length);
      tail = joined.slice(Math.max(0, joined.length - tailBytes));
      return true;
    });
    return { text: new TextDecoder().decode(tail), live: !ended };
  } catch (error) {
    // Not started yet, or the kubelet does not know the pod yet.
    const waits =
      error instanceof ClusterError && (error.httpStatus === 400 || /could not find the requested/.test(error.message));
    if (waits) return { text: "", live: !ended };
    throw error;
  }
}

/** Found by label: the API cuts a pod's name, so that two Jobs may share what is visible of it. */
export async function podOf(client: K8sClient, owner: BackendOwner, name: string): Promise<Pod> {
  const [, run, epoch] = /^evd-[0-9a-f]+-([0-9a-z]+)-([1-9][0-9]*)$/.exec(name) ?? [];
  const runId = `run_${run ?? ""}`;
  const known = run !== undefined && attemptName(owner.object, runId, Number(epoch)) === name;
  const missing = new ClusterError("NOT_FOUND", `there is no pod of '${name}'`, { status: 404, reason: "NotFound" });
  if (!known) throw missing;
  const labelSelector = `${selectorOf(owner)},${LABEL.run}=${runId},${LABEL.epoch}=${epoch}`;
  const { json } = await client.call(RIGHTS.listPods, { query: { labelSelector, limit: "10" } });
  const pods = page(Pod).parse(json).items ?? [];
  const created = (pod: Pod): number => timeOf(pod.metadata.creationTimestamp) ?? 0;
  const newest = pods.reduce<Pod | null>(
    (best, pod) => (best === null || created(pod) >= created(best) ? pod : best),
    null,
  );
  if (newest === null) throw missing;
  return newest;
}
