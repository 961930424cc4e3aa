/** Entries of one object. */
export const MAX_ENTRIES = 100_000;
/** Bytes of stored Jobs of one object and of one workspace in it. */
export const MAX_JOB_BYTES = 4 * 1024 ** 3;
export const MAX_TENANT_JOB_BYTES = 1024 ** 3;
/** Demand classes that one pump looks at in vain. */
export const MAX_LOOKS = 64;
/** Benched classes that come back to the fair order with each pump. */
export const RECALLED_LOOKS = 32;
/** A passed-over entry gets the object's reservation after this long. */
export const RESERVE_AFTER_MS = 60_000;
/** Every n-th admission of a tenant is its oldest entry of any class. */
export const OLDEST_EVERY = 4;
/** Memory charged for fairness when none is declared, in MiB. */
export const UNDECLARED_MEMORY_MB = 1_024;
/** Time the quota object has to answer. */
export const HOLD_MS = 5_000;
/** A denied workspace is asked for again after this long, in case the quota object's word was lost. */
export const DENIED_MS = 15_000;
export const RECONCILE_MS = 60_000;
export const MAX_UNDELIVERED = 20;
export const MAX_LOST_LEASES = 3;
/** A runner that was not heard of for this long is offline: two long polls of 25 s and some. */
export const ONLINE_MS = 60_000;
/** An offline process without attempts is forgotten after this long. */
export const FORGET_INSTANCE_MS = 600_000;
export const MAX_INSTANCES = 2_000;
/** An alarm later than this counts as our own lateness; less is ordinary jitter. */
export const LATE_MS = 1_000;
/** Extensions for lateness in a row without a heartbeat between. */
export const MAX_LATE_EXTENSIONS = 3;
/** A cancel is handed to polls of its holder again after this long. */
export const COMMAND_REPEAT_MS = 5_000;
/** Starts whose answer was lost are repeated under the same name for this long. */
export const START_WINDOW_MS = 600_000;
/** Longest wait for the answer of a start, a stop or an observe pass; a blocking listing has 30 s. */
export const CALL_MS = 45_000;
/** Two absences this far apart make a unit absent: clusters show a new object late. */
export const ABSENT_GAP_MS = 10_000;
/** A unit last seen longer ago may have finished and been collected by the cluster meanwhile. */
export const OUTCOME_KNOWN_MS = 600_000;
export const OBSERVE_GAP_MS = 1_000;
export const SWEEP_MS = 60_000;
/** Added to timeoutSec + graceSec: command graders have 300 s, and the unit 60 s to be collected. */
export const DEADLINE_SLACK_SEC = 360;
export const CIRCUIT_FAILURES = 3;
export const CIRCUIT_OPEN_MS = 30_000;
/** Ended runs that are remembered. */
export const MAX_TERMINALS = 20_000;
export const TERMINAL_MS = 86_400_000;
/** Attempts kept in a run's evidence. */
export const MAX_HISTORY = 100;

/** Doubling from `baseMs`, at most `maxMs`. @param n 1 for the first */
export function backoffMs(n: number, baseMs: number, maxMs: number): number {
  return Math.min(maxMs, baseMs * 2 ** Math.min(20, Math.max(0, n - 1)));
}
