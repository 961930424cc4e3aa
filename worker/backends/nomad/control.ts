import type { ControlRequest, ControlResult } from "../../../contracts/inspection.ts";
import type { BackendOwner, ControlContext } from "../backend.ts";
import { controlled, foreign, STOPPED_WORDS, unknownUnit, unsupported } from "../control.ts";
import { eachOf } from "../each-of.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { deleteVariable, liveJobs, readJob, stopJob, variablesOf } from "./calls.ts";
import { type NomadClient, parsed } from "./client.ts";
import { isOurs } from "./remove.ts";
import { NodeRows, ScalableJob } from "./shapes.ts";

/** Of one call; a repeat takes the rest. */
const MAX_AT_ONCE = 500;
const LIST_BYTES = 32 * 1024 * 1024;

/** @throws ClusterError as Controllable says */
export async function controlNomad(
  client: NomadClient,
  owner: BackendOwner,
  request: ControlRequest,
  context: ControlContext,
): Promise<ControlResult> {
  switch (request.action) {
    case "stopWorkload":
      return stopWorkload(client, owner, request.workload, context);
    case "reclaimIdle":
      return reclaimIdle(client, owner, context);
    case "purgeTerminal":
      // A purge frees the job's name for a second life (N 7), and only management may collect all dead jobs (N 42).
      throw unsupported("purgeTerminal is not supported on Nomad: rely on the servers' job_gc_threshold");
    case "cordonNode":
      return cordonNode(client, request.node, request.cordoned, context);
    case "resizeWorkload":
      return resizeWorkload(client, request.workload, request.replicas, context);
  }
}

async function stopWorkload(
  client: NomadClient,
  owner: BackendOwner,
  name: string,
  context: ControlContext,
): Promise<ControlResult> {
  const job = await readJob(client, name);
  if (job === null) throw unknownUnit(name);
  if (!isOurs(owner, job.Meta) && !context.external) throw foreign(`job '${name}'`);
  if (!job.Stop) await stopJob(client, name);
  return controlled("stopWorkload", [name], `job '${name}' is stopping; ${STOPPED_WORDS}`);
}

async function reclaimIdle(client: NomadClient, owner: BackendOwner, context: ControlContext): Promise<ControlResult> {
  const prefix = `evd-${owner.object}-`;
  // Listed first: an attempt is live before its job is made, so what is listed and not live is nobody's.
  const jobs = (await liveJobs(client, prefix)).filter(({ Meta }) => isOurs(owner, Meta));
  const variables = (await variablesOf(client, prefix)).rows;
  const live = await context.liveUnits();
  const idle = jobs.map(({ ID }) => ID).filter((name) => !live.has(name));
  const taken = idle.slice(0, MAX_AT_ONCE);
  await eachOf(taken, (name) => stopJob(client, name));
  const left = variables
    .map(({ job }) => job)
    .filter((name) => !live.has(name))
    .slice(0, MAX_AT_ONCE);
  const removed: string[] = [];
  await eachOf(left, async (name) => {
    // Two deployments may share a namespace and have objects of one name: whose it is, only its job can say.
    const job = await readJob(client, name);
    if (job === null || !isOurs(owner, job.Meta)) return;
    await deleteVariable(client, name);
    removed.push(name);
  });
  const more = idle.length > taken.length ? `; ${idle.length - taken.length} more: repeat it` : "";
  return controlled(
    "reclaimIdle",
    taken,
    `${taken.length} idle jobs stopped, ${removed.length} variables of ended jobs deleted${more}`,
  );
}

async function cordonNode(
  client: NomadClient,
  name: string,
  cordoned: boolean,
  context: ControlContext,
): Promise<ControlResult> {
  if (!context.external) throw foreign(`node '${name}'`);
  const filter = `Name == ${JSON.stringify(name)}`;
  const { value: rows } = await client.read(
    { method: "GET", path: "/v1/nodes", query: { filter }, right: "node:read", maxBytes: LIST_BYTES },
    NodeRows,
  );
  if (rows.length === 0) throw new ClusterError("NOT_FOUND", `there is no node '${name}'`, { status: 404 });
  for (const { ID } of rows) {
    const body = { NodeID: ID, Eligibility: cordoned ? "ineligible" : "eligible" };
    const request = { method: "POST", path: `/v1/node/${ID}/eligibility`, body, right: "node:write" } as const;
    const answer = await client.ask(request);
    if (answer.status !== 200) throw client.errorOf(answer, request);
  }
  const words = cordoned ? "takes no new allocations; those on it go on" : "takes allocations again";
  return controlled("cordonNode", [name], `node '${name}' ${words}`);
}

async function resizeWorkload(
  client: NomadClient,
  name: string,
  replicas: number,
  context: ControlContext,
): Promise<ControlResult> {
  const path = `/v1/job/${encodeURIComponent(name)}`;
  const answer = await client.ask({ method: "GET", path, right: "read-job" });
  if (answer.status === 404) throw unknownUnit(name);
  if (answer.status !== 200) throw client.errorOf(answer, { method: "GET", right: "read-job" });
  const job = parsed(answer, ScalableJob);
  if (job.Type !== "service")
    throw unsupported(`'${name}' is a ${job.Type} job: it has no copies to resize; resize a service`);
  if (!context.external) throw foreign(`job '${name}'`);
  const [group] = job.TaskGroups;
  if (!group || job.TaskGroups.length > 1)
    throw unsupported(`job '${name}' has ${job.TaskGroups.length} groups, and it is not said which to resize`);
  const body = { Count: replicas, Target: { Group: group.Name }, Message: "resized from the control plane" };
  const scaled = await client.ask({ method: "POST", path: `${path}/scale`, body, right: "submit-job" });
  if (scaled.status !== 200) throw client.errorOf(scaled, { method: "POST", right: "submit-job" });
  return controlled("resizeWorkload", [name], `group '${group.Name}' of job '${name}' wants ${replicas} copies`);
}
