import { sql } from "drizzle-orm";
import type { Settlement } from "../../contracts/rpc.ts";
import { storeOf } from "../context.ts";
import type { Env } from "../environment.ts";

/** Of one D1 batch: its statements run in one transaction. */
const BATCH = 25;

/**
 * Writes ended runs to D1: idempotent, and guarded by "not terminal", so that a late repeat changes nothing.
 * @returns run ids that are stored now
 */
export async function settle(env: Env, settlements: readonly Settlement[]): Promise<string[]> {
  const store = storeOf(env);
  const done: string[] = [];
  for (let i = 0; i < settlements.length; i += BATCH) {
    const part = settlements.slice(i, i + BATCH);
    const statements = part.flatMap((ended) => [
      store.run(sql`
        insert or ignore into run_output (run_id, epoch, stdout, stderr)
        select ${ended.runId}, ${ended.epoch}, ${ended.stdout}, ${ended.stderr}
        where exists (select 1 from runs where id = ${ended.runId} and status not in ('succeeded', 'failed', 'cancelled'))`),
      store.run(sql`
        update runs set status = ${ended.status}, epoch = ${ended.epoch}, started_at = ${ended.startedAt}, finished_at = ${ended.finishedAt},
          result = ${ended.result === null ? null : JSON.stringify(ended.result)},
          failure = ${ended.failure === null ? null : JSON.stringify(ended.failure)},
          failure_class = ${ended.failure?.class ?? null},
          provenance = ${ended.provenance === null ? null : JSON.stringify(ended.provenance)},
          attempts = ${JSON.stringify(ended.attempts)},
          score = ${ended.result?.score ?? null}, pass = ${ended.result === null ? null : ended.result.pass ? 1 : 0},
          runtime_version = coalesce(${ended.runtimeVersion}, runtime_version),
          acknowledged = 1
        where id = ${ended.runId} and status not in ('succeeded', 'failed', 'cancelled')`),
    ]);
    const [first, ...rest] = statements;
    if (!first) continue;
    await store.batch([first, ...rest]);
    done.push(...part.map(({ runId }) => runId));
  }
  return done;
}
