import * as z from "zod";
import { RESULT_MARK } from "../../../contracts/job.ts";
import type { LogStep, LogTaker } from "../backend.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { jobAllocations, logFrom, readJob } from "./calls.ts";
import type { NomadClient } from "./client.ts";
import { MAIN_TASK } from "./document.ts";
import { isEnded } from "./evidence.ts";

/** Handed on in one step. */
const STEP_BYTES = 1024 * 1024;
/** Beyond it the node drops its oldest log file, and offsets from the start mean something else. */
const MAX_OFFSET = 19_000_000;

/** Bytes of each stream that were taken. */
const Cursor = z.object({ allocation: z.string(), stdout: z.number().int(), stderr: z.number().int() });

/** One step along both streams of a job's last allocation. @throws ClusterError NOT_FOUND for an unknown job */
export async function followJob(
  client: NomadClient,
  name: string,
  from: string | null,
  take: LogTaker,
): Promise<LogStep> {
  const before = from === null ? null : Cursor.parse(JSON.parse(from));
  const alloc = (await jobAllocations(client, name)).at(-1);
  if (alloc === undefined) {
    if ((await readJob(client, name)) === null)
      throw new ClusterError("NOT_FOUND", `the cluster knows no job '${name}'`, { status: 404 });
    return { cursor: from ?? JSON.stringify({ allocation: "", stdout: 0, stderr: 0 }), live: true, more: false };
  }
  const live = !isEnded(alloc.ClientStatus);
  const cursor = before?.allocation === alloc.ID ? before : { allocation: alloc.ID, stdout: 0, stderr: 0 };
  let more = false;
  for (const stream of ["stdout", "stderr"] as const) {
    const offset = cursor[stream];
    if (offset >= MAX_OFFSET) continue;
    const fresh = await newOutput(client, alloc.ID, stream, offset, live);
    const part = fresh.subarray(0, STEP_BYTES);
    const whole = !live && fresh.length === part.length;
    const { shown, hidden } = withoutResult(part, whole);
    const taken = take(shown, whole && shown.length + hidden === part.length);
    cursor[stream] = offset + taken + (taken === shown.length ? hidden : 0);
    more ||= fresh.length > part.length || (hidden > 0 && shown.length + hidden < part.length);
  }
  return { cursor: JSON.stringify(cursor), live, more };
}

const MARK = new TextEncoder().encode(`${RESULT_MARK} `);
const NEWLINE = 0x0a;

const startsAt = (bytes: Uint8Array, at: number): boolean => {
  const length = Math.min(MARK.length, bytes.length - at);
  for (let n = 0; n < length; n++) if (bytes[at + n] !== MARK[n]) return false;
  return true;
};

/**
 * Output up to our own result line, and how long that line is. While more may come, the beginning of one is held back, as
 * is one without its end.
 */
function withoutResult(bytes: Uint8Array, whole: boolean): { shown: Uint8Array; hidden: number } {
  const [first = 0] = MARK;
  for (let at = bytes.indexOf(first); at >= 0; at = bytes.indexOf(first, at + 1)) {
    if (!startsAt(bytes, at)) continue;
    const complete = bytes.length - at >= MARK.length;
    if (!complete && whole) continue;
    const end = complete ? bytes.indexOf(NEWLINE, at) : -1;
    const hidden = end >= 0 ? end + 1 - at : whole ? bytes.length - at : 0;
    return { shown: bytes.subarray(0, at), hidden };
  }
  return { shown: bytes, hidden: 0 };
}

async function newOutput(
  client: NomadClient,
  allocation: string,
  stream: "stdout" | "stderr",
  offset: number,
  live: boolean,
): Promise<Uint8Array> {
  try {
    return await logFrom(client, allocation, MAIN_TASK, stream, offset);
  } catch (error) {
    // A task that is on its way has no log yet, also one whose allocation was just made (N 16).
    const waits =
      live &&
      error instanceof ClusterError &&
      error.code === "NOT_FOUND" &&
      /not started yet|Unknown allocation/.test(error.reason);
    if (!waits) throw error;
    return new Uint8Array(0);
  }
}
