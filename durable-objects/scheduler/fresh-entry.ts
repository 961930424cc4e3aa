import type { Entry } from "./state.ts";

// Shared by all entries that have none, since most of a long queue has none.
const NO_HISTORY: Entry["history"] = [];
const NO_ANSWERS: Entry["answered"] = [];

/** An entry that nothing has happened to yet; its `loneBase` is for whoever enqueues it to set. */
export const freshEntry = (facts: Pick<Entry, "runId" | "seq" | "demand" | "jobHash" | "enqueuedAt">): Entry => ({
  ...facts,
  order: facts.seq,
  promoted: false,
  epoch: 0,
  attempt: null,
  hold: null,
  backoff: null,
  history: NO_HISTORY,
  retriesUsed: 0,
  undelivered: 0,
  lostLeases: 0,
  releases: 0,
  answered: NO_ANSWERS,
  loneBase: 0,
});
