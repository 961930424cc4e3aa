import type { FakeCluster } from "./cluster.ts";
import { type Answer, type FakeJob, type JobBody, text } from "./model.ts";

interface RegisterBody {
  Job?: JobBody;
  EnforceIndex?: boolean;
  JobModifyIndex?: number;
}

const errors = (...lines: string[]): Answer =>
  text(
    500,
    `${lines.length} error${lines.length === 1 ? "" : "s"} occurred:\n${lines.map((line) => `\t* ${line}\n`).join("")}\n`,
  );

/** Fields that a 2.0.5 server keeps; others are dropped without a word (N 29). */
export function keptFields(job: JobBody, version: string): JobBody {
  const known = structuredClone(job);
  // 1.6 does not know the block (N 9).
  if (version.startsWith("1.6")) for (const group of known.TaskGroups ?? []) delete group.Disconnect;
  return known;
}

/** What a server finds wrong with a job: 500 with a text, never 400 (N 6). Driver Config is not looked at (N 29). */
export function validation(job: JobBody, namespaces: ReadonlySet<string>): Answer | null {
  const id = job.ID ?? "";
  if (id === "") return errors("Missing job ID");
  if (/[\0 ]/.test(id)) return errors(`Job ID contains a ${id.includes(" ") ? "space" : "null character"}`);
  const namespace = job.Namespace ?? "default";
  if (!namespaces.has(namespace)) return errors(`job "${id}" is in nonexistent namespace "${namespace}"`);
  if ((job.TaskGroups ?? []).length === 0) return errors("Missing job task groups");
  for (const group of job.TaskGroups ?? []) {
    const logs = (group.Tasks ?? []).reduce(
      (sum, task) => sum + (task.LogConfig?.MaxFiles ?? 10) * (task.LogConfig?.MaxFileSizeMB ?? 10),
      0,
    );
    if (logs >= (group.EphemeralDisk?.SizeMB ?? 300))
      return errors(
        `Task group ${group.Name} validation failed: 1 error occurred:\n\t* log storage (${logs} MB) must be less than requested disk capacity`,
      );
    for (const task of group.Tasks ?? []) {
      if ((task.Resources?.CPU ?? 100) < 1) return errors("minimum CPU value is 1; got 0");
      for (const template of task.Templates ?? [])
        if (template.DestPath.includes("..")) return errors("destination escapes allocation directory");
    }
  }
  return null;
}

/** POST /v1/jobs with the laws of EnforceIndex (N 6, 7, 8). */
export function register(cluster: FakeCluster, body: RegisterBody, namespaces: ReadonlySet<string>): Answer {
  const { Job } = body;
  if (!Job) return text(400, "Job must be specified");
  const invalid = validation(Job, namespaces);
  if (invalid) return invalid;
  const found = cluster.jobs.get(Job.ID);
  const conflict = enforced(found, body);
  if (conflict !== null) return text(500, `Enforcing job modify index ${body.JobModifyIndex ?? 0}: ${conflict}`);
  const kept = keptFields(Job, cluster.version);
  const same = found !== undefined && JSON.stringify(found.body) === JSON.stringify(kept);
  const index = cluster.bump();
  const job: FakeJob = found ?? {
    body: kept,
    stop: false,
    version: 0,
    createIndex: index,
    jobModifyIndex: index,
    modifyIndex: index,
    submitMs: cluster.clock.now(),
  };
  cluster.jobs.set(Job.ID, job);
  // The same body again runs nothing, unless the job had been stopped; a changed one runs again.
  const runs = found === undefined || found.stop || !same;
  if (found && runs) Object.assign(job, { body: kept, stop: false, version: job.version + 1, jobModifyIndex: index });
  job.modifyIndex = index;
  const eval_ = runs ? cluster.schedule(Job.ID, "job-register") : cluster.newId();
  return {
    status: 200,
    headers: { "x-nomad-index": String(index) },
    body: { EvalCreateIndex: index, EvalID: eval_, Index: index, JobModifyIndex: job.jobModifyIndex, Warnings: "" },
  };
}

function enforced(found: FakeJob | undefined, body: RegisterBody): string | null {
  if (body.EnforceIndex !== true) return null;
  const wanted = body.JobModifyIndex ?? 0;
  if (wanted === 0) return found ? "job already exists" : null;
  if (!found) return "job does not exist";
  return found.jobModifyIndex === wanted
    ? null
    : `job exists with conflicting job modify index: ${found.jobModifyIndex}`;
}

/** POST /v1/job/:id/plan: the scheduler's dry run. */
export function plan(cluster: FakeCluster, id: string, body: RegisterBody, namespaces: ReadonlySet<string>): Answer {
  const { Job } = body;
  if (!Job) return text(400, "Job must be specified");
  if (Job.ID !== id) return text(400, "Job ID does not match");
  const invalid = validation(Job, namespaces);
  if (invalid) return invalid;
  const failed = cluster.place(id, true, Job);
  return { status: 200, body: { FailedTGAllocs: failed, Warnings: "", CreatedEvals: null, JobModifyIndex: 0 } };
}

/** DELETE /v1/job/:id: dead at once, the task for its whole kill timeout (N 13, 48). */
export function deregister(cluster: FakeCluster, id: string, purge: boolean): Answer {
  const job = cluster.jobs.get(id);
  const index = job ? cluster.bump() : 0;
  if (job) {
    Object.assign(job, { stop: true, version: job.version + 1, jobModifyIndex: index, modifyIndex: index });
    for (const alloc of cluster.of(id)) cluster.kill(alloc, "alloc not needed due to job update");
    cluster.unblock();
    if (purge) cluster.jobs.delete(id);
  }
  return {
    status: 200,
    headers: { "x-nomad-index": String(index) },
    body: { EvalCreateIndex: index, EvalID: job ? cluster.newId() : "", Index: index, JobModifyIndex: index },
  };
}
