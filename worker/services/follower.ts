import { EverdictError } from "../../contracts/errors.ts";
import type { Run } from "../../contracts/run.ts";
import type { Backend } from "../backends/backend.ts";
import type { Context } from "../context.ts";
import { type FollowedUnit, followOn } from "../dispatch/follow.ts";
import { logOf, schedulerOf } from "../environment.ts";
import { logEvent } from "../observability/log.ts";
import type { Masking } from "../secrets/masking.ts";

/** Between two steps along a log, and after one that failed. */
const STEP_MS = 1_000;
const FAILED_MS = 5_000;
/** Whoever takes the steps keeps them so long without a word. */
const HOLD_MS = 5_000;
/** The way to the cluster, credential and secrets to mask included, is looked up anew after so long. */
const WAY_MS = 60_000;
/** The Scheduler forgets after a minute that somebody watches. */
const TELL_MS = 20_000;

interface Way {
  unit: FollowedUnit;
  backend: Backend;
  masking: Masking;
}

/** Moves a live log on while somebody watches: of all who do, one takes the steps. */
export class Follower {
  readonly #ctx: Context;
  readonly #wayOf: (run: Run) => Promise<Way | null>;
  readonly #holder = crypto.randomUUID();
  #way: { way: Way; epoch: number; at: number } | null = null;
  #step: Promise<void> | null = null;
  #nextAt = 0;
  #toldAt = Number.NEGATIVE_INFINITY;

  /** @param wayOf null when no unit of the run runs now */
  constructor(ctx: Context, wayOf: (run: Run) => Promise<Way | null>) {
    this.#ctx = ctx;
    this.#wayOf = wayOf;
  }

  /** Begins the next step when it is due; its output comes through the log object. Never throws, never waits. */
  watch(object: string, run: Run): void {
    const now = this.#ctx.now();
    if (now - this.#toldAt >= TELL_MS) {
      this.#toldAt = now;
      schedulerOf(this.#ctx.env, object)
        .follow(run.id)
        .catch(() => {
          this.#toldAt = Number.NEGATIVE_INFINITY;
        });
    }
    if (this.#step !== null || now < this.#nextAt || run.status !== "running") return;
    this.#nextAt = now + STEP_MS;
    this.#step = this.#take(run)
      .catch((error: unknown) => {
        this.#way = null;
        this.#nextAt = this.#ctx.now() + FAILED_MS;
        const code = error instanceof EverdictError ? error.code : "INTERNAL";
        if (code !== "NOT_FOUND") logEvent("log.follow-failed", { runId: run.id, code });
      })
      .finally(() => {
        this.#step = null;
      });
  }

  async #take(run: Run): Promise<void> {
    const { env } = this.#ctx;
    const held = await logOf(env, run.id).holdFollow(run.epoch, this.#holder, HOLD_MS);
    if (held === null || held.done) return;
    const way = await this.#currentWay(run);
    if (way !== null) await followOn(env, way.backend, way.masking, way.unit, held.cursor);
  }

  async #currentWay(run: Run): Promise<Way | null> {
    const now = this.#ctx.now();
    if (this.#way && this.#way.epoch === run.epoch && now - this.#way.at < WAY_MS) return this.#way.way;
    const way = await this.#wayOf(run);
    this.#way = way && { way, epoch: run.epoch, at: now };
    return way;
  }
}
