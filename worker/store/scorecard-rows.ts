import { sql } from "drizzle-orm";
import type * as z from "zod";
import { Scorecard, ScorecardProgress, ScorecardSummary } from "../../contracts/scorecard.ts";
import type { ScorecardLive } from "../../contracts/scorecard-rpc.ts";
import type { Store } from "../context.ts";
import type { scorecards } from "./schema.ts";

export type ScorecardRow = typeof scorecards.$inferSelect;

/** The wire's Scorecard, with the object's live state where it is ahead of the stored one. */
export function scorecardOf(row: ScorecardRow, live: ScorecardLive | null = null): z.infer<typeof Scorecard> {
  return {
    id: row.id,
    workspace: row.workspace,
    status: Scorecard.shape.status.parse(live?.status ?? row.status),
    dataset: { id: row.datasetId, version: row.datasetVersion },
    harness: { id: row.harnessId, version: row.harnessVersion },
    targets: row.targets,
    concurrency: row.concurrency,
    retries: row.retries,
    trials: row.trials,
    createdBy: row.createdBy,
    createdAt: row.createdAt,
    finishedAt: live ? live.finishedAt : row.finishedAt,
    progress: live?.progress ?? ScorecardProgress.parse(row.progress),
    summary: live ? live.summary : ScorecardSummary.nullable().parse(row.summary),
  };
}

/** Rows of one statement: with ids and case names well below D1's 2 MB a bound value. */
const ROWS_PER_STATEMENT = 4_000;

export interface PlannedRun {
  runId: string;
  caseId: string;
  trial: number;
  seq: number;
}

/** Writes a scorecard's runs; a repeat changes nothing. */
export async function insertScorecardRuns(
  store: Store,
  row: ScorecardRow,
  planned: readonly PlannedRun[],
): Promise<void> {
  for (let i = 0; i < planned.length; i += ROWS_PER_STATEMENT) {
    const chunk = JSON.stringify(
      planned.slice(i, i + ROWS_PER_STATEMENT).map((run) => [run.runId, run.caseId, run.trial, run.seq]),
    );
    await store.run(sql`
      insert or ignore into runs
        (id, workspace, status, target, harness_owner, harness_id, harness_version, case_id, trial, scorecard_id, seq,
         retries, queue_timeout_sec, priority, created_by, created_at, epoch, attempts, replaced, acknowledged)
      select value ->> 0, ${row.workspace}, 'queued', ${row.targets.join(",")}, ${row.harnessOwner}, ${row.harnessId}, ${row.harnessVersion},
        value ->> 1, value ->> 2, ${row.id}, value ->> 3, ${row.retries}, ${row.queueTimeoutSec}, ${row.priority}, ${row.createdBy},
        ${row.createdAt}, 0, '[]', 0, 0
      from json_each(${chunk})`);
  }
}
