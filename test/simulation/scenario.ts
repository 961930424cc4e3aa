import type { Capability } from "../../contracts/capabilities.ts";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import type { Effect, NewEntry } from "../../durable-objects/scheduler/events.ts";
import { driftOf } from "../../durable-objects/scheduler/views.ts";
import { entryOf, LIMITS } from "../core/lab.ts";
import { ClusterModel } from "./cluster.ts";
import { Host } from "./host.ts";
import { checkDeeply } from "./invariants.ts";
import { type Executing, RunnerProcess, type Switchboard } from "./runners.ts";
import { type Faults, NO_FAULTS, World } from "./world.ts";

const WORKSPACES = ["a", "b", "capped"];
const CAPPED_IN_FLIGHT = 2;
/** Simulated time that an object has to end everything once faults have stopped. */
const DRAIN_MS = 6 * 3_600_000;

/** One world, its object, and whoever talks to it. */
export class Scenario {
  readonly world: World;
  readonly host: Host;
  readonly cluster: ClusterModel;
  readonly #polls: Switchboard = new Map();
  readonly #acknowledged = new Map<string, NewEntry>();
  readonly #places = new Set<string>();
  readonly #kind: "runner" | "push";
  #submitting = true;
  #submitted = 0;

  constructor(seed: number) {
    const shape = new World(seed, NO_FAULTS).chance;
    this.#kind = shape.hits(0.5) ? "runner" : "push";
    this.world = new World(seed, faultsOf(shape));
    this.host = new Host(this.world, this.#kind === "runner" ? "runners:ws:acme" : "cluster:acme:gpu");
    this.cluster = new ClusterModel(this.world, this.host);
    this.host.onEffect = (effect) => this.#perform(effect);
    this.host.onDown = () => this.#polls.clear();
    if (this.#kind === "runner") this.#hireRunners();
    else this.#changeEnvelope();
    this.#submitLoop();
  }

  /**
   * Runs `events` events, three of four with faults, and lets the object finish in peace. Throws when an invariant
   * breaks.
   */
  run(events: number): void {
    while (this.world.events < 0.75 * events) this.world.step();
    this.#submitting = false;
    this.world.faults = NO_FAULTS;
    const end = this.world.now + DRAIN_MS;
    while (this.host.unsettled > 0 || this.#submitted > this.#acknowledged.size) {
      if (!this.world.step() || this.world.now > end) throw new Error(this.#leftovers());
    }
    while (this.world.events < events) this.world.step();
    this.#checkEnd();
  }

  #hireRunners(): void {
    const executing: Executing = new Map();
    const count = 1 + this.world.chance.below(4);
    for (let i = 0; i < count; i++) {
      const id = `rnr-${i}`;
      this.#pair(id);
      new RunnerProcess(this.world, this.host, this.#polls, executing, id, i === 0);
    }
  }

  #pair(id: string): void {
    const paired = this.host.turn({ type: "pair", runner: { id, label: id, tokenHash: `hash of ${id}` } });
    if (!this.host.state.runners.has(id) || paired === null) this.world.after(1_000, () => this.#pair(id));
  }

  #changeEnvelope(): void {
    const { chance } = this.world;
    const memoryBudgetMb = chance.hits(0.5) ? 16_384 : null;
    const envelope = { slots: 1 + chance.below(8), memoryBudgetMb, cpuBudget: null, version: "1.0.0" };
    this.host.turn({ type: "envelope", envelope });
    this.world.after(chance.between(20_000, 300_000), () => this.#changeEnvelope());
  }

  #submitLoop(): void {
    if (!this.#submitting) return;
    const { chance } = this.world;
    const fresh = Array.from({ length: 1 + chance.below(6) }, () => this.#newEntry());
    this.#submitted += fresh.length;
    this.#submit(fresh);
    if (chance.hits(0.3)) this.#disturb(chance.pick(fresh).runId);
    this.world.after(chance.between(500, 30_000), () => this.#submitLoop());
  }

  #newEntry(): NewEntry {
    const { chance } = this.world;
    const needs: Capability[] = chance.hits(0.3) ? ["docker"] : [];
    const batch = chance.hits(0.5);
    return entryOf({
      workspace: chance.pick(WORKSPACES),
      batchId: batch ? `sc_${chance.below(3)}` : null,
      priority: batch ? "batch" : "interactive",
      needs,
      ...(chance.hits(0.4) ? { memoryMb: 1_024 * (1 + chance.below(12)) } : {}),
      runnerId: this.#kind === "runner" && chance.hits(0.1) ? "rnr-0" : null,
      retries: chance.below(3),
      queueTimeoutSec: chance.hits(0.1) ? 300 : 0,
      timeoutSec: 100 + 100 * chance.below(2),
      secrets: chance.hits(0.3),
      jobHash: `job${chance.below(5)}`,
    });
  }

  /** An enqueue is repeated until it is acknowledged; it is idempotent. */
  #submit(entries: NewEntry[]): void {
    const waiting = entries.filter((entry) => !this.#acknowledged.has(entry.runId));
    if (waiting.length === 0) return;
    const workspaces = new Map<string, NewEntry[]>();
    for (const entry of waiting) workspaces.set(entry.workspace, [...(workspaces.get(entry.workspace) ?? []), entry]);
    for (const [workspace, group] of workspaces) {
      const limits = workspace === "capped" ? { ...LIMITS, maxInFlight: CAPPED_IN_FLIGHT } : LIMITS;
      this.world.send(() => {
        const effects = this.host.turn({ type: "enqueue", envelope: null, limits, entries: group });
        if (!effects) return;
        this.world.send(() => {
          for (const entry of group) this.#acknowledged.set(entry.runId, entry);
        });
      });
    }
    this.world.after(60_000, () => this.#submit(entries));
  }

  #disturb(runId: string): void {
    const { chance } = this.world;
    this.world.after(chance.between(0, 60_000), () => {
      if (chance.hits(0.5)) this.world.send(() => this.host.turn({ type: "promote", runId }));
      else this.world.send(() => this.host.turn({ type: "cancel", runIds: [runId], reason: "no longer wanted" }));
    });
  }

  #perform(effect: Effect): void {
    if (effect.kind === "answerPoll") {
      this.#polls.get(effect.pollId)?.(effect);
      this.#polls.delete(effect.pollId);
    } else if (effect.kind === "refusePoll") this.#polls.delete(effect.pollId);
    else if (effect.kind === "acquireQuota") this.#acquire(effect.workspace, effect.refs);
    else if (effect.kind === "releaseQuota") this.world.send(() => this.#release(effect.refs));
    else if (effect.kind === "reconcileQuota") this.world.send(() => this.#reconcile(effect.live));
    else this.cluster.perform(effect);
  }

  #acquire(workspace: string, refs: AttemptRef[]): void {
    this.world.send(() => {
      const granted: AttemptRef[] = [];
      const denied: AttemptRef[] = [];
      for (const ref of refs) {
        const key = `${ref.runId}/${ref.epoch}`;
        const free = this.#places.has(key) || this.#places.size < CAPPED_IN_FLIGHT;
        if (free) this.#places.add(key);
        (free ? granted : denied).push(ref);
      }
      this.world.send(() => this.host.turn({ type: "quota", workspace, granted, denied }));
    });
  }

  #release(refs: AttemptRef[]): void {
    for (const { runId, epoch } of refs) this.#places.delete(`${runId}/${epoch}`);
    this.world.send(() => this.host.turn({ type: "nudge" }));
  }

  #reconcile(live: AttemptRef[]): void {
    this.#places.clear();
    for (const { runId, epoch } of live) this.#places.add(`${runId}/${epoch}`);
  }

  #leftovers(): string {
    const entries = [...this.host.state.entries.values()].slice(0, 5);
    const words = entries.map(({ runId, attempt, backoff, demand }) =>
      JSON.stringify({ runId, attempt, backoff, demand }),
    );
    return `${this.host.unsettled} runs did not end after faults had stopped: ${words.join("; ")}`;
  }

  #checkEnd(): void {
    checkDeeply(this.host.state);
    if (this.host.state.live.size > 0) throw new Error("usage is not zero at the end");
    const drift = driftOf(this.host.state, this.host.rows.live());
    if (this.#kind === "runner" && drift !== 0) throw new Error(`drift is ${drift} at the end`);
    for (const runId of this.#acknowledged.keys())
      if (!this.host.d1.has(runId) && !this.host.state.terminals.has(runId)) throw new Error(`${runId} was lost`);
    for (const { runId, status, epoch, stdout } of this.host.d1.values())
      if (status === "succeeded" && !stdout.endsWith(`#${epoch}`))
        throw new Error(`${runId} ended in epoch ${epoch} with the result of ${stdout}`);
    this.#sweepStrays();
  }

  /** Units whose create landed after their attempt had ended are found by the sweeps that go on for it. */
  #sweepStrays(): void {
    const end = this.world.now + 15 * 60_000;
    while (this.cluster.alive().length > 0)
      if (!this.world.step() || this.world.now > end) throw new Error(`strays are left: ${this.cluster.alive()}`);
  }
}

function faultsOf(chance: World["chance"]): Faults {
  const some = (most: number) => (chance.hits(0.5) ? chance.next() * most : 0);
  return {
    loss: some(0.2),
    duplicate: some(0.2),
    longDelay: some(0.1),
    crash: some(0.02),
    eviction: some(0.1),
    lateAlarm: some(0.3),
    lostAlarm: some(0.3),
    doubleAlarm: some(0.3),
    pause: some(0.05),
    runnerCrash: some(0.03),
    failingListing: some(0.5),
    hangingCall: some(0.2),
    staleListing: some(0.4),
    d1Stall: some(0.2),
  };
}
