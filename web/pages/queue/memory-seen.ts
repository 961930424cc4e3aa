import type { Output } from "../../api/queries.ts";

type Lane = Output<"get_queue">["lanes"][number];

export interface Sample {
  /** Seconds since the epoch. */
  at: number;
  memoryMb: number;
}

const KEEP_SEC = 3_600;
const EVERY_SEC = 5;

/** What this browser has seen of each lane with a memory budget in the last hour. */
const seen = new Map<string, Sample[]>();

/** Notes the lanes as they are. @param updatedAt milliseconds, when they were read */
export function noteMemory(lanes: readonly Lane[], updatedAt: number): void {
  const at = Math.floor(updatedAt / 1_000);
  for (const { target, memoryMb } of lanes) {
    if (!memoryMb) continue;
    const samples = seen.get(target) ?? [];
    seen.set(target, samples);
    const last = samples.at(-1);
    if (last && at - last.at < EVERY_SEC) continue;
    samples.push({ at, memoryMb: memoryMb.inFlight });
    while (samples[0] && at - samples[0].at > KEEP_SEC) samples.shift();
  }
}

export const memorySeen = (): ReadonlyMap<string, readonly Sample[]> => seen;
