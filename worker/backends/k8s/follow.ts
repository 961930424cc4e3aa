import * as z from "zod";
import { RESULT_MARK } from "../../../contracts/job.ts";
import type { BackendOwner, LogStep, LogTaker } from "../backend.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { joinBytes, readChunks } from "../transport/read-body.ts";
import { KubeJob, type Pod, trueCondition } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { MAIN } from "./labels.ts";
import { podOf } from "./logs.ts";
import { RIGHTS } from "./rights.ts";

/** Of the newest log file, which a kubelet keeps below 10 MiB, with a stamp on each line. */
const MAX_LOG_BYTES = 24 * 1024 * 1024;
/** Handed on in one step. */
const STEP_BYTES = 1024 * 1024;
const LOG_MS = 20_000;

/**
 * The first `count` lines of this stamp, and all lines before it, were taken whole; of what follows `into` bytes were.
 * Stamps, not offsets: the API knows no offsets, and cuts sinceTime to whole seconds, so that lines come again (K 55).
 */
const Cursor = z.object({ stamp: z.string(), count: z.number().int(), into: z.number().int() });
type Cursor = z.infer<typeof Cursor>;

const START: Cursor = { stamp: "", count: 0, into: 0 };

interface Line {
  stamp: string;
  /** With its line break; empty for a line that is not shown. */
  bytes: Uint8Array;
}

const NEWLINE = 0x0a;
const SPACE = 0x20;
const STAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
const encoder = new TextEncoder();
const MARK = encoder.encode(RESULT_MARK);

/** One step along the main container's log. @throws ClusterError NOT_FOUND when there is no pod */
export async function followLog(
  client: K8sClient,
  owner: BackendOwner,
  name: string,
  from: string | null,
  take: LogTaker,
): Promise<LogStep> {
  const cursor = from === null ? START : Cursor.parse(JSON.parse(from));
  const pod = await podOrNone(client, owner, name);
  if (pod === null) return { cursor: JSON.stringify(cursor), live: true, more: false };
  const live = !/^(Succeeded|Failed)$/.test(pod.status.phase ?? "");
  const lines = freshLines(await stampedLog(client, pod, cursor), cursor, live);
  const raw = joinBytes(lines.map(({ bytes }) => bytes));
  const part = raw.subarray(cursor.into, cursor.into + STEP_BYTES);
  const more = raw.length > cursor.into + part.length;
  const into = cursor.into + take(part, !live && !more);
  return { cursor: JSON.stringify(advanced(cursor, lines, into)), live, more };
}

/** null while its Job has no pod yet. @throws ClusterError NOT_FOUND when there is no such Job, or it ended without one */
async function podOrNone(client: K8sClient, owner: BackendOwner, name: string): Promise<Pod | null> {
  try {
    return await podOf(client, owner, name);
  } catch (error) {
    if (!(error instanceof ClusterError) || error.code !== "NOT_FOUND") throw error;
    const { conditions } = KubeJob.parse((await client.call(RIGHTS.getJob, { name })).json).status;
    if (trueCondition(conditions, "Complete") ?? trueCondition(conditions, "Failed")) throw error;
    return null;
  }
}

/** Everything from the cursor's second on, each line with its stamp. */
async function stampedLog(client: K8sClient, pod: Pod, { stamp }: Cursor): Promise<Uint8Array> {
  const query = { container: MAIN, timestamps: "true", ...(stamp === "" ? {} : { sinceTime: stamp }) };
  const parts: Uint8Array[] = [];
  try {
    const response = await client.open(RIGHTS.podLog, {
      name: pod.metadata.name,
      query,
      accept: "*/*",
      deadlineMs: LOG_MS,
    });
    await readChunks(response, MAX_LOG_BYTES, (chunk) => {
      parts.push(chunk);
      return true;
    });
  } catch (error) {
    // Not started yet (K 57), or the kubelet does not know the pod yet (K 56).
    const waits =
      error instanceof ClusterError && (error.httpStatus === 400 || /could not find the requested/.test(error.message));
    if (!waits) throw error;
  }
  return joinBytes(parts);
}

function freshLines(log: Uint8Array, cursor: Cursor, live: boolean): Line[] {
  const lines: Line[] = [];
  let same = 0;
  for (let at = 0; at < log.length; ) {
    const found = log.indexOf(NEWLINE, at);
    const end = found < 0 ? log.length : found + 1;
    const space = log.indexOf(SPACE, at);
    const stamp = space < 0 || space >= end ? "" : String.fromCharCode(...log.subarray(at, Math.min(space, at + 40)));
    const whole = log.subarray(at, end);
    at = end;
    // An error of the kubelet's can come as the text of a 200 (K 58): it has no stamp.
    if (!STAMP.test(stamp)) continue;
    if (stamp === cursor.stamp) same++;
    if (stamp < cursor.stamp || (stamp === cursor.stamp && same <= cursor.count)) continue;
    const text = whole.subarray(stamp.length + 1);
    // A line that grows may still turn out to be the result.
    if (live && found < 0 && couldBeResult(text)) break;
    lines.push({ stamp, bytes: isResult(text) ? new Uint8Array(0) : text });
  }
  return lines;
}

const startsWith = (text: Uint8Array, mark: Uint8Array, length: number): boolean =>
  text.length >= length && mark.subarray(0, length).every((byte, index) => text[index] === byte);

const isResult = (text: Uint8Array): boolean => startsWith(text, MARK, MARK.length);
const couldBeResult = (text: Uint8Array): boolean => startsWith(text, MARK, Math.min(text.length, MARK.length));

/** Moves the cursor over the lines that were taken whole. */
function advanced(cursor: Cursor, lines: readonly Line[], into: number): Cursor {
  let { stamp, count } = cursor;
  let left = into;
  for (const line of lines) {
    const ended = line.bytes.length === 0 || line.bytes.at(-1) === NEWLINE;
    if (!ended || line.bytes.length > left) break;
    left -= line.bytes.length;
    count = line.stamp === stamp ? count + 1 : 1;
    stamp = line.stamp;
  }
  return { stamp, count, into: left };
}
