import type { Settlement } from "./rpc.ts";
import type { RunDigest } from "./scorecard-rpc.ts";

/** What a scorecard keeps of an ended run. */
export function digestOf(ended: Settlement): RunDigest {
  return {
    runId: ended.runId,
    status: ended.status,
    score: ended.result?.score ?? null,
    pass: ended.result?.pass ?? null,
    durationMs: ended.result?.durationMs ?? null,
    failureClass: ended.failure?.class ?? null,
    failureCode: ended.failure?.code ?? null,
    failureStage: ended.failure?.stage ?? null,
  };
}
