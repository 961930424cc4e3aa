import type { Settlement } from "../../contracts/rpc.ts";
import { storeOf } from "../context.ts";
import type { Env } from "../environment.ts";

/** Characters of one statement's bound value: well below D1's 2 MB. */
const CHUNK_CHARS = 700_000;
const OPEN = "status not in ('succeeded', 'failed', 'cancelled')";

// The output goes first: its guard reads the runs as they were before.
const OUTPUT = `
  insert or ignore into run_output (run_id, epoch, stdout, stderr)
  select value ->> 0, value ->> 2, value ->> 12, value ->> 13 from json_each(?1)
  where exists (select 1 from runs where id = value ->> 0 and ${OPEN})`;

const RUNS = `
  update runs set status = item.value ->> 1, epoch = item.value ->> 2, started_at = item.value ->> 3, finished_at = item.value ->> 4,
    result = item.value ->> 5, failure = item.value ->> 6, failure_class = item.value ->> 7, provenance = item.value ->> 8,
    attempts = item.value ->> 9, score = item.value ->> 10, pass = item.value ->> 11,
    runtime_version = coalesce(item.value ->> 14, runtime_version), acknowledged = 1
  from json_each(?1) as item
  where runs.id = item.value ->> 0 and runs.${OPEN}`;

const json = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));

/** One ended run as a JSON array, in the order of the statements above. Inner documents are text, so that they are stored as they are. */
const tupleOf = (ended: Settlement): string =>
  JSON.stringify([
    ended.runId,
    ended.status,
    ended.epoch,
    ended.startedAt,
    ended.finishedAt,
    json(ended.result),
    json(ended.failure),
    ended.failure?.class ?? null,
    json(ended.provenance),
    JSON.stringify(ended.attempts),
    ended.result?.score ?? null,
    ended.result === null ? null : ended.result.pass ? 1 : 0,
    ended.stdout,
    ended.stderr,
    ended.runtimeVersion,
  ]);

/**
 * Writes ended runs to D1: idempotent, and guarded by "not terminal", so that a late repeat changes nothing.
 * @returns run ids that are stored now
 */
export async function settle(env: Env, settlements: readonly Settlement[]): Promise<string[]> {
  const { d1 } = storeOf(env);
  const write = async (tuples: readonly string[]) => {
    const bound = `[${tuples.join(",")}]`;
    await d1.batch([d1.prepare(OUTPUT).bind(bound), d1.prepare(RUNS).bind(bound)]);
  };
  const done: string[] = [];
  let chunk: string[] = [];
  let size = 0;
  for (const ended of settlements) {
    const tuple = tupleOf(ended);
    if (size + tuple.length > CHUNK_CHARS && chunk.length > 0) {
      await write(chunk);
      chunk = [];
      size = 0;
    }
    chunk.push(tuple);
    size += tuple.length;
    done.push(ended.runId);
  }
  if (chunk.length > 0) await write(chunk);
  return done;
}
