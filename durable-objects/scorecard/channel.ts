/*
 * One kind of call to the Worker, at most one at a time. A call may hang or its answer be lost, so it has an expiry, and
 * a failed one is repeated with backoff.
 */

/** How long an answer is waited for; a feed renders up to FEED_BATCH cases and enqueues them. */
export const CALL_MS = 60_000;
/** While a call is out: how soon to look again, so that a restart of the object repeats it that soon. */
const RECHECK_MS = 5_000;
const BACKOFF_MS = 1_000;
const MAX_BACKOFF_MS = 60_000;

export interface Channel {
  /** Number of the newest call; the answer of an older one is late. */
  callNumber: number;
  /** null while no call is out. */
  expiresAt: number | null;
  blockedUntil: number;
  failures: number;
  /** Why it is blocked, in words. */
  reason: string | null;
}

export function newChannel(): Channel {
  return { callNumber: 0, expiresAt: null, blockedUntil: 0, failures: 0, reason: null };
}

/** Whether a call may start. */
export const isReady = (channel: Channel, now: number): boolean =>
  channel.expiresAt === null && channel.blockedUntil <= now;

/** Starts a call. @returns its number */
export function openCall(channel: Channel, now: number): number {
  channel.callNumber += 1;
  channel.expiresAt = now + CALL_MS;
  return channel.callNumber;
}

/** Whether this is the answer that is waited for. */
export const isCurrent = (channel: Channel, call: number): boolean =>
  channel.callNumber === call && channel.expiresAt !== null;

export function callSucceeded(channel: Channel): void {
  channel.expiresAt = null;
  channel.blockedUntil = 0;
  channel.failures = 0;
  channel.reason = null;
}

/** Blocks the channel: 1 s, 2 s, 4 s… up to 60 s, or at least `afterMs` where the other side asks for it. */
export function callFailed(channel: Channel, now: number, reason: string, afterMs = 0): void {
  channel.expiresAt = null;
  channel.failures += 1;
  const backoff = Math.min(BACKOFF_MS * 2 ** Math.min(channel.failures - 1, 10), MAX_BACKOFF_MS);
  channel.blockedUntil = now + Math.max(backoff, Math.min(afterMs, 5 * MAX_BACKOFF_MS));
  channel.reason = reason;
}

/** Whether a call is out that will not be answered any more. */
export const isExpired = (channel: Channel, now: number): boolean =>
  channel.expiresAt !== null && channel.expiresAt <= now;

/** When this channel next needs a look; null when it does not by itself. */
export function nextLook(channel: Channel, wanted: boolean, now: number): number | null {
  if (channel.expiresAt !== null) return Math.min(channel.expiresAt, now + RECHECK_MS);
  if (!wanted) return null;
  return channel.blockedUntil > now ? channel.blockedUntil : now + RECHECK_MS;
}
