import type { JobFacts } from "../../contracts/job.ts";
import { attemptName } from "../../contracts/names.ts";
import type { GradingSpec, Grant, StartAnswer } from "../../contracts/rpc.ts";
import type { AttemptRef, Command } from "../../contracts/runner-protocol.ts";
import { jobKey, versionOf } from "./endings.ts";
import type { Engine, Turn } from "./engine.ts";
import type { SchedulerEnv } from "./environment.ts";
import type { Effect } from "./events.ts";
import type { Logger } from "./log.ts";
import type { Entry } from "./state.ts";
import type { Store, StoredJob } from "./store.ts";

/** The answer a parked poll gets; null when its runner was revoked meanwhile. */
export type PollAnswer = { grants: Grant[]; commands: Command[] } | null;

/** Jobs are parsed once for a run of equal grants. */
const JOB_CACHE = 32;
/** Grants of one call to the Dispatcher. */
const START_BATCH = 50;

/** Carries the core's effects out: answers parked polls and calls the Dispatcher and other objects, never awaited by a turn. */
export class Effects {
  readonly #env: SchedulerEnv;
  readonly #store: Store;
  readonly #log: Logger;
  readonly #polls: Map<number, (answer: PollAnswer) => void>;
  readonly #jobs = new Map<string, StoredJob>();
  #engine: Engine | null = null;

  constructor(env: SchedulerEnv, store: Store, log: Logger, polls: Map<number, (answer: PollAnswer) => void>) {
    this.#env = env;
    this.#store = store;
    this.#log = log;
    this.#polls = polls;
  }

  attach(engine: Engine): void {
    this.#engine = engine;
  }

  perform(turn: Turn): void {
    const started = new Map<string, string[]>();
    for (const effect of turn.effects) {
      if (effect.kind === "started") {
        const runs = started.get(effect.scorecardId) ?? [];
        runs.push(effect.runId);
        started.set(effect.scorecardId, runs);
      } else this.#one(effect);
    }
    for (const [scorecardId, runIds] of started)
      this.#forget(() => this.#env.SCORECARD.getByName(scorecardId).started(runIds), "scorecard.started");
  }

  #one(effect: Effect): void {
    switch (effect.kind) {
      case "answerPoll":
        this.#answer(effect.pollId, { grants: this.grants(effect.grants), commands: effect.commands });
        return;
      case "refusePoll":
        this.#answer(effect.pollId, null);
        return;
      case "start":
        for (let i = 0; i < effect.refs.length; i += START_BATCH) this.#start(effect.refs.slice(i, i + START_BATCH));
        return;
      case "stop":
        this.#forget(() => this.#env.DISPATCHER.stop(this.#object(), effect.units), "stop");
        return;
      case "observe":
        this.#observe(effect.refs);
        return;
      case "acquireQuota":
        this.#acquire(effect);
        return;
      case "releaseQuota":
        this.#forget(
          () => this.#env.QUOTA.getByName(effect.workspace).release(this.#object(), effect.refs),
          "quota.release",
        );
        return;
      case "reconcileQuota":
        this.#forget(
          () => this.#env.QUOTA.getByName(effect.workspace).reconcile(this.#object(), effect.live),
          "quota.reconcile",
        );
        return;
      case "log":
        this.#log(effect.event, effect.fields);
        return;
      default:
    }
  }

  #answer(pollId: number, answer: PollAnswer): void {
    const resolve = this.#polls.get(pollId);
    this.#polls.delete(pollId);
    resolve?.(answer);
  }

  #object(): string {
    return this.#engine?.state.object ?? "";
  }

  #forget(call: () => Promise<unknown>, what: string): void {
    // The core repeats what matters, so a failure here is only worth a line.
    Promise.resolve()
      .then(call)
      .catch((error: unknown) => this.#log(`${what}.failed`, { error: messageOf(error) }));
  }

  /** Grants as they go to an executor. A ref that is no longer current is left out. */
  grants(refs: AttemptRef[]): Grant[] {
    const grants: Grant[] = [];
    for (const ref of refs) {
      const entry = this.#current(ref);
      const job = entry && this.#job(entry);
      const attempt = entry?.attempt;
      if (!entry || !attempt || !job || !this.#engine) continue;
      const { state } = this.#engine;
      const { demand } = entry;
      grants.push({
        runId: ref.runId,
        workspace: demand.workspace,
        target: demand.target,
        pinnedVersion: entry.attempt?.unit?.version ?? demand.pinnedVersion,
        epoch: ref.epoch,
        name: attempt.unit?.name ?? nameFor(state.objectHash, ref),
        objectHash: state.objectHash,
        nonce: attempt.nonce,
        job: job.facts,
        programJson: job.programJson,
      });
    }
    return grants;
  }

  #current(ref: AttemptRef): Entry | null {
    const entry = this.#engine?.state.entries.get(ref.runId);
    return entry?.attempt?.epoch === ref.epoch ? entry : null;
  }

  #job(entry: Entry): StoredJob | null {
    const key = jobKey(entry.demand.workspace, entry.jobHash);
    const cached = this.#jobs.get(key);
    if (cached) return cached;
    const job = this.#store.job(key);
    if (!job) return null;
    if (this.#jobs.size >= JOB_CACHE)
      for (const old of this.#jobs.keys()) {
        this.#jobs.delete(old);
        break;
      }
    this.#jobs.set(key, job);
    return job;
  }

  /** What a judge needs for one attempt: the grading spec and the facts of its job. */
  grading(entry: Entry): {
    grading: GradingSpec;
    job: Pick<JobFacts, "timeoutSec" | "resources" | "image" | "secretEnv" | "git">;
  } | null {
    const job = this.#job(entry);
    if (!job) return null;
    const { timeoutSec, resources, image, secretEnv, git } = job.facts;
    return { grading: this.#store.grading(entry.runId), job: { timeoutSec, resources, image, secretEnv, git } };
  }

  #start(refs: AttemptRef[]): void {
    const engine = this.#engine;
    if (!engine) return;
    const grants = this.grants(refs);
    const lost = (error: unknown): StartAnswer[] =>
      refs.map((ref) => ({
        kind: "unknown",
        ...ref,
        error: { code: "UNAVAILABLE", message: messageOf(error), retryAfterSec: null },
      }));
    Promise.resolve()
      .then(() => this.#env.DISPATCHER.start(this.#object(), grants))
      .catch(lost)
      .then((answers) => engine.submit((now) => engine.apply({ type: "startAnswers", answers }, now)))
      .catch((error: unknown) => this.#log("start.failed", { error: messageOf(error) }));
  }

  #observe(refs: AttemptRef[]): void {
    const engine = this.#engine;
    if (!engine) return;
    const units: Parameters<SchedulerEnv["DISPATCHER"]["observe"]>[1] = [];
    for (const ref of refs) {
      const entry = this.#current(ref);
      const judge = entry && this.grading(entry);
      if (!entry?.attempt?.unit || !judge) continue;
      const { target, workspace } = entry.demand;
      const { state, nonce, unit } = entry.attempt;
      const pinnedVersion = versionOf(engine.state, entry);
      const stopping = state === "stopping";
      units.push({ ...ref, ...judge, name: unit.name, target, workspace, pinnedVersion, nonce, stopping });
    }
    Promise.resolve()
      .then(() => this.#env.DISPATCHER.observe(this.#object(), units))
      .catch((error: unknown) => {
        const failed = { code: "UNAVAILABLE", message: messageOf(error), retryAfterSec: null };
        const observation = { ok: false, error: failed, units: [], listed: [] };
        return engine.submit((now) => engine.apply({ type: "observed", observation }, now));
      })
      .catch((error: unknown) => this.#log("observe.failed", { error: messageOf(error) }));
  }

  #acquire(effect: Extract<Effect, { kind: "acquireQuota" }>): void {
    const engine = this.#engine;
    if (!engine) return;
    const { workspace, maxInFlight, refs } = effect;
    Promise.resolve()
      .then(() => this.#env.QUOTA.getByName(workspace).acquire(this.#object(), maxInFlight, refs))
      .then(({ granted, denied }) =>
        engine.submit((now) => engine.apply({ type: "quota", workspace, granted, denied }, now)),
      )
      .catch((error: unknown) => this.#log("quota.acquire.failed", { error: messageOf(error) }));
  }
}

export const messageOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).slice(0, 200);

const nameFor = (objectHash: string, ref: AttemptRef): string => attemptName(objectHash, ref.runId, ref.epoch);
