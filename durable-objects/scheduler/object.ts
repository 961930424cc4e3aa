import { DurableObject } from "cloudflare:workers";
import type { Inspection } from "../../contracts/inspection.ts";
import { attemptName } from "../../contracts/names.ts";
import type {
  CancelAnswer,
  EnqueueAnswer,
  EnqueueEntry,
  Envelope,
  Grant,
  JudgedResult,
  Observation,
  QueueView,
  RunnerAnswer,
  RunnerRecord,
  RunnerView,
  RuntimeRef,
  RunView,
  SchedulerRpc,
  TenantLimits,
} from "../../contracts/rpc.ts";
import type { Failure } from "../../contracts/run.ts";
import type {
  Accepted,
  AttemptRef,
  Command,
  HeartbeatAnswer,
  HeartbeatRequest,
  LeaseRequest,
} from "../../contracts/runner-protocol.ts";
import { Activity } from "./activity.ts";
import { Effects, messageOf, type PollAnswer } from "./effects.ts";
import { jobKey } from "./endings.ts";
import { Engine } from "./engine.ts";
import type { SchedulerEnv } from "./environment.ts";
import type { Withheld } from "./events.ts";
import { Inspections } from "./inspections.ts";
import { jsonLogger, type Logger } from "./log.ts";
import { Outbox } from "./outbox.ts";
import { MAX_JOB_CHARS, slimEntry, tooLargeAnswer } from "./slim-entry.ts";
import type { Runner } from "./state.ts";
import { createState, kindOf } from "./state.ts";
import { Store, type StoredJob } from "./store.ts";
import { gaugesOf, queueView, runnerViews, runView } from "./views.ts";
import { WatchedRuns } from "./watched-runs.ts";

/** Largest number of ids, entries or results in one call. */
const MAX_BATCH = 5_000;
/** Code of an attempt that ended for a reason which the diagnosis does not know. */
const UNKNOWN_REASON = "CLUSTER_REASON_UNKNOWN";

type Refused = { ok: false; code: "UNAUTHENTICATED" };
const REFUSED: Refused = { ok: false, code: "UNAUTHENTICATED" };

/** The object that alone decides what may start on one physical capacity. */
export class Scheduler extends DurableObject<SchedulerEnv> implements SchedulerRpc {
  readonly #store: Store;
  readonly #log: Logger;
  readonly #outbox: Outbox;
  readonly #effects: Effects;
  readonly #inspections = new Inspections(
    (runtime) => this.env.DISPATCHER.inspect(this.#inspected, runtime),
    () => Date.now(),
  );
  readonly #polls = new Map<number, (answer: PollAnswer) => void>();
  #engine: Engine;
  #pollIds = 0;
  readonly #activity: Activity;
  readonly #watched = new WatchedRuns();
  /** Its own name, as whoever looks says it: a look makes no state. */
  #inspected = "";

  constructor(ctx: DurableObjectState, env: SchedulerEnv) {
    super(ctx, env);
    const now = () => Date.now();
    this.#store = new Store(ctx.storage);
    this.#log = jsonLogger("scheduler", (line) => console.log(line), now);
    this.#outbox = new Outbox({
      store: this.#store,
      dispatcher: env.DISPATCHER,
      scorecard: (id) => env.SCORECARD.getByName(id),
      log: this.#log,
      onRetry: () => this.#turn(() => undefined),
      now,
    });
    this.#effects = new Effects(env, this.#store, this.#log, this.#polls);
    const object = this.#store.readMeta("object");
    const hash = this.#store.readMeta("objectHash");
    this.#activity = new Activity({
      store: this.#store,
      log: this.#log,
      isActive: () => this.#isActive(),
      tell: (active) => env.DISPATCHER.markActive("scheduler", this.#engine.state.object, active),
      rearm: (at) => this.#engine.rearm(at),
    });
    const loaded = object !== null && hash !== null;
    this.#engine = this.#engineFor(loaded ? this.#store.load(object, hash) : createState("", ""));
    if (loaded && this.#outbox.pending) this.#outbox.drain();
  }

  #engineFor(state: ReturnType<typeof createState>): Engine {
    const engine = new Engine({
      state,
      store: this.#store,
      now: () => Date.now(),
      arm: (at) => void this.ctx.storage.setAlarm(at),
      perform: (turn) => {
        this.#effects.perform(turn);
        if (turn.effects.some((effect) => effect.kind === "settle")) this.#outbox.drain();
        if (this.#engine.state.object !== "") this.#activity.look(turn.now);
      },
      nonce: () => hex(crypto.getRandomValues(new Uint8Array(16))),
      otherWakeAt: () => this.#otherWakeAt(),
      abort: (error) => {
        this.#log("turn.failed", { error: messageOf(error) });
        this.ctx.abort("a turn could not be written");
      },
    });
    this.#effects.attach(engine);
    return engine;
  }

  /** Gives the object its name at first use. */
  async #named(object: string): Promise<void> {
    if (this.#engine.state.object !== "") return;
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(object));
    if (this.#engine.state.object !== "") return;
    const hash = hex(new Uint8Array(digest)).slice(0, 8);
    this.#store.writeMeta("object", object);
    this.#store.writeMeta("objectHash", hash);
    Object.assign(this.#engine.state, { object, objectHash: hash, kind: kindOf(object) });
  }

  #turn<T>(operation: (now: number) => T): Promise<T> {
    return this.#engine.submit(operation);
  }

  async enqueue(
    object: string,
    envelope: Envelope | null,
    limits: TenantLimits,
    entries: EnqueueEntry[],
  ): Promise<EnqueueAnswer[]> {
    await this.#named(object);
    return this.#turn((now) => this.#enqueueNow(envelope, limits, entries.slice(0, MAX_BATCH), now));
  }

  #enqueueNow(envelope: Envelope | null, limits: TenantLimits, entries: EnqueueEntry[], now: number): EnqueueAnswer[] {
    const { state, writes } = this.#engine;
    const fresh = entries.filter((entry) => !state.entries.has(entry.runId));
    const known = new Set(
      fresh.map((entry) => jobKey(entry.workspace, entry.jobHash)).filter((key) => state.jobs.has(key)),
    );
    const jobs = new Map<string, StoredJob>();
    const slim = entries.map((entry) => slimEntry(entry, jobs));
    const tooLarge = slim.filter((entry) => entry.jobBytes > MAX_JOB_CHARS);
    if (tooLarge.length > 0) {
      const small = entries.filter((_, index) => (slim[index]?.jobBytes ?? 0) <= MAX_JOB_CHARS);
      return [...this.#enqueueNow(envelope, limits, small, now), ...tooLarge.map(tooLargeAnswer)];
    }
    const effects = this.#engine.apply({ type: "enqueue", envelope, limits, entries: slim }, now);
    for (const entry of fresh) {
      if (!state.entries.has(entry.runId)) continue;
      writes.gradings.push({ runId: entry.runId, json: JSON.stringify(entry.grading) });
      const key = jobKey(entry.workspace, entry.jobHash);
      const job = jobs.get(key);
      if (known.has(key) || job === undefined) continue;
      known.add(key);
      writes.jobs.push({ key, bytes: job.programJson.length, job });
    }
    return effects.find((effect) => effect.kind === "enqueued")?.answers ?? [];
  }

  cancel(runIds: string[], reason: string): Promise<CancelAnswer[]> {
    const ids = runIds.slice(0, MAX_BATCH);
    return this.#turn((now) => {
      const effects = this.#engine.apply({ type: "cancel", runIds: ids, reason: reason.slice(0, 500) }, now);
      return effects.find((effect) => effect.kind === "cancelled")?.answers ?? [];
    });
  }

  async views(runIds: string[]): Promise<RunView[]> {
    const now = Date.now();
    const views: RunView[] = [];
    for (const runId of runIds.slice(0, MAX_BATCH)) {
      const view = runView(this.#engine.state, runId, now) ?? this.#endedView(runId);
      if (view) views.push(view);
    }
    return views;
  }

  #endedView(runId: string): RunView | null {
    const settlement = this.#store.settlement(runId);
    if (!settlement) return null;
    const { status, epoch, startedAt, finishedAt, attempts, runtimeVersion } = settlement;
    return {
      runId,
      status,
      epoch,
      startedAt,
      finishedAt,
      waiting: null,
      attempts,
      placed: null,
      runtimeVersion,
      settlement,
    };
  }

  async queueView(query: Parameters<SchedulerRpc["queueView"]>[0]): Promise<QueueView> {
    return queueView(this.#engine.state, query, this.#store.liveRows(), Date.now());
  }

  promote(runId: string): Promise<boolean> {
    return this.#turn((now) => {
      const effects = this.#engine.apply({ type: "promote", runId }, now);
      return effects.find((effect) => effect.kind === "promoted")?.done ?? false;
    });
  }

  async relayBack(): Promise<void> {
    await this.#turn((now) => this.#engine.apply({ type: "relayBack" }, now));
  }

  async evicting(units: string[], by: string): Promise<void> {
    await this.#turn((now) => this.#engine.apply({ type: "evicting", units: units.slice(0, MAX_BATCH), by }, now));
  }

  async setEnvelope(object: string, envelope: Envelope): Promise<void> {
    await this.#named(object);
    await this.#turn((now) => this.#engine.apply({ type: "envelope", envelope }, now));
  }

  async setLimits(workspace: string, limits: TenantLimits): Promise<void> {
    await this.#turn((now) => this.#engine.apply({ type: "limits", workspace, limits }, now));
  }

  async nudge(): Promise<void> {
    await this.#turn((now) => this.#engine.apply({ type: "nudge" }, now));
  }

  async pairRunner(object: string, runner: RunnerRecord): Promise<void> {
    await this.#named(object);
    await this.#turn((now) => this.#engine.apply({ type: "pair", runner }, now));
  }

  revokeRunner(id: string): ReturnType<SchedulerRpc["revokeRunner"]> {
    return this.#turn((now) => {
      const effects = this.#engine.apply({ type: "revoke", runnerId: id }, now);
      const { done = false, held = [] } = effects.find((effect) => effect.kind === "revoked") ?? {};
      return { done, held };
    });
  }

  async runners(): Promise<RunnerView[]> {
    return runnerViews(this.#engine.state, Date.now());
  }

  async lease(
    tokenHash: string,
    request: LeaseRequest,
  ): Promise<RunnerAnswer<{ grants: Grant[]; commands: Command[] }>> {
    const runner = this.#runner(tokenHash);
    if (!runner) return REFUSED;
    const answer = await this.#park(runner, request, request.waitMs);
    return answer === null ? REFUSED : { ok: true, ...answer };
  }

  #runner(tokenHash: string): Runner | undefined {
    return this.#engine.state.byToken.get(tokenHash);
  }

  #park(runner: Runner, request: LeaseRequest, waitMs: number): Promise<PollAnswer> {
    const pollId = ++this.#pollIds;
    return new Promise((resolve, reject) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      this.#polls.set(pollId, (answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
      const giveUp = () =>
        this.#turn((now) => this.#engine.apply({ type: "unpark", pollId }, now)).then(
          () => this.#empty(pollId),
          reject,
        );
      this.#turn((now) => this.#engine.apply({ type: "poll", pollId, runnerId: runner.id, request }, now)).then(() => {
        if (this.#polls.has(pollId)) timer = setTimeout(giveUp, Math.max(0, waitMs));
      }, reject);
    });
  }

  #empty(pollId: number): void {
    const resolve = this.#polls.get(pollId);
    this.#polls.delete(pollId);
    resolve?.({ grants: [], commands: [] });
  }

  async heartbeat(tokenHash: string, request: HeartbeatRequest): Promise<RunnerAnswer<HeartbeatAnswer>> {
    const runner = this.#runner(tokenHash);
    if (!runner) return REFUSED;
    const answer = await this.#turn((now) => {
      const effects = this.#engine.apply({ type: "heartbeat", runnerId: runner.id, request }, now);
      return effects.find((effect) => effect.kind === "heartbeat")?.answer ?? { attempts: [] };
    });
    return { ok: true, ...answer };
  }

  async gradings(tokenHash: string, instanceId: string, refs: AttemptRef[]): ReturnType<SchedulerRpc["gradings"]> {
    const runner = this.#runner(tokenHash);
    if (!runner) return REFUSED;
    const gradings = [];
    for (const ref of refs.slice(0, MAX_BATCH)) {
      const entry = this.#engine.state.entries.get(ref.runId);
      const attempt = entry?.attempt;
      if (!entry || attempt?.epoch !== ref.epoch) continue;
      if (attempt.runnerId !== runner.id || attempt.instanceId !== instanceId) continue;
      const judge = this.#effects.grading(entry);
      if (judge) gradings.push({ runId: ref.runId, epoch: ref.epoch, ...judge, workspace: entry.demand.workspace });
    }
    return { ok: true, gradings };
  }

  async results(
    tokenHash: string,
    instanceId: string,
    results: JudgedResult[],
    lease: LeaseRequest | null,
  ): Promise<RunnerAnswer<{ accepted: Accepted[]; grants: Grant[]; commands: Command[] }>> {
    const runner = this.#runner(tokenHash);
    if (!runner) return REFUSED;
    const batch = results.slice(0, MAX_BATCH);
    const taking = this.#turn((now) => {
      const effects = this.#engine.apply({ type: "results", runnerId: runner.id, instanceId, results: batch }, now);
      return effects.find((effect) => effect.kind === "results")?.accepted ?? [];
    });
    // Queued in the same turn: what the results free is granted with their answer.
    const next = lease ? this.#park(runner, lease, batch.length > 0 ? 0 : lease.waitMs) : null;
    const [accepted, answer] = await Promise.all([taking, next ?? { grants: [], commands: [] }]);
    return answer === null ? REFUSED : { ok: true, accepted, ...answer };
  }

  async withhold(items: Withheld[]): Promise<void> {
    await this.#turn((now) => this.#engine.apply({ type: "withhold", items: items.slice(0, MAX_BATCH) }, now));
  }

  async reject(items: (AttemptRef & { failure: Failure })[]): Promise<void> {
    await this.#turn((now) => this.#engine.apply({ type: "reject", items: items.slice(0, MAX_BATCH) }, now));
  }

  async observed(observation: Observation): Promise<{ followed: string[] }> {
    await this.#turn((now) => {
      this.#countUnknown(observation);
      this.#engine.apply({ type: "observed", observation }, now);
    });
    const now = Date.now();
    return { followed: observation.units.map(({ runId }) => runId).filter((runId) => this.#watched.has(runId, now)) };
  }

  /** Reasons of a cluster that no row of the diagnosis knows: each of them deserves one. */
  #countUnknown({ units }: Observation): void {
    const { state } = this.#engine;
    const fresh = units.filter(
      ({ runId, epoch, verdict }) =>
        state.live.get(runId)?.attempt?.epoch === epoch &&
        verdict !== null &&
        "failure" in verdict &&
        verdict.failure.code === UNKNOWN_REASON,
    ).length;
    if (fresh > 0) this.#store.writeMeta("unknownReasons", String(this.#unknownReasons() + fresh));
  }

  #unknownReasons(): number {
    return Number(this.#store.readMeta("unknownReasons") ?? 0);
  }

  async follow(runId: string): Promise<void> {
    this.#watched.note(runId, Date.now());
  }

  async sweep(): Promise<{ active: boolean }> {
    await this.#turn((now) => this.#wake(now));
    this.#outbox.drain();
    // While D1 has the object marked, only the object itself unmarks it: else the next activity would not be marked.
    return { active: this.#activity.marked || this.#isActive() };
  }

  override async alarm(): Promise<void> {
    await this.#turn((now) => this.#wake(now));
    this.#outbox.drain();
  }

  /** An alarm is a hint: it may be late, doubled or early, so what it was armed for is settled and armed anew. */
  #wake(now: number): void {
    this.#engine.apply({ type: "tick" }, now);
    this.#engine.state.armedWakeAt = null;
  }

  async gauges(): Promise<Record<string, number>> {
    return {
      ...gaugesOf(this.#engine.state, this.#store.liveRows()),
      everdict_outbox_records: this.#store.outboxSize(),
      everdict_cluster_reasons_unknown_total: this.#unknownReasons(),
    };
  }

  inspect(object: string, runtime: RuntimeRef): Promise<Inspection> {
    this.#inspected = object;
    return this.#inspections.look(runtime);
  }

  async forgetInspections(): Promise<void> {
    this.#inspections.forget();
  }

  async liveUnits(): Promise<string[]> {
    const { state } = this.#engine;
    return [...state.live.values()].flatMap(({ runId, attempt }) =>
      attempt === null ? [] : [attemptName(state.objectHash, runId, attempt.epoch)],
    );
  }

  #isActive(): boolean {
    const { state } = this.#engine;
    return state.entries.size > 0 || state.observing.sweepUntil > Date.now() || this.#outbox.pending;
  }

  #otherWakeAt(): number | null {
    const times = [this.#outbox.retryAt, this.#activity.wakeAt];
    const known = times.filter((time) => time !== null);
    return known.length === 0 ? null : Math.min(...known);
  }
}

const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
