import type { Settlement } from "../../contracts/rpc.ts";
import { apply, wakeAt } from "../../durable-objects/scheduler/core.ts";
import type { Effect, Event } from "../../durable-objects/scheduler/events.ts";
import { drainChanges } from "../../durable-objects/scheduler/rows.ts";
import type { State } from "../../durable-objects/scheduler/state.ts";
import { createState } from "../../durable-objects/scheduler/state.ts";
import { MemoryRows, OBJECT_HASH } from "../core/lab.ts";
import { checkAlways, checkDeeply } from "./invariants.ts";
import type { World } from "./world.ts";

const SWEEP_MS = 30_000;
const DEEP_EVERY = 128;

/** The object's shell as the platform runs it: it may be evicted or killed between any two steps, its alarm is a hint. */
export class Host {
  readonly rows = new MemoryRows();
  readonly d1 = new Map<string, Settlement>();
  state: State;
  down = false;
  /** Carries out what is not the shell's own business. */
  onEffect: (effect: Effect) => void = () => {};
  /** Connections to parked polls are gone. */
  onDown: () => void = () => {};
  readonly #world: World;
  readonly #object: string;
  readonly #outbox = new Map<string, Settlement>();
  readonly #settled = new Map<string, number>();
  #alarm = 0;
  #draining = false;
  #turns = 0;

  constructor(world: World, object: string) {
    this.#world = world;
    this.#object = object;
    this.state = createState(object, OBJECT_HASH);
    const sweep = () => {
      if (!this.down) this.wake();
      world.after(SWEEP_MS, sweep);
    };
    world.after(SWEEP_MS, sweep);
  }

  get unsettled(): number {
    return this.state.entries.size + this.#outbox.size;
  }

  /** One turn: events, pump, rows; effects are carried out unless the process dies first. @returns effects, or null when down */
  turn(...events: Event[]): Effect[] | null {
    const { chance, faults, now } = this.#world;
    if (this.down) return null;
    if (chance.hits(faults.eviction)) this.#evict();
    const effects: Effect[] = [];
    for (const event of events) {
      if (event.type === "enqueue")
        for (const entry of event.entries) this.rows.storeJob(`${entry.workspace}/${entry.jobHash}`, entry.jobBytes);
      effects.push(...apply(this.state, event, now));
      if (event.type === "tick") this.state.armedWakeAt = null;
    }
    effects.push(...apply(this.state, { type: "pump" }, now));
    const at = wakeAt(this.state, now);
    if (at !== null && (this.state.armedWakeAt === null || this.state.armedWakeAt > at)) {
      if (at <= now) throw new Error(`an alarm was armed for now or before: ${at} at ${now}`);
      this.state.armedWakeAt = at;
      this.#arm(at);
    }
    this.rows.write(drainChanges(this.state));
    this.#keepSettlements(effects);
    checkAlways(this.state, this.rows, effects);
    if (++this.#turns % DEEP_EVERY === 0) checkDeeply(this.state);
    if (chance.hits(faults.crash)) {
      this.#crash();
      return null;
    }
    for (const effect of effects) this.onEffect(effect);
    this.#drain();
    return effects;
  }

  /** The alarm or the cron sweep. */
  wake(): void {
    this.turn({ type: "tick" });
  }

  #keepSettlements(effects: Effect[]): void {
    for (const effect of effects) {
      if (effect.kind !== "settle") continue;
      const { settlement } = effect;
      if (this.#settled.has(settlement.runId)) throw new Error(`${settlement.runId} was settled twice`);
      this.#settled.set(settlement.runId, settlement.epoch);
      this.#outbox.set(settlement.runId, settlement);
    }
  }

  #evict(): void {
    this.state = this.rows.load(this.#object);
    this.onDown();
  }

  #crash(): void {
    this.down = true;
    this.onDown();
    this.#draining = false;
    const { chance } = this.#world;
    const ms = chance.hits(0.2) ? chance.between(30_000, 300_000) : chance.between(10, 3_000);
    this.#world.after(ms, () => {
      this.down = false;
      this.#evict();
      this.wake();
    });
  }

  #arm(at: number): void {
    const { chance, faults } = this.#world;
    const alarm = ++this.#alarm;
    if (chance.hits(faults.lostAlarm)) return;
    const late = chance.hits(faults.lateAlarm) ? chance.between(100, 90_000) : chance.between(0, 4);
    const fire = () => {
      if (!this.down && alarm === this.#alarm) this.wake();
    };
    this.#world.at(at + late, fire);
    if (chance.hits(faults.doubleAlarm)) this.#world.at(at + late + 1, () => !this.down && this.wake());
  }

  #drain(): void {
    if (this.#draining || this.#outbox.size === 0) return;
    this.#draining = true;
    const world = this.#world;
    const stalls = world.chance.hits(world.faults.d1Stall);
    const batch = [...this.#outbox.values()].slice(0, 50);
    world.after(stalls ? 90_000 : world.chance.between(2, 30), () => {
      if (!this.#draining) return;
      this.#draining = false;
      if (stalls) {
        this.#drain();
        return;
      }
      for (const settlement of batch) {
        const known = this.d1.get(settlement.runId);
        if (known && known.epoch !== settlement.epoch) throw new Error(`${settlement.runId} changed after its end`);
        this.d1.set(settlement.runId, settlement);
        // The answer may be lost after the write took effect: then the row stays and is written again.
        if (!world.chance.hits(world.faults.loss)) this.#outbox.delete(settlement.runId);
      }
      this.#drain();
    });
  }
}
