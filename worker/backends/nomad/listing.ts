import { eachOf } from "../each-of.ts";
import { allocationsOf, type Blocking, jobStatuses, readJob } from "./calls.ts";
import type { NomadClient } from "./client.ts";

export interface ListedJob {
  /** pending, running or dead; "" where the listing does not say. */
  status: string;
  /** ClientStatus of each allocation. */
  allocations: string[];
  submittedMs: number;
}

export interface Listing {
  /** By name; a job that is not there may be unknown, or the listing late. */
  jobs: Map<string, ListedJob>;
  index: number;
  /** The server's clock, epoch ms; null when it did not say. */
  serverTimeMs: number | null;
}

/** Jobs without an allocation that an old server is asked about singly. */
const MAX_UNPLACED = 100;

/**
 * The states of jobs in one call: jobs/statuses, or on servers before 1.8 the allocations of all jobs of the object.
 * @param blocking waits in the server for a change after its index
 */
export async function listJobs(
  client: NomadClient,
  prefix: string,
  names: readonly string[],
  blocking: Blocking | null,
): Promise<Listing> {
  if (names.length === 0) return { jobs: new Map(), index: 0, serverTimeMs: null };
  const statuses = await jobStatuses(client, names, blocking);
  if (statuses === null) return listOldServer(client, prefix, names, blocking);
  const jobs = new Map<string, ListedJob>();
  for (const row of statuses.rows) {
    const allocations = row.Allocs.map(({ ClientStatus }) => ClientStatus);
    jobs.set(row.ID, { status: row.Status, allocations, submittedMs: row.SubmitTime / 1e6 });
  }
  return { jobs, index: statuses.index, serverTimeMs: statuses.serverTimeMs };
}

async function listOldServer(
  client: NomadClient,
  prefix: string,
  names: readonly string[],
  blocking: Blocking | null,
): Promise<Listing> {
  const { rows, index, serverTimeMs } = await allocationsOf(client, prefix, null, blocking);
  const jobs = new Map<string, ListedJob>();
  for (const { JobID, ClientStatus } of rows) {
    const job = jobs.get(JobID) ?? { status: "", allocations: [], submittedMs: 0 };
    job.allocations.push(ClientStatus);
    jobs.set(JobID, job);
  }
  const unplaced = names.filter((name) => !jobs.has(name)).slice(0, MAX_UNPLACED);
  await eachOf(unplaced, async (name) => {
    const job = await readJob(client, name);
    if (job !== null) jobs.set(name, { status: job.Status, allocations: [], submittedMs: job.SubmitTime / 1e6 });
  });
  return { jobs, index, serverTimeMs };
}
