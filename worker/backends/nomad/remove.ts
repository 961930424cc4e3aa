import type { BackendOwner } from "../backend.ts";
import { eachOf } from "../each-of.ts";
import { deleteVariable, readJob, stopJob, variablesOf } from "./calls.ts";
import type { NomadClient } from "./client.ts";
import type { RegisteredJob } from "./shapes.ts";

/** A variable is written before its job, and a start is repeated for 10 minutes. */
const START_WINDOW_MS = 900_000;
/** Variables looked at in one sweep. */
const MAX_SWEPT = 200;

/** Only what carries our labels is ever touched: two deployments may share a namespace and have objects of one name. */
export const isOurs = (owner: BackendOwner, meta: Readonly<Record<string, string>>): boolean =>
  meta.everdict_deployment === owner.deployment && meta.everdict_object === owner.object;

const foreign = (owner: BackendOwner, job: RegisteredJob | null): boolean => job !== null && !isOurs(owner, job.Meta);

/** Asks for the end of jobs; an unknown one is no error. @throws ClusterError */
export async function stopJobs(client: NomadClient, owner: BackendOwner, names: readonly string[]): Promise<void> {
  await eachOf(names, async (name) => {
    const job = await readJob(client, name);
    if (job !== null && !job.Stop && isOurs(owner, job.Meta)) await stopJob(client, name);
  });
}

/**
 * Deletes the variables of jobs whose end is durable elsewhere, and stops the jobs: one that Nomad would place once more
 * must not, and one that was given up as unable to start must go. The jobs stay until the server's own garbage collection.
 * @throws ClusterError
 */
export async function collectJobs(client: NomadClient, owner: BackendOwner, names: readonly string[]): Promise<void> {
  await eachOf(names, async (name) => {
    const job = await readJob(client, name);
    if (foreign(owner, job)) return;
    if (job !== null && !job.Stop) await stopJob(client, name);
    await deleteVariable(client, name);
  });
}

/**
 * Deletes variables of jobs that nobody knows any more: they outlive their jobs (N 44).
 * @param alive names of jobs that were asked for or are not dead
 */
export async function sweepVariables(
  client: NomadClient,
  owner: BackendOwner,
  prefix: string,
  alive: ReadonlySet<string>,
  nowMs: number,
): Promise<void> {
  const { rows, serverTimeMs } = await variablesOf(client, prefix);
  const before = (serverTimeMs ?? nowMs) - START_WINDOW_MS;
  const left = rows.filter(({ job, modifiedMs }) => modifiedMs < before && !alive.has(job));
  await eachOf(left.slice(0, MAX_SWEPT), async ({ job: name }) => {
    if (!foreign(owner, await readJob(client, name))) await deleteVariable(client, name);
  });
}
