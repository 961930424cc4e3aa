import type { Output } from "../../api/queries.ts";

type Lane = Output<"get_queue">["lanes"][number];

export interface Sample {
  /** Seconds since the epoch. */
  at: number;
  inFlight: number;
  waiting: number;
  memoryMb: number | null;
}

const KEEP_SEC = 3_600;
const EVERY_SEC = 5;

/** What this browser has seen of each lane in the last hour. The API tells the present only, so this is as long as it looked. */
const seen = new Map<string, Sample[]>();

/** Notes the lanes as they are. @param updatedAt milliseconds, when they were read */
export function recordLanes(lanes: readonly Lane[], updatedAt: number): void {
  const at = Math.floor(updatedAt / 1_000);
  for (const lane of lanes) {
    if (lane.target.includes("rnr-")) continue;
    const samples = seen.get(lane.target) ?? [];
    seen.set(lane.target, samples);
    const last = samples.at(-1);
    if (last && at - last.at < EVERY_SEC) continue;
    samples.push({
      at,
      inFlight: lane.slots.inFlight,
      waiting: lane.queued,
      memoryMb: lane.memoryMb?.inFlight ?? null,
    });
    while (samples[0] && at - samples[0].at > KEEP_SEC) samples.shift();
  }
}

export const laneHistory = (): ReadonlyMap<string, readonly Sample[]> => seen;
