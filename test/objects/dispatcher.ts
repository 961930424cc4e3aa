import { WorkerEntrypoint } from "cloudflare:workers";
import type { DispatcherRpc } from "../../contracts/rpc.ts";

/** What the Dispatcher answers; tests replace single functions. It lives in the isolate that tests and objects share. */
export const script: DispatcherRpc = defaults();

/** Puts every answer back to "all goes well". */
export function resetScript(): void {
  Object.assign(script, defaults());
}

function defaults(): DispatcherRpc {
  return {
    start: async (_object, grants) =>
      grants.map((grant) => ({
        kind: "started",
        runId: grant.runId,
        epoch: grant.epoch,
        externalId: grant.name,
        node: null,
        runtimeVersion: "1.0.0",
      })),
    observe: async () => {},
    stop: async () => {},
    settle: async (settlements) => settlements.map((settlement) => settlement.runId),
    markActive: async () => {},
    feed: async (_scorecardId, items) => items.map((item) => ({ runId: item.runId, ok: true })),
    cancelRuns: async () => {},
    finishScorecard: async () => true,
    inspect: async () => {
      throw new Error("no cluster to look at");
    },
  };
}

/** The Worker's entrypoint as the objects see it, played by `script`. */
export class Dispatcher extends WorkerEntrypoint implements DispatcherRpc {
  start(...args: Parameters<DispatcherRpc["start"]>) {
    return script.start(...args);
  }
  observe(...args: Parameters<DispatcherRpc["observe"]>) {
    return script.observe(...args);
  }
  stop(...args: Parameters<DispatcherRpc["stop"]>) {
    return script.stop(...args);
  }
  settle(...args: Parameters<DispatcherRpc["settle"]>) {
    return script.settle(...args);
  }
  markActive(...args: Parameters<DispatcherRpc["markActive"]>) {
    return script.markActive(...args);
  }
  feed(...args: Parameters<DispatcherRpc["feed"]>) {
    return script.feed(...args);
  }
  cancelRuns(...args: Parameters<DispatcherRpc["cancelRuns"]>) {
    return script.cancelRuns(...args);
  }
  inspect(...args: Parameters<DispatcherRpc["inspect"]>) {
    return script.inspect(...args);
  }
  finishScorecard(...args: Parameters<DispatcherRpc["finishScorecard"]>) {
    return script.finishScorecard(...args);
  }
}
