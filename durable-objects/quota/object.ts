import { DurableObject } from "cloudflare:workers";
import type { QuotaRpc, SchedulerRpc } from "../../contracts/rpc.ts";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import { Places } from "./places.ts";
import { TokenBucket } from "./token-bucket.ts";

/** Bindings of the quota object. */
export interface QuotaEnv {
  SCHEDULER: { getByName(name: string): Pick<SchedulerRpc, "nudge"> };
}

/** One per workspace: who holds which of its in-flight places over all its targets, and its rate of submits. */
export class Quota extends DurableObject<QuotaEnv> implements QuotaRpc {
  readonly #places: Places;
  readonly #bucket = new TokenBucket();

  constructor(ctx: DurableObjectState, env: QuotaEnv) {
    super(ctx, env);
    this.#places = new Places(ctx.storage);
  }

  async acquire(
    object: string,
    maxInFlight: number,
    refs: AttemptRef[],
  ): Promise<{ granted: AttemptRef[]; denied: AttemptRef[] }> {
    return this.#places.acquire(object, maxInFlight, refs, Date.now());
  }

  async release(object: string, refs: AttemptRef[]): Promise<void> {
    this.#nudge(this.#places.release(object, refs));
  }

  async reconcile(object: string, live: AttemptRef[]): Promise<void> {
    this.#nudge(this.#places.reconcile(object, live, Date.now()));
  }

  async takeSubmits(count: number, ratePerSec: number, burst: number): Promise<{ waitSec: number }> {
    return { waitSec: this.#bucket.take(count, ratePerSec, burst, Date.now()) };
  }

  // A lost nudge costs time only: a Scheduler asks again by itself.
  #nudge(objects: string[]): void {
    for (const object of objects)
      this.env.SCHEDULER.getByName(object)
        .nudge()
        .catch(() => undefined);
  }
}
