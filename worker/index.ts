import { WorkerEntrypoint } from "cloudflare:workers";
import type { DispatcherRpc, FeedItem, Grant, RuntimeRef, Settlement } from "../contracts/rpc.ts";
import type { ScorecardEnd } from "../contracts/scorecard-rpc.ts";
import { RunLog } from "../durable-objects/log/object.ts";
import { Quota } from "../durable-objects/quota/object.ts";
import { Relay } from "../durable-objects/relay/object.ts";
import { Scheduler } from "../durable-objects/scheduler/object.ts";
import { ScorecardCoordinator } from "../durable-objects/scorecard/object.ts";
import { dispatch } from "./dispatch/dispatcher.ts";
import { sweep } from "./dispatch/sweep.ts";
import type { Env } from "./environment.ts";
import { createApp } from "./http/app.ts";

/* The one place where the Worker and its objects meet: everything else reaches the other side by RPC. */

export { Quota, Relay, RunLog, Scheduler, ScorecardCoordinator };

/** What objects call: all network and D1 work happens here, never inside an object. */
export class Dispatcher extends WorkerEntrypoint<Env> implements DispatcherRpc {
  start(object: string, grants: Grant[]) {
    return dispatch.start(this.env, object, grants);
  }

  async observe(object: string, units: Parameters<DispatcherRpc["observe"]>[1]): Promise<void> {
    // Answered at once: the object must not wait for a cluster. It forgets a pass that never calls back.
    this.ctx.waitUntil(dispatch.observe(this.env, object, units));
  }

  stop(object: string, units: Parameters<DispatcherRpc["stop"]>[1]) {
    return dispatch.stop(this.env, object, units);
  }

  settle(settlements: Settlement[]) {
    return dispatch.settle(this.env, settlements);
  }

  markActive(kind: "scheduler" | "scorecard", name: string, active: boolean) {
    return dispatch.markActive(this.env, kind, name, active);
  }

  feed(scorecardId: string, items: FeedItem[]) {
    return dispatch.feed(this.env, scorecardId, items);
  }

  cancelRuns(scorecardId: string, runIds: string[]) {
    return dispatch.cancelRuns(this.env, scorecardId, runIds);
  }

  inspect(object: string, runtime: RuntimeRef) {
    return dispatch.inspect(this.env, object, runtime);
  }

  finishScorecard(scorecardId: string, end: ScorecardEnd) {
    return dispatch.finishScorecard(this.env, scorecardId, end);
  }
}

const app = createApp();

export default {
  fetch: (request, env, ctx) => app.fetch(request, env, ctx),
  scheduled: (_controller, env) => sweep(env),
} satisfies ExportedHandler<Env>;
