import type { EnqueueAnswer, EnqueueEntry } from "../../contracts/rpc.ts";
import { jobKey } from "./endings.ts";
import type { NewEntry } from "./events.ts";
import type { StoredJob } from "./store.ts";

/** A program's JSON text: 768 KiB and its escapes, within a row of 2 MB. */
export const MAX_JOB_CHARS = 1_000_000;

/** The facts that the core needs; the Job as it is kept is put into `jobs` by its key. */
export function slimEntry(entry: EnqueueEntry, jobs: Map<string, StoredJob>): NewEntry {
  const { job, grading: _, ...rest } = entry;
  const key = jobKey(entry.workspace, entry.jobHash);
  let stored = jobs.get(key);
  if (stored === undefined) {
    const { program, ...facts } = job;
    stored = { facts, programJson: JSON.stringify(program) };
    jobs.set(key, stored);
  }
  const { needs, os, timeoutSec, graceSec } = job;
  const secrets =
    Object.keys(job.secretEnv).length > 0 || job.imagePullSecret !== null || job.git?.authSecret !== undefined;
  return { ...rest, job: { needs, os, timeoutSec, graceSec }, secrets, jobBytes: stored.programJson.length };
}

/** Of an entry whose job has more than MAX_JOB_CHARS. */
export function tooLargeAnswer(entry: NewEntry): EnqueueAnswer {
  const detail = `the job has ${entry.jobBytes} characters, the most is ${MAX_JOB_CHARS}; use a git source`;
  return { runId: entry.runId, ok: false, code: "TOO_LARGE", detail, retryAfterSec: 0 };
}
