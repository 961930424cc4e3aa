import type { EverdictError } from "../../contracts/errors.ts";
import type { Settlement } from "../../contracts/rpc.ts";
import { digestOf } from "../../contracts/run-digest.ts";
import type { RunDigest } from "../../contracts/scorecard-rpc.ts";
import { iso } from "../context.ts";
import type { Env } from "../environment.ts";
import type { RunRow } from "../store/run-rows.ts";
import { settle } from "./settle.ts";

/** Ends a run that can never be enqueued, and says why. */
export async function settleUnfed(env: Env, row: RunRow, error: EverdictError): Promise<RunDigest> {
  const ended: Settlement = {
    runId: row.id,
    workspace: row.workspace,
    scorecardId: row.scorecardId,
    epoch: row.epoch,
    status: "failed",
    result: null,
    failure: {
      stage: "dispatch",
      class: "config",
      code: error.code,
      message: error.message.slice(0, 4_000),
      retryable: false,
    },
    provenance: null,
    attempts: [],
    runtimeVersion: null,
    startedAt: null,
    finishedAt: iso(Date.now()),
    stdout: "",
    stderr: "",
  };
  await settle(env, [ended]);
  return digestOf(ended);
}
