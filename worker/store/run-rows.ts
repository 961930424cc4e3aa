import { EverdictError } from "../../contracts/errors.ts";
import type { RunView } from "../../contracts/rpc.ts";
import { Attempt, Failure, isTerminal, Provenance, type Run, RunResult, RunStatus } from "../../contracts/run.ts";
import type { RunDigest } from "../../contracts/scorecard-rpc.ts";
import type { runs } from "./schema.ts";

export type RunRow = typeof runs.$inferSelect;

const parsed = <T>(schema: { parse(value: unknown): T }, text: string | null): T | null =>
  text === null ? null : schema.parse(JSON.parse(text));

/** The wire's Run of a stored row. */
export function runOf(row: RunRow): Run {
  return {
    id: row.id,
    workspace: row.workspace,
    status: RunStatus.parse(row.status),
    target: row.target,
    runtime:
      row.runtimeId !== null && row.runtimeVersion !== null ? { id: row.runtimeId, version: row.runtimeVersion } : null,
    harness: { id: row.harnessId, version: row.harnessVersion },
    caseId: row.caseId,
    trial: row.trial,
    scorecardId: row.scorecardId,
    createdBy: row.createdBy,
    createdAt: row.createdAt,
    startedAt: row.startedAt,
    finishedAt: row.finishedAt,
    epoch: row.epoch,
    waiting: null,
    result: parsed(RunResult, row.result),
    failure: parsed(Failure, row.failure),
    provenance: parsed(Provenance, row.provenance),
    attempts: parsed({ parse: (value) => Attempt.array().parse(value) }, row.attempts) ?? [],
  };
}

/** Lays the object's live view over a stored run that is not terminal. */
export function overlay(run: Run, view: RunView): Run {
  if (isTerminal(run.status)) return run;
  const runtime =
    run.runtime !== null && view.runtimeVersion !== null
      ? { ...run.runtime, version: view.runtimeVersion }
      : run.runtime;
  const live = { ...run, runtime, epoch: view.epoch, startedAt: view.startedAt, attempts: view.attempts };
  if (view.settlement !== null) {
    const { settlement } = view;
    return {
      ...live,
      status: settlement.status,
      finishedAt: settlement.finishedAt,
      result: settlement.result,
      failure: settlement.failure,
      provenance: settlement.provenance,
    };
  }
  return { ...live, status: view.status, finishedAt: view.finishedAt, waiting: view.waiting };
}

/** What a scorecard keeps of a run, from its stored terminal row. @throws EverdictError INTERNAL for a row that has not ended */
export function digestOfRow(row: RunRow): RunDigest {
  const run = runOf(row);
  if (run.status !== "succeeded" && run.status !== "failed" && run.status !== "cancelled")
    throw new EverdictError("INTERNAL", `run ${row.id} has not ended`);
  return {
    runId: run.id,
    status: run.status,
    score: run.result?.score ?? null,
    pass: run.result?.pass ?? null,
    durationMs: run.result?.durationMs ?? null,
    failureClass: run.failure?.class ?? null,
    failureCode: run.failure?.code ?? null,
    failureStage: run.failure?.stage ?? null,
  };
}
