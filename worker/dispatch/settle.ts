import type { Settlement } from "../../contracts/rpc.ts";
import { storeOf } from "../context.ts";
import type { Env } from "../environment.ts";

/** Settlements of one D1 batch: its statements run in one transaction. */
const BATCH = 25;

const OPEN = "status not in ('succeeded', 'failed', 'cancelled')";

const json = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));

/**
 * Writes ended runs to D1: idempotent, and guarded by "not terminal", so that a late repeat changes nothing.
 * @returns run ids that are stored now
 */
export async function settle(env: Env, settlements: readonly Settlement[]): Promise<string[]> {
  const { d1 } = storeOf(env);
  // The output goes first: its guard reads the run as it was before.
  const output = d1.prepare(
    `insert or ignore into run_output (run_id, epoch, stdout, stderr) select ?1, ?2, ?3, ?4 where exists (select 1 from runs where id = ?1 and ${OPEN})`,
  );
  const run = d1.prepare(
    `update runs set status = ?2, epoch = ?3, started_at = ?4, finished_at = ?5, result = ?6, failure = ?7, failure_class = ?8,
       provenance = ?9, attempts = ?10, score = ?11, pass = ?12, runtime_version = coalesce(?13, runtime_version), acknowledged = 1
     where id = ?1 and ${OPEN}`,
  );
  const done: string[] = [];
  for (let i = 0; i < settlements.length; i += BATCH) {
    const part = settlements.slice(i, i + BATCH);
    await d1.batch(
      part.flatMap((ended) => [
        output.bind(ended.runId, ended.epoch, ended.stdout, ended.stderr),
        run.bind(
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
          ended.runtimeVersion,
        ),
      ]),
    );
    done.push(...part.map(({ runId }) => runId));
  }
  return done;
}
