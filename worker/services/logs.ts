import { eq } from "drizzle-orm";
import { harnessSecretEnv } from "../../contracts/harness.ts";
import { RESULT_MARK } from "../../contracts/job.ts";
import type { ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { RUN_OPERATIONS } from "../../contracts/operations/runs.ts";
import { isTerminal, type Run } from "../../contracts/run.ts";
import type { Context } from "../context.ts";
import { askingOf, clusterOf, maskingOf } from "../dispatch/cluster.ts";
import { archivedTail } from "../dispatch/follow.ts";
import { logOf } from "../environment.ts";
import { type SseEvent, sseResponse } from "../http/sse.ts";
import { harnessOf } from "../store/harness-of-run.ts";
import type { RunRow } from "../store/run-rows.ts";
import { runOutput } from "../store/schema.ts";
import { Follower } from "./follower.ts";
import { findRun, getRun } from "./runs.ts";

type Ops = typeof RUN_OPERATIONS;
/** Our own, which a cluster keeps among the output. */
const RESULT_LINE = new RegExp(`^${RESULT_MARK} .*\\n?`, "gm");
const DEFAULT_TAIL_BYTES = 1024 * 1024;
/** A stream looks at the run so often while no output comes. */
const WATCH_MS = 1_000;
/** A stream waits so long for the rest of a log whose run has ended. */
const REST_MS = 5_000;

/** GET /runs/{id}/logs: the cluster's own log while it runs there, the log object's ring, or what is kept of the end. */
export async function getLogs(
  ctx: Context,
  input: { params: ParamsOf<Ops["get_run_logs"]>; query: QueryOf<Ops["get_run_logs"]> },
): Promise<string> {
  const { query } = input;
  const row = await findRun(ctx, input.params.id);
  const tailBytes = query.tailBytes ?? DEFAULT_TAIL_BYTES;
  const cluster = onCluster(row);
  if (cluster && !isTerminal(row.status)) {
    const tail = await clusterTail(ctx, row, tailBytes);
    if (tail !== null) return tail;
  }
  if (cluster && isTerminal(row.status) && query.stream === "both") {
    const whole = await wholeLog(ctx, row, query.epoch ?? row.epoch, tailBytes);
    if (whole !== null) return whole;
  }
  const live = await logOf(ctx.env, row.id).lastOutput(query.epoch ?? null, query.stream, tailBytes);
  const kept = isTerminal(row.status)
    ? await ctx.store.select().from(runOutput).where(eq(runOutput.runId, row.id)).get()
    : undefined;
  const useKept =
    kept !== undefined &&
    (query.epoch === undefined
      ? cluster || live.epoch === null || live.epoch < kept.epoch
      : query.epoch === kept.epoch && (cluster || live.text.length === 0));
  if (!useKept) {
    const lost = live.droppedBytes > 0 ? `[${live.droppedBytes} bytes before this were dropped]\n` : "";
    return lost + decodeTail(live.text);
  }
  const text =
    query.stream === "stdout" ? kept.stdout : query.stream === "stderr" ? kept.stderr : kept.stdout + kept.stderr;
  const bytes = new TextEncoder().encode(text);
  return decodeTail(bytes.length > tailBytes ? bytes.subarray(bytes.length - tailBytes) : bytes);
}

const onCluster = ({ object }: RunRow): boolean => object?.startsWith("cluster:") === true;

/** The log of an ended unit as its cluster kept it: from the bucket, or the ring if it was followed to its end. */
async function wholeLog(ctx: Context, row: RunRow, epoch: number, tailBytes: number): Promise<string | null> {
  const { LOGS } = ctx.env;
  const archived = LOGS ? await archivedTail(LOGS, row.workspace, { runId: row.id, epoch }, tailBytes) : null;
  if (archived !== null) return decodeTail(archived);
  const log = logOf(ctx.env, row.id);
  if (!(await log.followed(epoch))?.done) return null;
  const { text, droppedBytes } = await log.lastOutput(epoch, "both", tailBytes);
  return (droppedBytes > 0 ? `[${droppedBytes} bytes before this were dropped]\n` : "") + decodeTail(text);
}

/** The unit of a run that runs on a cluster now, and the way to it. */
async function liveUnit(ctx: Context, row: RunRow, run: Run) {
  const name = run.attempts.at(-1)?.externalId;
  if (!row.object || !name || run.status !== "running") return null;
  const placed = {
    runId: row.id,
    epoch: run.epoch,
    workspace: run.workspace,
    target: run.target,
    pinnedVersion: run.runtime?.version ?? null,
  };
  const { backend } = await clusterOf(ctx.env, await askingOf(row.object), placed);
  const harness = await harnessOf(ctx.store, row);
  const names = harness?.kind === "command" ? Object.values(harnessSecretEnv(harness)) : [];
  const masking = await maskingOf(ctx.env, row.workspace, names);
  return { unit: { runId: row.id, epoch: run.epoch, name }, backend, masking };
}

/** What a unit on a cluster has written so far, both streams as the cluster keeps them; null when none of it runs. */
async function clusterTail(ctx: Context, row: RunRow, tailBytes: number): Promise<string | null> {
  const run = await getRun(ctx, { params: { id: row.id } });
  const live = await liveUnit(ctx, row, run);
  if (live === null) return isTerminal(run.status) ? null : "";
  const { text } = await live.backend.logs(live.unit.name, { tailBytes: Math.min(tailBytes, 1024 * 1024) });
  return live.masking.tail(text.replace(RESULT_LINE, ""));
}

/** UTF-8 with what is invalid replaced; a character cut at the start is left out. */
function decodeTail(bytes: Uint8Array): string {
  let start = 0;
  while (start < Math.min(3, bytes.length) && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
  return new TextDecoder().decode(bytes.subarray(start));
}

/** GET /runs/{id}/logs/stream: log events as they come, run events on change, end when the run has ended. */
export async function streamLogs(
  ctx: Context,
  input: { params: ParamsOf<Ops["stream_run_logs"]> },
  request: Request,
): Promise<Response> {
  const row = await findRun(ctx, input.params.id);
  const after = Number(request.headers.get("last-event-id") ?? "0");
  return sseResponse(request, logEvents(ctx, row, Number.isSafeInteger(after) && after >= 0 ? after : 0));
}

async function* logEvents(ctx: Context, row: RunRow, after: number): AsyncGenerator<SseEvent | null> {
  const log = logOf(ctx.env, row.id);
  const decoders = new Map<string, TextDecoder>();
  const follower = new Follower(ctx, (run) => liveUnit(ctx, row, run));
  let seq = after;
  let shown = "";
  let sawOutput = after > 0;
  let endedAt: number | null = null;
  for (;;) {
    // Which object has it may not have been decided when the stream began.
    if (row.object === null) row = await findRun(ctx, row.id);
    const run = await getRun(ctx, { params: { id: row.id } });
    const ended = isTerminal(run.status);
    if (onCluster(row) && !ended) follower.watch(row.object ?? "", run);
    const { chunks, lastSeq } = await log.read(seq, ended ? 0 : WATCH_MS);
    for (const chunk of chunks) {
      const key = `${chunk.epoch}/${chunk.stream}`;
      let decoder = decoders.get(key);
      if (!decoder) {
        decoder = new TextDecoder();
        decoders.set(key, decoder);
      }
      sawOutput = true;
      const text = decoder.decode(chunk.bytes, { stream: true });
      yield {
        id: String(chunk.seq),
        event: "log",
        data: { epoch: chunk.epoch, stream: chunk.stream, offset: chunk.offset, text },
      };
    }
    seq = Math.max(seq, lastSeq);
    const now = JSON.stringify(run);
    if (now !== shown) {
      shown = now;
      yield { event: "run", data: run };
    }
    if (!ended || chunks.length > 0) {
      yield null;
      continue;
    }
    endedAt ??= ctx.now();
    const whole = onCluster(row) ? await isWhole(ctx, row, run.epoch) : null;
    // The rest of a watched log is read after the run's end is known, before its unit is removed.
    if (whole === false && ctx.now() - endedAt < REST_MS) {
      await log.read(seq, WATCH_MS);
      continue;
    }
    for (const [key, decoder] of decoders) {
      const text = decoder.decode();
      const [epoch, stream] = key.split("/");
      if (text !== "") yield { event: "log", data: { epoch: Number(epoch), stream, offset: null, text } };
    }
    if (onCluster(row) || !sawOutput) yield* keptOutput(ctx, row.id, whole === true);
    yield { event: "end", data: {} };
    return;
  }
}

/** Whether a watched log is in the ring to its end; null when nobody watched. */
async function isWhole(ctx: Context, row: RunRow, epoch: number): Promise<boolean | null> {
  return (await logOf(ctx.env, row.id).followed(epoch))?.done ?? null;
}

/**
 * The output kept with the result: of a short run that never went through the log object, or the streams apart, which a
 * cluster's live log does not tell. @param replay the text was all in the live log already
 */
async function* keptOutput(ctx: Context, id: string, replay: boolean): AsyncGenerator<SseEvent> {
  const kept = await ctx.store.select().from(runOutput).where(eq(runOutput.runId, id)).get();
  if (!kept) return;
  for (const stream of ["stdout", "stderr"] as const) {
    if (kept[stream].length > 0)
      yield { event: "log", data: { epoch: kept.epoch, stream, offset: 0, text: kept[stream], replay } };
  }
}
