import type { Verdict } from "../../contracts/rpc.ts";
import type { Failure } from "../../contracts/run.ts";
import { infraFailure } from "./endings.ts";
import { type State, touch, type UnitEvidence } from "./state.ts";

type FailedVerdict = Extract<Verdict, { kind: "failed" }>;

/** A unit that ends so long after it was told to was not ended by that. */
const EVICTING_MS = 300_000;

/** Somebody has units stopped by the runtime's control: what becomes of their attempts is not the cluster's doing. */
export function noteEvicting(state: State, units: readonly string[], by: string, now: number): void {
  const names = new Set(units);
  for (const entry of state.live.values()) {
    const unit = entry.attempt?.unit;
    if (!unit || !names.has(unit.name)) continue;
    unit.evicted = { by: by.slice(0, 300), at: now };
    touch(state, entry);
  }
}

/** The failure of an attempt whose unit somebody had stopped; null when nobody did. */
export function evictionOf({ name, evicted }: UnitEvidence, now: number): Failure | null {
  if (!evicted || now - evicted.at > EVICTING_MS) return null;
  return infraFailure("run", "EVICTED", `${evicted.by} had its unit '${name}' stopped by the runtime's control`);
}

/** What the cluster takes for somebody else's doing was our own caller's. */
export function evictedVerdict(verdict: FailedVerdict, unit: UnitEvidence | null, now: number): FailedVerdict {
  const failure = verdict.failure.class === "infra" && unit ? evictionOf(unit, now) : null;
  if (failure === null) return verdict;
  const { placement } = verdict.failure;
  return { ...verdict, failure: { ...failure, ...(placement ? { placement } : {}) } };
}
