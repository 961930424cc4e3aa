import type { DispatcherRpc, QuotaRpc } from "../../contracts/rpc.ts";
import type { ScorecardRpc } from "../../contracts/scorecard-rpc.ts";

/** A namespace of objects found by name; the part of a Durable Object binding that is used here. */
export interface Objects<T> {
  getByName(name: string): T;
}

/** Bindings of the Scheduler. */
export interface SchedulerEnv {
  DISPATCHER: DispatcherRpc;
  SCORECARD: Objects<Pick<ScorecardRpc, "settled" | "started">>;
  QUOTA: Objects<QuotaRpc>;
}
