import type { Waiting } from "../../contracts/run.ts";
import type { ScorecardRun, ScorecardState, TargetState } from "./state.ts";

/**
 * Why each of these runs is not in a queue yet; null for one that is, has ended, or is unknown.
 * @param now epoch milliseconds
 */
export function waitingOf(
  state: ScorecardState,
  runIds: readonly string[],
  now: number,
): { runId: string; waiting: Waiting | null }[] {
  const asked = new Map<string, Waiting | null>(runIds.map((runId) => [runId, null]));
  let before = 0;
  for (let i = 0; i < state.runs.length; i++) {
    const run = state.runs[i];
    if (run?.state !== "queued" && run?.state !== "feeding") continue;
    if (asked.has(run.runId)) asked.set(run.runId, waitingFor(state, run, before, now));
    if (run.state === "queued") before += 1;
  }
  return [...asked].map(([runId, waiting]) => ({ runId, waiting }));
}

function waitingFor(state: ScorecardState, run: ScorecardRun, before: number, now: number): Waiting {
  if (run.state === "feeding") {
    const target = run.target === null ? undefined : state.targets.get(run.target);
    const paused = target && target.blockedUntil > now ? pauseOf(target, now) : null;
    return {
      position: null,
      reason: paused === null ? "concurrency" : "backoff",
      detail: paused ?? `it is being handed to ${run.target}`,
      etaSec: null,
    };
  }
  const places = `${state.inFlight} of ${state.concurrency} of this scorecard's runs are in flight`;
  const line = `${before} ${before === 1 ? "is" : "are"} before it`;
  const offered = [...state.targets.values()].filter((target) => target.offered);
  const paused = offered.filter((target) => target.blockedUntil > now);
  if (state.inFlight < state.concurrency && offered.length > 0 && paused.length === offered.length) {
    const words = paused.slice(0, 4).map((target) => pauseOf(target, now));
    return { position: null, reason: "backoff", detail: `${words.join("; ")}; ${line}`, etaSec: null };
  }
  return { position: null, reason: "concurrency", detail: `${places}; ${line}`, etaSec: etaOf(offered, before) };
}

function pauseOf(target: TargetState, now: number): string {
  const seconds = Math.ceil((target.blockedUntil - now) / 1_000);
  return `${target.name} takes no runs for ${seconds} s: ${(target.reason ?? "unknown").slice(0, 300)}`;
}

/** From the rate at which the targets measured so far; null before anything was. */
function etaOf(targets: readonly TargetState[], before: number): number | null {
  const perSecond = targets.reduce(
    (sum, target) => sum + (target.busyMs > 0 ? target.completed / (target.busyMs / 1_000) : 0),
    0,
  );
  return perSecond > 0 ? Math.ceil((before + 1) / perSecond) : null;
}
