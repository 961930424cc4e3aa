import { DurableObject } from "cloudflare:workers";
import type { DispatcherRpc } from "../../contracts/rpc.ts";
import type {
  RunDigest,
  ScorecardEvent,
  ScorecardLive,
  ScorecardPlan,
  ScorecardRpc,
} from "../../contracts/scorecard-rpc.ts";
import { Readers } from "../log/readers.ts";
import { apply, type CoreEvent, type Effect, liveOf } from "./core.ts";
import { eventsAfter } from "./events.ts";
import { hasEnded, type ScorecardState } from "./state.ts";
import { ScorecardStore } from "./store.ts";
import { waitingOf } from "./waiting.ts";

export interface ScorecardEnv {
  DISPATCHER: DispatcherRpc;
}

const MAX_EVENT_WAIT_MS = 25_000;
/** An alarm set at "now" inside its own handler is dropped; one this far ahead is not. */
const MIN_ALARM_MS = 500;

/** One scorecard: feeds its runs to their Schedulers, follows them, and sums them up. */
export class ScorecardCoordinator extends DurableObject<ScorecardEnv> implements ScorecardRpc {
  readonly #store: ScorecardStore;
  readonly #readers = new Readers();
  #state: ScorecardState;
  #armedFor: number | null = null;

  constructor(ctx: DurableObjectState, env: ScorecardEnv) {
    super(ctx, env);
    this.#store = new ScorecardStore(ctx.storage);
    this.#state = this.#store.load(Date.now());
    ctx.blockConcurrencyWhile(async () => {
      this.#armedFor = await ctx.storage.getAlarm();
      // Calls that were out when this object was last evicted are repeated at once.
      if (this.#state.id !== "" && !hasEnded(this.#state)) await this.#take({ kind: "tick" });
    });
  }

  async begin(plan: ScorecardPlan): Promise<void> {
    await this.#take({ kind: "begin", plan });
  }

  async cancel(): Promise<ScorecardLive> {
    await this.#take({ kind: "cancel" });
    const live = liveOf(this.#state);
    if (!live) throw new Error("this scorecard has not begun");
    return live;
  }

  async live(): Promise<ScorecardLive | null> {
    await this.#nudge();
    return liveOf(this.#state);
  }

  async settled(digests: RunDigest[]): Promise<void> {
    await this.#take({ kind: "settled", digests });
  }

  async started(runIds: string[]): Promise<void> {
    await this.#take({ kind: "started", runIds });
  }

  async waiting(runIds: string[]): ReturnType<ScorecardRpc["waiting"]> {
    return waitingOf(this.#state, runIds, Date.now());
  }

  async events(after: number, waitMs: number): Promise<ScorecardEvent[]> {
    await this.#nudge();
    const events = eventsAfter(this.#state, after);
    if (events.length > 0 || waitMs <= 0) return events;
    await this.#readers.park(Math.min(waitMs, MAX_EVENT_WAIT_MS));
    return eventsAfter(this.#state, after);
  }

  async sweep(): Promise<{ active: boolean }> {
    await this.#take({ kind: "tick" });
    return { active: this.#state.markedActive || (this.#state.id !== "" && !hasEnded(this.#state)) };
  }

  override async alarm(): Promise<void> {
    this.#armedFor = null;
    await this.#take({ kind: "tick" });
  }

  /** An alarm may be late or lost: whoever asks anything while it is overdue does its work. */
  async #nudge(): Promise<void> {
    if (this.#armedFor !== null && this.#armedFor < Date.now()) await this.#take({ kind: "tick" });
  }

  async #take(event: CoreEvent): Promise<void> {
    const before = this.#state.head;
    let effects: Effect[];
    try {
      effects = apply(this.#state, event, Date.now());
      this.#store.save(this.#state);
    } catch (error) {
      this.#state = this.#store.load(Date.now());
      throw error;
    }
    for (const effect of effects) {
      if (effect.kind === "wake-at") await this.#arm(effect.at);
      // Calls leave only once what they rest on is durable: the output gate holds them back until then.
      else this.ctx.waitUntil(this.#call(effect));
    }
    if (this.#state.head !== before) this.#readers.wake();
  }

  async #arm(wanted: number): Promise<void> {
    const at = Math.max(wanted, Date.now() + MIN_ALARM_MS);
    if (this.#armedFor !== null && this.#armedFor <= at) return;
    this.#armedFor = at;
    await this.ctx.storage.setAlarm(at);
  }

  async #call(effect: Exclude<Effect, { kind: "wake-at" }>): Promise<void> {
    const { id } = this.#state;
    const { call } = effect;
    const dispatcher = this.env.DISPATCHER;
    switch (effect.kind) {
      case "feed": {
        const { target, items } = effect;
        await dispatcher.feed(id, items).then(
          (answers) => this.#take({ kind: "fed", target, call, asked: items, answers }),
          (error: unknown) => this.#take({ kind: "feed-lost", target, call, reason: wordsOf(error) }),
        );
        return;
      }
      case "cancel-runs": {
        const { runIds } = effect;
        const ok = await succeeds(dispatcher.cancelRuns(id, runIds));
        return this.#take({ kind: "cancel-told", call, runIds, ok });
      }
      case "finish": {
        const { end } = effect;
        const ok = await dispatcher.finishScorecard(id, end).catch(() => false);
        return this.#take({ kind: "finish-told", call, end, ok });
      }
      case "mark-active": {
        const { active } = effect;
        const ok = await succeeds(dispatcher.markActive("scorecard", id, active));
        return this.#take({ kind: "mark-told", call, active, ok });
      }
    }
  }
}

async function succeeds(work: Promise<void>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch {
    return false;
  }
}

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message.slice(0, 300) : "the call failed");
