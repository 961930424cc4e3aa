import type { BackendOwner } from "../backend.ts";
import { trueCondition } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { listUnits } from "./listing.ts";
import { removeJobs } from "./remove.ts";
import { RIGHTS } from "./rights.ts";

/** Of one call; a repeat takes the rest. */
const MAX_PURGED = 500;

/** Deletes finished Jobs of one owner. @returns how many. @throws ClusterError */
export async function purgeTerminal(client: K8sClient, owner: BackendOwner): Promise<number> {
  const { jobs } = await listUnits(client, owner);
  const finished = jobs
    .filter(
      ({ status: { conditions } }) => trueCondition(conditions, "Complete") ?? trueCondition(conditions, "Failed"),
    )
    .slice(0, MAX_PURGED)
    .map(({ metadata }) => metadata.name);
  await removeJobs(client, owner, finished);
  return finished.length;
}

/** @throws ClusterError; NOT_FOUND for an unknown node */
export async function cordonNode(client: K8sClient, name: string, cordoned: boolean): Promise<void> {
  await client.call(RIGHTS.patchNode, {
    name,
    contentType: "application/merge-patch+json",
    body: { spec: { unschedulable: cordoned } },
  });
}
