import { eq } from "drizzle-orm";
import { harnessSecretEnv } from "../../contracts/harness.ts";
import type { ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { RUN_OPERATIONS } from "../../contracts/operations/runs.ts";
import { isTerminal } from "../../contracts/run.ts";
import { sha256 } from "../auth/digest.ts";
import type { Context } from "../context.ts";
import { clusterOf, maskingOf } from "../dispatch/cluster.ts";
import { logOf } from "../environment.ts";
import { type SseEvent, sseResponse } from "../http/sse.ts";
import { harnessOf } from "../store/harness-of-run.ts";
import type { RunRow } from "../store/run-rows.ts";
import { runOutput } from "../store/schema.ts";
import { findRun, getRun } from "./runs.ts";

type Ops = typeof RUN_OPERATIONS;
const DEFAULT_TAIL_BYTES = 1024 * 1024;
/** A stream looks at the run so often while no output comes. */
const WATCH_MS = 1_000;

/** GET /runs/{id}/logs: the log object's ring, or the last output kept with the result. */
export async function getLogs(
  ctx: Context,
  input: { params: ParamsOf<Ops["get_run_logs"]>; query: QueryOf<Ops["get_run_logs"]> },
): Promise<string> {
  const { query } = input;
  const row = await findRun(ctx, input.params.id);
  const tailBytes = query.tailBytes ?? DEFAULT_TAIL_BYTES;
  const cluster = isTerminal(row.status) ? null : await clusterTail(ctx, row, tailBytes);
  if (cluster !== null) return cluster;
  const live = await logOf(ctx.env, row.id).lastOutput(query.epoch ?? null, query.stream, tailBytes);
  const kept = isTerminal(row.status)
    ? await ctx.store.select().from(runOutput).where(eq(runOutput.runId, row.id)).get()
    : undefined;
  const useKept =
    kept !== undefined &&
    (query.epoch === undefined
      ? live.epoch === null || live.epoch < kept.epoch
      : query.epoch === kept.epoch && live.text.length === 0);
  if (!useKept) {
    const lost = live.droppedBytes > 0 ? `[${live.droppedBytes} bytes before this were dropped]\n` : "";
    return lost + decodeTail(live.text);
  }
  const text =
    query.stream === "stdout" ? kept.stdout : query.stream === "stderr" ? kept.stderr : kept.stdout + kept.stderr;
  const bytes = new TextEncoder().encode(text);
  return decodeTail(bytes.length > tailBytes ? bytes.subarray(bytes.length - tailBytes) : bytes);
}

/** What a unit on a cluster has written so far, both streams as the cluster keeps them; null for any other run. */
async function clusterTail(ctx: Context, row: RunRow, tailBytes: number): Promise<string | null> {
  const { id, object } = row;
  if (!object?.startsWith("cluster:")) return null;
  const run = await getRun(ctx, { params: { id } });
  const name = run.attempts.at(-1)?.externalId;
  if (!name || run.status !== "running") return "";
  const placed = {
    runId: id,
    epoch: run.epoch,
    workspace: run.workspace,
    target: run.target,
    pinnedVersion: run.runtime?.version ?? null,
  };
  const { backend } = await clusterOf(ctx.env, (await sha256(object)).slice(0, 8), placed);
  const { text } = await backend.logs(name, { tailBytes: Math.min(tailBytes, 1024 * 1024) });
  const harness = await harnessOf(ctx.store, row);
  const names = harness?.kind === "command" ? Object.values(harnessSecretEnv(harness)) : [];
  return (await maskingOf(ctx.env, row.workspace, names)).text(text);
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
  await findRun(ctx, input.params.id);
  const after = Number(request.headers.get("last-event-id") ?? "0");
  return sseResponse(request, logEvents(ctx, input.params.id, Number.isSafeInteger(after) && after >= 0 ? after : 0));
}

async function* logEvents(ctx: Context, id: string, after: number): AsyncGenerator<SseEvent> {
  const log = logOf(ctx.env, id);
  const decoders = new Map<string, TextDecoder>();
  let seq = after;
  let shown = "";
  let sawOutput = after > 0;
  for (;;) {
    const run = await getRun(ctx, { params: { id } });
    const ended = isTerminal(run.status);
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
    if (ended && chunks.length === 0) {
      for (const [key, decoder] of decoders) {
        const text = decoder.decode();
        const [epoch, stream] = key.split("/");
        if (text !== "") yield { event: "log", data: { epoch: Number(epoch), stream, offset: null, text } };
      }
      if (!sawOutput) yield* keptOutput(ctx, id);
      yield { event: "end", data: {} };
      return;
    }
  }
}

/** A short run's output never went through the log object; it is replayed from the result. */
async function* keptOutput(ctx: Context, id: string): AsyncGenerator<SseEvent> {
  const kept = await ctx.store.select().from(runOutput).where(eq(runOutput.runId, id)).get();
  if (!kept) return;
  for (const stream of ["stdout", "stderr"] as const) {
    if (kept[stream].length > 0)
      yield { event: "log", data: { epoch: kept.epoch, stream, offset: 0, text: kept[stream] } };
  }
}
