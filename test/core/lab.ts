import type { Capability, Os } from "../../contracts/capabilities.ts";
import type { Envelope, Settlement, TenantLimits } from "../../contracts/rpc.ts";
import type { AttemptRef, Command } from "../../contracts/runner-protocol.ts";
import { apply, wakeAt } from "../../durable-objects/scheduler/core.ts";
import type { Effect, Event, NewEntry } from "../../durable-objects/scheduler/events.ts";
import { type Changes, drainChanges, type EntryRow, loadState } from "../../durable-objects/scheduler/rows.ts";
import { createState, type State } from "../../durable-objects/scheduler/state.ts";
import { waitingOf } from "../../durable-objects/scheduler/waiting.ts";

export const LIMITS: TenantLimits = { weight: 1, maxInFlight: null, queueDepth: 50_000 };
export const OBJECT_HASH = "0123abcd";

/** Rows as the object's SQLite keeps them, in maps. */
export class MemoryRows {
  readonly #entries = new Map<string, EntryRow>();
  readonly #json = {
    demands: new Map<number, string>(),
    tenants: new Map<string, string>(),
    runners: new Map<string, string>(),
    terminals: new Map<string, string>(),
  };
  readonly #jobs = new Map<string, number>();
  #meta: string | null = null;
  #live = 0;

  write(changes: Changes): void {
    const { demands, tenants, runners, terminals } = this.#json;
    this.#meta = changes.meta;
    for (const row of changes.demands) demands.set(row.id, row.json);
    for (const row of changes.tenants) tenants.set(row.workspace, row.json);
    for (const row of changes.runners) runners.set(row.id, row.json);
    for (const row of changes.entries) {
      this.#live += row.live - (this.#entries.get(row.runId)?.live ?? 0);
      this.#entries.set(row.runId, row);
    }
    for (const row of changes.terminals) terminals.set(row.runId, row.json);
    for (const id of changes.gone) {
      this.#live -= this.#entries.get(id)?.live ?? 0;
      this.#entries.delete(id);
    }
    for (const id of changes.demandsGone) demands.delete(id);
    for (const id of changes.runnersGone) runners.delete(id);
    for (const id of changes.terminalsGone) terminals.delete(id);
    for (const key of changes.jobsGone) this.#jobs.delete(key);
  }

  storeJob(key: string, bytes: number): void {
    if (!this.#jobs.has(key)) this.#jobs.set(key, bytes);
  }

  /** Live entries according to the rows. */
  live(): number {
    return this.#live;
  }

  load(object: string): State {
    const { demands, tenants, runners, terminals } = this.#json;
    return loadState({
      object,
      objectHash: OBJECT_HASH,
      meta: this.#meta,
      demands: demands.values(),
      tenants: tenants.values(),
      runners: runners.values(),
      terminals: terminals.values(),
      jobs: [...this.#jobs].map(([key, bytes]) => ({ key, bytes })),
      entries: [...this.#entries.values()].sort((a, b) => a.seq - b.seq),
    });
  }
}

/** One Scheduler core with its rows, a clock that tests move, and the effects it has asked for. */
export class Lab {
  readonly object: string;
  readonly rows = new MemoryRows();
  readonly settlements: Settlement[] = [];
  state: State;
  now = 1_000_000;
  effects: Effect[] = [];

  constructor(object: string) {
    this.object = object;
    this.state = createState(object, OBJECT_HASH);
  }

  /** Applies events in one turn, admits, writes the rows and arms the alarm. @returns the turn's effects */
  turn(...events: Event[]): Effect[] {
    const effects: Effect[] = [];
    for (const event of events) {
      if (event.type === "enqueue")
        for (const entry of event.entries) this.rows.storeJob(`${entry.workspace}/${entry.jobHash}`, entry.jobBytes);
      effects.push(...apply(this.state, event, this.now));
    }
    effects.push(...apply(this.state, { type: "pump" }, this.now));
    const at = wakeAt(this.state, this.now);
    if (at !== null && (this.state.armedWakeAt === null || this.state.armedWakeAt > at)) this.state.armedWakeAt = at;
    this.rows.write(drainChanges(this.state));
    for (const effect of effects) if (effect.kind === "settle") this.settlements.push(effect.settlement);
    this.effects = effects;
    return effects;
  }

  /** Moves the clock to each wake-up in turn, as an alarm that is on time. */
  advance(ms: number): Effect[] {
    const end = this.now + ms;
    const effects: Effect[] = [];
    for (let steps = 0; steps < 100_000; steps++) {
      const at = this.state.armedWakeAt;
      if (at === null || at > end) break;
      this.now = Math.max(this.now, at);
      effects.push(...this.wake());
    }
    this.now = end;
    return effects;
  }

  /** The alarm, whenever it comes. */
  wake(): Effect[] {
    const effects = apply(this.state, { type: "tick" }, this.now);
    this.state.armedWakeAt = null;
    for (const effect of effects) if (effect.kind === "settle") this.settlements.push(effect.settlement);
    return [...effects, ...this.turn()];
  }

  /** What an eviction does: memory is gone, the rows are read again. */
  reload(): void {
    this.state = this.rows.load(this.object);
  }

  enqueue(entries: NewEntry | NewEntry[], envelope: Envelope | null = null, limits = LIMITS): Effect[] {
    return this.turn({ type: "enqueue", envelope, limits, entries: [entries].flat() });
  }

  poll(pollId: number, parts: PollParts = {}): Effect[] {
    return this.turn(pollEvent(pollId, parts));
  }

  /** Reason and words for which a run waits. */
  why(runId: string): string {
    const entry = this.state.entries.get(runId);
    const waiting = entry ? waitingOf(this.state, entry, this.now) : null;
    return waiting ? `${waiting.reason}: ${waiting.detail}` : "does not wait";
  }
}

export interface PollParts {
  runnerId?: string;
  instanceId?: string;
  slots?: { total: number; free: number };
  memoryMb?: { total: number; free: number };
  capabilities?: Capability[];
  os?: Os;
}

export function pollEvent(pollId: number, parts: PollParts = {}): Event {
  const { runnerId = "rnr-1", instanceId = "i1", slots = { total: 4, free: 4 }, memoryMb = null } = parts;
  return {
    type: "poll",
    pollId,
    runnerId,
    request: {
      protocol: 1,
      instanceId,
      machineId: `machine of ${runnerId}`,
      waitMs: 25_000,
      slots,
      memoryMb,
      labels: [],
      capabilities: parts.capabilities ?? [],
      os: parts.os ?? "linux",
      arch: "x64",
      version: "0.1.0",
    },
  };
}

/** An object of workspace runners with one runner paired. */
export function runnerLab(): Lab {
  const lab = new Lab("runners:ws:acme");
  lab.turn({ type: "pair", runner: { id: "rnr-1", label: "laptop", tokenHash: "h1" } });
  return lab;
}

export const ENVELOPE: Envelope = { slots: 4, memoryBudgetMb: null, cpuBudget: null, version: "1.0.0" };

/** An object of one cluster. */
export function clusterLab(envelope: Partial<Envelope> = {}): Lab {
  const lab = new Lab("cluster:acme:gpu");
  lab.turn({ type: "envelope", envelope: { ...ENVELOPE, ...envelope } });
  return lab;
}

let counter = 0;

export interface EntryParts extends Partial<Omit<NewEntry, "ask" | "job">> {
  memoryMb?: number;
  cpu?: number;
  needs?: Capability[];
  os?: Os;
  timeoutSec?: number;
}

/** A new entry; declared memory and cpu only when given. */
export function entryOf(parts: EntryParts = {}): NewEntry {
  const { memoryMb, cpu, needs = [], os = "linux", timeoutSec = 60, ...rest } = parts;
  counter += 1;
  return {
    runId: `run_${counter.toString(32).padStart(26, "0")}`,
    workspace: "acme",
    target: "gpu",
    pinnedVersion: null,
    batchId: null,
    priority: "interactive",
    ask: {
      cpu: { value: cpu ?? 1_000, declared: cpu !== undefined },
      memoryMb: { value: memoryMb ?? 1_024, declared: memoryMb !== undefined },
      gpu: 0,
    },
    runnerId: null,
    queueTimeoutSec: 0,
    retries: 0,
    job: { needs, os, timeoutSec, graceSec: 10 },
    jobHash: "aa",
    jobBytes: 1_000,
    secrets: false,
    ...rest,
  };
}

export const entriesOf = (count: number, parts: EntryParts = {}): NewEntry[] =>
  Array.from({ length: count }, () => entryOf(parts));

/** Attempts that parked polls were answered with. */
export const grantsOf = (effects: Effect[]): AttemptRef[] =>
  effects.flatMap((effect) => (effect.kind === "answerPoll" ? effect.grants : []));

export const commandsOf = (effects: Effect[]): Command[] =>
  effects.flatMap((effect) => (effect.kind === "answerPoll" ? effect.commands : []));

/** Attempts that the Dispatcher was told to start. */
export const startsOf = (effects: Effect[]): AttemptRef[] =>
  effects.flatMap((effect) => (effect.kind === "start" ? effect.refs : []));

export const heartbeatOf = (
  refs: AttemptRef[],
  phase: "accepted" | "running" = "accepted",
  instanceId = "i1",
): Event => ({
  type: "heartbeat",
  runnerId: "rnr-1",
  request: { instanceId, attempts: refs.map((ref) => ({ ...ref, phase })) },
});

export const verdictsOf = (effects: Effect[]): string[] =>
  effects.flatMap((effect) =>
    effect.kind === "heartbeat" ? effect.answer.attempts.map(({ verdict }) => verdict) : [],
  );

export const acceptedOf = (effects: Effect[]): (true | string)[] =>
  effects.flatMap((effect) =>
    effect.kind === "results" ? effect.accepted.map((one) => (one.accepted ? true : (one.reason ?? "refused"))) : [],
  );

export const MEASURED = {
  kind: "measured" as const,
  result: { exitCode: 0, score: 1, pass: true, scores: [], durationMs: 5, stdoutTail: "", outputs: [] },
  stdout: "",
  stderr: "",
  node: null,
};

export const failedWith = (
  cls: "infra" | "config" | "harness" | "agent",
  code = "BROKEN",
  retryable = cls === "infra",
) => ({
  kind: "failed" as const,
  failure: { stage: "run" as const, class: cls, code, message: "it broke", retryable },
  stdout: "",
  stderr: "",
  node: null,
  durationMs: null,
});

export const resultOf = (
  ref: AttemptRef,
  verdict: Extract<Event, { type: "results" }>["results"][number]["verdict"] = MEASURED,
  instanceId = "i1",
): Event => ({ type: "results", runnerId: "rnr-1", instanceId, results: [{ ...ref, verdict }] });

/** The Dispatcher confirms starts. */
export const startedOf = (refs: AttemptRef[]): Event => ({
  type: "startAnswers",
  answers: refs.map((ref) => ({ kind: "started", ...ref, externalId: "x", node: null, runtimeVersion: "1.0.0" })),
});

type UnitState = "pending" | "running" | "finished" | "absent" | "stopped";

/** One observe pass that saw every ref in one state. */
export const observedOf = (
  refs: AttemptRef[],
  state: UnitState,
  more: {
    listed?: string[];
    detail?: string;
    ranOn?: string;
    verdict?: Extract<Event, { type: "results" }>["results"][number]["verdict"];
  } = {},
): Event => ({
  type: "observed",
  observation: {
    ok: true,
    error: null,
    units: refs.map((ref) => ({
      ...ref,
      name: "x",
      state,
      node: "n1",
      detail: more.detail ?? null,
      verdict: state === "finished" ? (more.verdict ?? MEASURED) : null,
      ...(more.ranOn === undefined ? {} : { ranOn: more.ranOn }),
    })),
    listed: more.listed ?? [],
  },
});

/** The first of a list that must not be empty. */
export function only<T>(list: T[]): T {
  const [first] = list;
  if (first === undefined || list.length !== 1) throw new Error(`expected one, got ${list.length}`);
  return first;
}
