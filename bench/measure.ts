/** The value below which a share of the samples lies, by nearest rank. @param share 0 to 1 */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

export interface Latency {
  p50: number;
  p99: number;
}

export const latencyOf = (samples: readonly number[]): Latency => ({
  p50: percentile(samples, 0.5),
  p99: percentile(samples, 0.99),
});

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What one system did in this run. Rates are jobs leased and completed per second; latencies are enqueue → in a worker's hands, in ms. */
export interface Figures {
  name: string;
  /** How durable an acknowledged job is. */
  durability: string;
  single: number;
  batched: number;
  /** As batched, but every job carries what ours does (a whole program) and its result is stored. */
  sameWork: number;
  /** Idle workers waiting beside the one that gets the job. */
  wake: Map<number, Latency>;
}

export const JOBS = 2_000;
export const SAMPLES = 300;
export const BATCH = 100;
/** Workers of the single-job measurement: what a small fleet keeps in flight. */
export const WORKERS = 16;
