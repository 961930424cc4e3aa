import type { Effect } from "./events.ts";
import { CIRCUIT_FAILURES, CIRCUIT_OPEN_MS } from "./limits.ts";
import type { State } from "./state.ts";

/** A relay that comes back and whose word of it is lost is found so late at most, by one run that tries. */
const RELAY_PAUSE_MAX_MS = 30_000;

export interface LaneError {
  code: string;
  message: string;
  retryAfterSec: number | null;
}

/**
 * Counts an error between control plane and cluster, never a job's own failure. Three in a row open the lane for
 * 30 s; a 429 with Retry-After pauses it and does not count.
 */
export function noteError(state: State, error: LaneError, now: number, out: Effect[]): void {
  const { circuit } = state;
  circuit.lastError = `${error.code}: ${error.message}`.slice(0, 500);
  if (error.retryAfterSec !== null) {
    circuit.pausedUntil = Math.max(circuit.pausedUntil, now + Math.min(600, Math.max(1, error.retryAfterSec)) * 1_000);
    return;
  }
  circuit.failures += 1;
  if (circuit.failures < CIRCUIT_FAILURES) return;
  if (circuit.openUntil === null || circuit.openUntil <= now) {
    out.push({ kind: "log", event: "circuit.open", fields: { failures: circuit.failures, error: error.code } });
    circuit.openUntil = now + CIRCUIT_OPEN_MS;
  }
}

/** The relay that leads to the cluster is away: nothing is started until it may be tried again. */
export function noteRelayOffline(state: State, detail: string, retryAfterSec: number, now: number): void {
  const { relayOffline } = state;
  const words = detail.slice(0, 500);
  if (relayOffline && relayOffline.until > now) {
    // One of many that found the same.
    relayOffline.detail = words;
    return;
  }
  const tries = (relayOffline?.tries ?? 0) + 1;
  const pauseMs = Math.min(600, Math.max(1, retryAfterSec)) * 1_000;
  const until = now + Math.max(pauseMs, Math.min(RELAY_PAUSE_MAX_MS, pauseMs * 2 ** Math.min(8, tries - 1)));
  state.relayOffline = { until, detail: words, tries, probe: relayOffline?.probe ?? null };
}

/** The relay is connected again: one run tries at once. */
export function noteRelayBack(state: State, now: number): void {
  const { relayOffline } = state;
  if (relayOffline) state.relayOffline = { ...relayOffline, until: now, tries: 0 };
}

/** The cluster answered: the row of failures is broken; an open lane still waits for a start. */
export function noteAnswer(state: State): void {
  if (state.circuit.openUntil === null) state.circuit.failures = 0;
}

/** A job started: the lane is sound. */
export function noteStart(state: State, out: Effect[]): void {
  const { circuit } = state;
  if (circuit.openUntil !== null) out.push({ kind: "log", event: "circuit.close", fields: {} });
  circuit.failures = 0;
  circuit.openUntil = null;
  circuit.probe = null;
  circuit.lastError = null;
  state.relayOffline = null;
}

/** The probe's start came to nothing because of the lane: open again. */
export function reopen(state: State, now: number): void {
  state.circuit.openUntil = now + CIRCUIT_OPEN_MS;
}

/** Health as the queue page shows it. */
export function healthOf(state: State, now: number): { state: "ok" | "degraded" | "open"; detail: string | null } {
  const { circuit, relayOffline } = state;
  if (relayOffline && (relayOffline.until > now || relayOffline.probe))
    return { state: "degraded", detail: relayOffline.detail };
  if (circuit.openUntil !== null) return { state: "open", detail: circuit.lastError };
  if (circuit.pausedUntil > now || circuit.failures > 0) return { state: "degraded", detail: circuit.lastError };
  return { state: "ok", detail: null };
}
