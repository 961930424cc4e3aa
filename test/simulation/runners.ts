import type { Capability } from "../../contracts/capabilities.ts";
import type { Verdict } from "../../contracts/rpc.ts";
import type { AttemptRef, Command } from "../../contracts/runner-protocol.ts";
import type { Effect } from "../../durable-objects/scheduler/events.ts";
import { failedWith, MEASURED, pollEvent } from "../core/lab.ts";
import type { Host } from "./host.ts";
import type { World } from "./world.ts";

interface Held {
  epoch: number;
  phase: "offered" | "running" | "reporting";
  endsAt: number;
  verdict: Verdict | null;
}

let pollIds = 0;

/** Parked polls by id: who is to be answered. */
export type Switchboard = Map<number, (answer: { grants: AttemptRef[]; commands: Command[] }) => void>;

/** Work that is being done right now, by run: which process runs which epoch. */
export type Executing = Map<string, Map<string, number>>;

/** A runner process that speaks the lease protocol over a bad network, may pause for minutes, and may crash. */
export class RunnerProcess {
  readonly #world: World;
  readonly #host: Host;
  readonly #polls: Switchboard;
  readonly #executing: Executing;
  readonly #id: string;
  readonly #slots: number;
  readonly #memoryMb: number;
  readonly #capabilities: Capability[];
  readonly #held = new Map<string, Held>();
  /** Runner clocks run fast or slow. */
  readonly #skew: number;
  #instance: string;
  #generation = 0;
  #pausedUntil = 0;
  #polling = 0;

  constructor(world: World, host: Host, polls: Switchboard, executing: Executing, id: string, able: boolean) {
    this.#world = world;
    this.#host = host;
    this.#polls = polls;
    this.#executing = executing;
    this.#id = id;
    this.#slots = able ? 4 : 1 + world.chance.below(4);
    this.#memoryMb = able ? 16_384 : 4_096 * (1 + world.chance.below(4));
    this.#capabilities = able || world.chance.hits(0.7) ? ["docker", "git"] : ["git"];
    this.#skew = world.chance.between(0.9, 1.1);
    this.#instance = `${id}-0`;
    this.#loop(
      () => this.#poll(),
      () => world.chance.between(500, 3_000),
    );
    this.#loop(
      () => this.#heartbeat(),
      () => 30_000,
    );
    this.#loop(
      () => this.#report(),
      () => 4_000,
    );
    this.#loop(
      () => this.#misfortune(),
      () => 10_000,
    );
  }

  #loop(act: () => void, pause: () => number): void {
    const next = () => {
      const wait = this.#pausedUntil - this.#world.now;
      if (wait > 0) {
        this.#world.after(wait, next);
        return;
      }
      act();
      this.#world.after(pause() * this.#skew, next);
    };
    this.#world.after(this.#world.chance.between(0, 1_000), next);
  }

  #misfortune(): void {
    const { chance, faults } = this.#world;
    if (chance.hits(faults.pause)) this.#pausedUntil = this.#world.now + chance.between(5_000, 300_000);
    if (!chance.hits(faults.runnerCrash)) return;
    for (const runId of this.#held.keys()) this.#executing.get(runId)?.delete(this.#instance);
    this.#held.clear();
    this.#generation += 1;
    this.#instance = `${this.#id}-${this.#generation}`;
    this.#polling = 0;
  }

  /** An answer reaches a process only if it is still the one that asked; a paused one reads it when it wakes. */
  #reply<T>(answer: T, take: (answer: T) => void): void {
    const generation = this.#generation;
    const read = () => {
      if (generation !== this.#generation) return;
      const wait = this.#pausedUntil - this.#world.now;
      if (wait > 0) this.#world.after(wait, read);
      else take(answer);
    };
    this.#world.send(read);
  }

  #poll(): void {
    if (this.#world.now < this.#polling) return;
    this.#polling = this.#world.now + 30_000;
    const pollId = ++pollIds;
    const free = this.#slots - this.#held.size;
    const poll = pollEvent(pollId, {
      runnerId: this.#id,
      instanceId: this.#instance,
      slots: { total: this.#slots, free: Math.max(0, free) },
      memoryMb: { total: this.#memoryMb, free: this.#memoryMb },
      capabilities: this.#capabilities,
    });
    this.#world.send(() => {
      if (this.#host.down) return;
      this.#polls.set(pollId, (answer) => this.#reply(answer, (got) => this.#leased(got)));
      this.#host.turn(poll);
      this.#world.after(25_000, () => {
        if (!this.#polls.has(pollId)) return;
        this.#host.turn({ type: "unpark", pollId });
        this.#polls.get(pollId)?.({ grants: [], commands: [] });
        this.#polls.delete(pollId);
      });
    });
  }

  #leased(answer: { grants: AttemptRef[]; commands: Command[] }): void {
    this.#polling = 0;
    for (const { runId, epoch } of answer.grants) {
      if ((this.#held.get(runId)?.epoch ?? 0) >= epoch) continue;
      this.#held.set(runId, { epoch, phase: "offered", endsAt: 0, verdict: null });
    }
    for (const { runId, epoch } of answer.commands) this.#stop(runId, epoch, "cancel");
    this.#heartbeat();
  }

  #heartbeat(): void {
    if (this.#held.size === 0) return;
    const attempts = [...this.#held].map(([runId, { epoch, phase }]) => {
      return { runId, epoch, phase: phase === "offered" ? ("accepted" as const) : ("running" as const) };
    });
    const request = { instanceId: this.#instance, attempts };
    this.#world.send(() => {
      const effects = this.#host.turn({ type: "heartbeat", runnerId: this.#id, request });
      for (const effect of effects ?? [])
        if (effect.kind === "heartbeat") this.#reply(effect, (got) => this.#told(got));
    });
  }

  #told(effect: Extract<Effect, { kind: "heartbeat" }>): void {
    for (const { runId, epoch, verdict } of effect.answer.attempts) {
      const held = this.#held.get(runId);
      if (!held || held.epoch !== epoch) continue;
      if (verdict !== "extended") this.#stop(runId, epoch, verdict);
      else if (held.phase === "offered") this.#start(runId, held);
    }
  }

  #start(runId: string, held: Held): void {
    const { chance } = this.#world;
    held.phase = "running";
    held.endsAt = this.#world.now + (chance.hits(0.1) ? chance.between(60_000, 400_000) : chance.between(100, 20_000));
    const others = this.#executing.get(runId) ?? new Map<string, number>();
    const history = this.#host.state.entries.get(runId)?.history ?? [];
    const past = history.find((attempt) => attempt.epoch === held.epoch);
    if (past?.reason === "the grant was not accepted in time")
      throw new Error(`${runId} runs as epoch ${held.epoch}, which was withdrawn`);
    others.set(this.#instance, held.epoch);
    this.#executing.set(runId, others);
  }

  #stop(runId: string, epoch: number, why: "cancel" | "superseded"): void {
    const held = this.#held.get(runId);
    if (!held || held.epoch !== epoch || held.phase === "reporting") return;
    this.#executing.get(runId)?.delete(this.#instance);
    if (held.phase === "offered" && why === "superseded") this.#held.delete(runId);
    else Object.assign(held, { phase: "reporting", verdict: { kind: "stopped" } });
  }

  #report(): void {
    const { chance, now } = this.#world;
    for (const [runId, held] of this.#held) {
      if (held.phase !== "running" || held.endsAt > now) continue;
      this.#executing.get(runId)?.delete(this.#instance);
      held.phase = "reporting";
      const stdout = `${this.#instance}#${held.epoch}`;
      if (chance.hits(0.1)) held.verdict = failedWith("infra");
      else if (chance.hits(0.05)) held.verdict = { kind: "released" };
      else held.verdict = { ...MEASURED, stdout };
    }
    const results = [...this.#held].flatMap(([runId, { epoch, verdict }]) =>
      verdict ? [{ runId, epoch, verdict }] : [],
    );
    if (results.length === 0) return;
    const { instanceId, runnerId } = { instanceId: this.#instance, runnerId: this.#id };
    this.#world.send(() => {
      const effects = this.#host.turn({ type: "results", runnerId, instanceId, results });
      for (const effect of effects ?? [])
        if (effect.kind === "results") this.#reply(effect, (got) => this.#reported(got));
    });
  }

  #reported(effect: Extract<Effect, { kind: "results" }>): void {
    for (const { runId, epoch } of effect.accepted) {
      const held = this.#held.get(runId);
      if (held && held.epoch === epoch && held.phase === "reporting") this.#held.delete(runId);
    }
  }
}
