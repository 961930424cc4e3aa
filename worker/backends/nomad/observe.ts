import type { BackendOwner, ObserveOptions, SeenUnit, Sighting, WatchedUnit } from "../backend.ts";
import { failureOf, isOver, wordsOf } from "../diagnosis.ts";
import { eachOf } from "../each-of.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { allocationsOf, blockedEvaluations, jobAllocations, liveJobs, readJob } from "./calls.ts";
import type { NomadClient } from "./client.ts";
import { collectEnd } from "./collect.ts";
import type { NomadSpec } from "./document.ts";
import {
  detailOf,
  failureOfAllocation,
  failureOfWords,
  isEnded,
  isGone,
  pendingDiagnosis,
  startedMs,
  wordsOfAllocation,
} from "./evidence.ts";
import { type ListedJob, type Listing, listJobs } from "./listing.ts";
import { placementWords } from "./placement.ts";
import { isOurs, sweepVariables } from "./remove.ts";
import type { Allocation } from "./shapes.ts";

/*
 * One pass: one listing for all jobs of the object, whatever their number, one of the jobs that live, and only where it
 * applies one of the evaluations and one of the pending allocations. Then a few calls for each job that has left the
 * running set, which happens once in its life.
 */

export interface ObserverContext {
  client: NomadClient;
  spec: NomadSpec;
  owner: BackendOwner;
  now: () => number;
  sleep: (ms: number) => Promise<void>;
}

/** Jobs looked at singly in one pass; the others are news of the next one. */
const MAX_SINGLE = 100;
const MAX_WAIT_MS = 20_000;
/** How long the start of a job may still be news, without keeping what was told. */
const NEW_JOB_MS = 25_000;
const MAX_GRACE_SEC = 300;
/** 360 s of the Scheduler for grading and collecting, and 60 s for the node to come back. */
const LOST_SLACK_SEC = 420;
/** A change of any job of the region may wake a blocking list (N 36). */
const POLL_GAP_MS = 1_000;

export const prefixOf = (owner: BackendOwner): string => `evd-${owner.object}-`;

/** News of units. Never rejects: a listing that failed says nothing about any unit. */
export async function observeJobs(
  context: ObserverContext,
  units: readonly WatchedUnit[],
  options: ObserveOptions,
): Promise<Sighting> {
  try {
    const listing = await awaitNews(context, units, Math.min(options.waitMs, MAX_WAIT_MS));
    const listed = await listedNames(context);
    if (options.sweep === true) {
      const alive = new Set([...listed, ...units.map(({ name }) => name)]);
      await sweepVariables(context.client, context.owner, prefixOf(context.owner), alive, context.now());
    }
    const pass = new Pass(context, listing);
    await pass.prepare(units);
    const seen = await eachOf(units, (unit) => pass.see(unit));
    return { ok: true, units: seen.filter((unit) => unit !== null), listed };
  } catch (error) {
    return { ok: false, error: faultOf(error) };
  }
}

/** Whether a unit's row calls for more than "it still runs". */
function isNews(job: ListedJob | undefined): boolean {
  if (job === undefined) return true;
  if (job.allocations.length === 0) return job.status === "dead";
  // One that has ended beside a live one was replaced, which must not pass for the same run.
  return job.allocations.some((state) => isEnded(state));
}

/** A job that runs and was made so lately that its start may not have been told; nothing of what was told is kept. */
const isNew = (job: ListedJob | undefined, nowMs: number): boolean =>
  job?.allocations.includes("running") === true && nowMs - job.submittedMs < NEW_JOB_MS;

const signature = (listing: Listing): string =>
  [...listing.jobs].map(([name, job]) => `${name} ${job.status} ${job.allocations.join(" ")}`).join("\n");

/**
 * The first listing when it has an end, or the first one that differs; at most one poll a second. The start of a new job
 * is told after a second, a later one wakes the blocking listing.
 */
async function awaitNews(context: ObserverContext, units: readonly WatchedUnit[], waitMs: number): Promise<Listing> {
  const { client, now, sleep, owner } = context;
  const names = units.map(({ name }) => name);
  const began = now();
  let listing = await listJobs(client, prefixOf(owner), names, null);
  const first = signature(listing);
  const serverMs = listing.serverTimeMs ?? began;
  const hasNew = names.some((name) => isNew(listing.jobs.get(name), serverMs));
  const deadline = began + (hasNew ? Math.min(waitMs, POLL_GAP_MS) : waitMs);
  while (names.length > 0 && !names.some((name) => isNews(listing.jobs.get(name)))) {
    const polled = now();
    const left = deadline - polled;
    if (left <= 0) break;
    listing = await listJobs(client, prefixOf(owner), names, { index: listing.index, waitMs: left });
    if (signature(listing) !== first) break;
    const spent = now() - polled;
    if (spent < POLL_GAP_MS) await sleep(Math.min(POLL_GAP_MS - spent, Math.max(0, deadline - now())));
  }
  return listing;
}

/** Names of live jobs that carry our labels; only those may ever be stopped by a sweep. */
async function listedNames({ client, owner }: ObserverContext): Promise<string[]> {
  const jobs = await liveJobs(client, prefixOf(owner));
  return jobs.filter(({ Meta }) => isOurs(owner, Meta)).map(({ ID }) => ID);
}

/** From here on an unreachable node has lost the attempt: its time limit, the longest grace, and the Scheduler's slack. */
const lostAfterMs = (unit: WatchedUnit): number => (unit.job.timeoutSec + MAX_GRACE_SEC + LOST_SLACK_SEC) * 1_000;

/** One pass over one listing. */
class Pass {
  readonly #context: ObserverContext;
  readonly #listing: Listing;
  readonly #nowMs: number;
  #pending = new Map<string, Allocation>();
  #blocked = new Map<string, string>();
  #single = 0;

  constructor(context: ObserverContext, listing: Listing) {
    this.#context = context;
    this.#listing = listing;
    this.#nowMs = listing.serverTimeMs ?? context.now();
  }

  /** Reads what explains waiting, in one call each, only when something waits. */
  async prepare(units: readonly WatchedUnit[]): Promise<void> {
    const { client, owner } = this.#context;
    const jobs = units.filter((unit) => !unit.stopping).map((unit) => this.#listing.jobs.get(unit.name));
    if (jobs.some((job) => job?.allocations.includes("pending"))) {
      const { rows } = await allocationsOf(client, prefixOf(owner), "pending", null);
      for (const alloc of rows) this.#pending.set(alloc.JobID, alloc);
    }
    if (jobs.some((job) => job?.allocations.length === 0 && job.status !== "dead")) {
      for (const evaluation of await blockedEvaluations(client, prefixOf(owner))) {
        const words = placementWords(evaluation.FailedTGAllocs);
        if (words !== null) this.#blocked.set(evaluation.JobID, words);
      }
    }
  }

  /** @returns null when it takes more calls than this pass has left */
  async see(unit: WatchedUnit): Promise<SeenUnit | null> {
    const job = this.#listing.jobs.get(unit.name);
    const away = job?.allocations.includes("unknown") === true && this.#nowMs - job.submittedMs >= lostAfterMs(unit);
    if (!isNews(job) && !away) return unit.stopping ? this.#ending(unit) : this.#going(unit, job);
    if (this.#single >= MAX_SINGLE) return null;
    this.#single++;
    try {
      if (away) return await this.#away(unit, job);
      return unit.stopping ? await this.#stopping(unit) : await this.#ended(unit);
    } catch (error) {
      // One node's trouble must not hide all other units; a missing right concerns them all.
      if (!(error instanceof ClusterError) || error.reason === "denied") throw error;
      if (unit.stopping) return this.#ending(unit);
      return this.#seen(unit, "running", {
        detail: `the job has ended; its result cannot be read yet: ${error.message}`,
      });
    }
  }

  #seen(unit: WatchedUnit, state: SeenUnit["state"], rest: Partial<SeenUnit> = {}): SeenUnit {
    const { runId, epoch, name } = unit;
    return { runId, epoch, name, state, node: null, detail: null, end: null, ...rest };
  }

  #ending(unit: WatchedUnit): SeenUnit {
    return this.#seen(unit, "running", { detail: "asked to end" });
  }

  /** A job that waits for a place, is on its way or runs. */
  #going(unit: WatchedUnit, job: ListedJob | undefined): SeenUnit {
    const states = job?.allocations ?? [];
    const alloc = this.#pending.get(unit.name);
    if (states.length === 0) return this.#unplaced(unit, job?.submittedMs ?? this.#nowMs);
    if (states.includes("running")) return this.#seen(unit, "running");
    if (states.includes("unknown")) {
      const detail = "the node does not answer; the job may be running there and is waited for";
      return this.#seen(unit, "running", { detail });
    }
    if (alloc === undefined) return this.#seen(unit, "pending");
    const node = alloc.NodeName === "" ? null : alloc.NodeName;
    const diagnosis = pendingDiagnosis(alloc, this.#nowMs);
    if (diagnosis === null) return this.#seen(unit, "pending", { node, detail: detailOf(alloc) });
    if (!isOver(diagnosis)) {
      const detail = `${diagnosis.row.hint} (${wordsOf(diagnosis.sign)})`.slice(0, 1_000);
      return this.#seen(unit, "pending", { node, detail });
    }
    const failure = failureOf(diagnosis, { unit: unit.name, node, events: wordsOfAllocation(alloc) });
    return this.#seen(unit, "finished", { node, end: { kind: "failure", failure } });
  }

  /** Waits in the scheduler's words until the runtime's placementTimeoutSec. */
  #unplaced(unit: WatchedUnit, submittedMs: number): SeenUnit {
    const words = this.#blocked.get(unit.name) ?? null;
    const limitSec = this.#context.spec.placementTimeoutSec ?? 0;
    const waitedSec = Math.floor((this.#nowMs - submittedMs) / 1_000);
    if (words === null || limitSec === 0 || waitedSec < limitSec) return this.#seen(unit, "pending", { detail: words });
    const failure = failureOfWords("evaluation", words, { unit: unit.name, node: null, events: [words] });
    const message = `not placed after ${waitedSec} s (placementTimeoutSec ${limitSec}): ${failure.message}`;
    return this.#seen(unit, "finished", { end: { kind: "failure", failure: { ...failure, message } } });
  }

  /** Gone only when every allocation it ever had is over: 'dead' comes at once, while the task lives (N 13). */
  async #stopping(unit: WatchedUnit): Promise<SeenUnit> {
    const allocations = await jobAllocations(this.#context.client, unit.name);
    if (!allocations.every((alloc) => isGone(alloc.ClientStatus)))
      return this.#lost(unit, allocations) ?? this.#ending(unit);
    const job = await readJob(this.#context.client, unit.name);
    return job === null || job.Status === "dead" ? this.#seen(unit, "stopped") : this.#ending(unit);
  }

  /** Nothing on a node that is away ends until it is back, so past its time the attempt is given up unconfirmed. */
  async #away(unit: WatchedUnit, job: ListedJob | undefined): Promise<SeenUnit> {
    const lost = this.#lost(unit, await jobAllocations(this.#context.client, unit.name));
    return lost ?? (unit.stopping ? this.#ending(unit) : this.#going(unit, job));
  }

  #lost(unit: WatchedUnit, allocations: readonly Allocation[]): SeenUnit | null {
    const alloc = allocations.find(({ ClientStatus }) => ClientStatus === "unknown" || ClientStatus === "lost");
    const others = allocations.some(({ ClientStatus }) => ClientStatus === "running" || ClientStatus === "pending");
    if (alloc === undefined || others || this.#nowMs - startedMs(alloc) < lostAfterMs(unit)) return null;
    const failure = failureOfAllocation(alloc, unit.name, this.#nowMs);
    return this.#seen(unit, "finished", { node: alloc.NodeName || null, end: { kind: "failure", failure } });
  }

  async #ended(unit: WatchedUnit): Promise<SeenUnit> {
    const { client } = this.#context;
    const allocations = await jobAllocations(client, unit.name);
    if (allocations.length === 0) return this.#withoutAllocation(unit);
    const ended = allocations.filter((alloc) => isEnded(alloc.ClientStatus));
    const node = (ended[0] ?? allocations[0])?.NodeName || null;
    const first = ended[0];
    // The listing was ahead of this read.
    if (first === undefined) return this.#seen(unit, "running", { node });
    const collected = await collectEnd(client, unit, ended, this.#nowMs);
    if ("wait" in collected) return this.#seen(unit, "running", { node, detail: collected.wait });
    return this.#seen(unit, "finished", { node, end: collected.end });
  }

  /** Nothing in the listing, or dead without ever having had a place: asked for singly before it counts. */
  async #withoutAllocation(unit: WatchedUnit): Promise<SeenUnit> {
    const job = await readJob(this.#context.client, unit.name);
    if (job === null) return this.#seen(unit, "absent");
    if (job.Status !== "dead") return this.#unplaced(unit, job.SubmitTime / 1e6);
    return this.#seen(unit, "stopped", { detail: "the job was stopped on the cluster before it had a place" });
  }
}
