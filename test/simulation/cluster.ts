import { attemptName } from "../../contracts/names.ts";
import type { ObservedUnit, StartAnswer } from "../../contracts/rpc.ts";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import type { Effect } from "../../durable-objects/scheduler/events.ts";
import { MEASURED, OBJECT_HASH } from "../core/lab.ts";
import type { Host } from "./host.ts";
import type { World } from "./world.ts";

interface Unit {
  runId: string;
  epoch: number;
  state: "pending" | "running" | "finished" | "stopped" | "vanished";
}

/** A cluster with its Dispatcher: create-or-adopt by name, late and lost answers, stale, failing and hanging listings. */
export class ClusterModel {
  readonly units = new Map<string, Unit>();
  readonly #recent = new Map<string, Unit>();
  readonly #world: World;
  readonly #host: Host;

  constructor(world: World, host: Host) {
    this.#world = world;
    this.#host = host;
  }

  perform(effect: Effect): void {
    if (effect.kind === "start") for (const ref of effect.refs) this.#start(ref);
    if (effect.kind === "stop") for (const unit of effect.units) this.#world.send(() => this.#stop(unit.name));
    if (effect.kind === "observe") this.#observe(effect.refs);
  }

  /** Units that still take room on the cluster. */
  alive(): string[] {
    const names: string[] = [];
    for (const [name, unit] of this.#recent) {
      if (isAlive(unit)) names.push(name);
      else this.#recent.delete(name);
    }
    return names;
  }

  #start(ref: AttemptRef): void {
    const { chance, faults } = this.#world;
    const answer = (it: StartAnswer) => this.#host.turn({ type: "startAnswers", answers: [it] });
    if (chance.hits(faults.hangingCall)) {
      // The call gets no answer in time; its create may still land later.
      this.#world.send(() => this.#create(ref));
      const error = { code: "UPSTREAM_TIMEOUT", message: "no answer", retryAfterSec: chance.hits(0.1) ? 5 : null };
      this.#world.after(10_000, () => answer({ kind: "unknown", ...ref, error }));
      return;
    }
    if (chance.hits(faults.loss)) {
      const detail = { reason: "relay-offline" as const, detail: "the relay is away", retryAfterSec: 3 };
      this.#world.send(() => answer({ kind: "withheld", ...ref, ...detail }));
      return;
    }
    this.#world.send(() => {
      this.#create(ref);
      this.#world.send(() => answer({ kind: "started", ...ref, externalId: "x", node: "n1", runtimeVersion: "1.0.0" }));
    });
  }

  #create(ref: AttemptRef): void {
    const name = attemptName(OBJECT_HASH, ref.runId, ref.epoch);
    if (this.units.has(name)) return;
    this.#checkPredecessor(ref);
    const unit: Unit = { ...ref, state: "pending" };
    this.units.set(name, unit);
    this.#recent.set(name, unit);
    const { chance, faults } = this.#world;
    this.#world.after(chance.between(50, 3_000), () => {
      if (unit.state !== "pending") return;
      unit.state = "running";
      const ms = chance.hits(0.03) ? chance.between(60_000, 600_000) : chance.between(50, 20_000);
      this.#world.after(ms, () => {
        if (unit.state === "running") unit.state = chance.hits(faults.pause) ? "vanished" : "finished";
      });
    });
  }

  #checkPredecessor({ runId, epoch }: AttemptRef): void {
    const history = this.#host.state.entries.get(runId)?.history ?? [];
    for (let n = 1; n < epoch; n++) {
      const before = this.units.get(attemptName(OBJECT_HASH, runId, n));
      if (!before || !isAlive(before)) continue;
      const reason = history.find((attempt) => attempt.epoch === n)?.reason ?? "";
      if (!reason.startsWith("START_LOST")) throw new Error(`${runId} starts as ${epoch} while ${n} runs: ${reason}`);
    }
  }

  #stop(name: string): void {
    const unit = this.units.get(name);
    if (!unit || !isAlive(unit)) return;
    this.#world.after(this.#world.chance.between(10, 15_000), () => {
      if (isAlive(unit)) unit.state = "stopped";
    });
  }

  #observe(refs: AttemptRef[]): void {
    const { chance, faults } = this.#world;
    if (chance.hits(faults.hangingCall)) return;
    if (chance.hits(faults.failingListing)) {
      const error = { code: "UPSTREAM_ERROR", message: "500", retryAfterSec: null };
      const observation = { ok: false, error, units: [], listed: [] };
      this.#world.send(() => this.#host.turn({ type: "observed", observation }));
      return;
    }
    const stale = chance.hits(faults.staleListing);
    const partial = chance.hits(faults.staleListing);
    this.#world.after(chance.between(1, 4_000), () => {
      const seen = refs.filter(() => !partial || chance.hits(0.7)).map((ref) => this.#look(ref, stale));
      const observation = { ok: true, error: null, units: seen, listed: this.alive() };
      this.#world.send(() => this.#host.turn({ type: "observed", observation }));
    });
  }

  #look(ref: AttemptRef, stale: boolean): ObservedUnit {
    const name = attemptName(OBJECT_HASH, ref.runId, ref.epoch);
    const unit = this.units.get(name);
    const stopping = this.#host.state.entries.get(ref.runId)?.attempt?.state === "stopping";
    const seen = { ...ref, name, node: "n1", detail: null, verdict: null };
    const gone = !unit || unit.state === "stopped" || unit.state === "vanished";
    if (gone) return { ...seen, state: stopping ? "stopped" : "absent" };
    if (stale) return { ...seen, state: unit.state === "pending" ? "pending" : "running" };
    if (unit.state === "finished")
      return { ...seen, state: "finished", verdict: { ...MEASURED, stdout: `${name}#${ref.epoch}` } };
    return { ...seen, state: unit.state === "pending" ? "pending" : "running" };
  }
}

const isAlive = (unit: Unit): boolean => unit.state === "pending" || unit.state === "running";
