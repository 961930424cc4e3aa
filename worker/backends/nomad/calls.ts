import type { z } from "zod";
import { ClusterError } from "../transport/cluster-error.ts";
import { isDenied, type NomadAnswer, type NomadClient, type NomadRequest, parsed } from "./client.ts";
import { type NomadJob, variablePath } from "./document.ts";
import {
  type Allocation,
  Allocations,
  type Evaluation,
  Evaluations,
  FileStat,
  type JobStatus,
  JobStatuses,
  JobStubs,
  type RegisteredJob,
  RegisteredJob as RegisteredJobShape,
  Variables,
} from "./shapes.ts";

/*
 * The requests that run jobs, one function each. Lists are read whole: paging jobs/statuses never ends where more jobs
 * share a ModifyIndex than fit on a page (N 18).
 */

const LIST_BYTES = 32 * 1024 * 1024;
/** Beyond a blocking query's own wait: Nomad adds up to wait/16 of its own, and the answer travels. */
const BLOCKING_SLACK_MS = 6_000;
const encode = encodeURIComponent;
const jobPath = (name: string): string => `/v1/job/${encode(name)}`;

/** Waits inside the server until the answer changes. */
export interface Blocking {
  index: number;
  waitMs: number;
}

export interface Listed<T> {
  rows: T[];
  index: number;
  /** The server's clock, epoch ms; null when it did not say. */
  serverTimeMs: number | null;
}

function blockingQuery(blocking: Blocking | null): { query: Record<string, string>; timeoutMs?: number } {
  if (blocking === null) return { query: {} };
  const query = { index: String(blocking.index), wait: `${blocking.waitMs}ms` };
  return { query, timeoutMs: blocking.waitMs + Math.ceil(blocking.waitMs / 16) + BLOCKING_SLACK_MS };
}

async function list<T>(client: NomadClient, request: NomadRequest, schema: z.ZodType<T[]>): Promise<Listed<T>> {
  const { value, answer } = await client.read({ maxBytes: LIST_BYTES, ...request }, schema);
  return { rows: value, index: answer.index, serverTimeMs: answer.serverTimeMs };
}

/** States of these jobs in one call; unknown ones are missing. Null when the server is too old for it (N 38). */
export async function jobStatuses(
  client: NomadClient,
  names: readonly string[],
  blocking: Blocking | null,
): Promise<Listed<JobStatus> | null> {
  const request: NomadRequest = {
    method: "POST",
    path: "/v1/jobs/statuses",
    body: { Jobs: names.map((ID) => ({ ID, Namespace: client.namespace })) },
    right: "read-job",
    maxBytes: LIST_BYTES,
    ...blockingQuery(blocking),
  };
  const answer = await client.ask(request);
  if (answer.status === 404 || answer.status === 405) return null;
  if (answer.status !== 200) throw client.errorOf(answer, { ...request, method: "GET" });
  return { rows: parsed(answer, JobStatuses), index: answer.index, serverTimeMs: answer.serverTimeMs };
}

/** All allocations of jobs whose names begin so; `prefix` of this list would mean allocation ids (N 35). */
export function allocationsOf(
  client: NomadClient,
  prefix: string,
  clientStatus: string | null,
  blocking: Blocking | null,
): Promise<Listed<Allocation>> {
  const only = clientStatus === null ? "" : ` and ClientStatus == "${clientStatus}"`;
  const { query, ...rest } = blockingQuery(blocking);
  const filter = `JobID matches "^${prefix}"${only}`;
  return list(
    client,
    { method: "GET", path: "/v1/allocations", query: { filter, ...query }, right: "read-job", ...rest },
    Allocations,
  );
}

/** Evaluations that wait for room, of jobs whose names begin so. */
export async function blockedEvaluations(client: NomadClient, prefix: string): Promise<Evaluation[]> {
  const filter = `JobID matches "^${prefix}" and Status == "blocked"`;
  const request: NomadRequest = { method: "GET", path: "/v1/evaluations", query: { filter }, right: "read-job" };
  return (await list(client, request, Evaluations)).rows;
}

/** Jobs that are not dead, with their Meta. */
export async function liveJobs(
  client: NomadClient,
  prefix: string,
): Promise<{ ID: string; Meta: Record<string, string> }[]> {
  const request: NomadRequest = {
    method: "GET",
    path: "/v1/jobs",
    query: { prefix, meta: "true", filter: 'Status != "dead"' },
    right: "list-jobs",
  };
  return (await list(client, request, JobStubs)).rows;
}

/** A job as the server holds it; null when there is none. */
export async function readJob(client: NomadClient, name: string): Promise<RegisteredJob | null> {
  const request: NomadRequest = { method: "GET", path: jobPath(name), right: "read-job" };
  const answer = await client.ask(request);
  if (answer.status === 404 && /job not found/.test(answer.text)) return null;
  if (answer.status !== 200) throw client.errorOf(answer, request);
  return parsed(answer, RegisteredJobShape);
}

/** Every allocation that a job ever had, oldest first. */
export async function jobAllocations(client: NomadClient, name: string): Promise<Allocation[]> {
  const request: NomadRequest = {
    method: "GET",
    path: `${jobPath(name)}/allocations`,
    query: { all: "true" },
    right: "read-job",
  };
  const { rows } = await list(client, request, Allocations);
  return rows.sort((a, b) => a.CreateIndex - b.CreateIndex);
}

/** Creates a job, and only creates it: without EnforceIndex a stopped job would run again (N 8). */
export function registerJob(client: NomadClient, job: NomadJob): Promise<NomadAnswer> {
  const body = { Job: job, EnforceIndex: true, JobModifyIndex: 0 };
  return client.ask({ method: "POST", path: "/v1/jobs", body, right: "submit-job", timeoutMs: 20_000 });
}

/** What the scheduler would do with a job; nothing is created. */
export function planJob(client: NomadClient, job: NomadJob, signal?: AbortSignal): Promise<NomadAnswer> {
  const body = { Job: job, Diff: false };
  return client.ask({ method: "POST", path: `${jobPath(job.ID)}/plan`, body, right: "submit-job", signal });
}

/** Stops a job and keeps it: a purge would free its name for a second life (N 7). An unknown one is no error (N 48). */
export async function stopJob(client: NomadClient, name: string): Promise<void> {
  const request: NomadRequest = { method: "DELETE", path: jobPath(name), right: "submit-job" };
  const answer = await client.ask(request);
  if (answer.status !== 200 && answer.status !== 404) throw client.errorOf(answer, request);
}

/** @throws ClusterError "denied" when the token may not write variables */
export async function writeVariable(
  client: NomadClient,
  name: string,
  items: Readonly<Record<string, string>>,
): Promise<void> {
  const path = variablePath(name);
  const body = { Path: path, Namespace: client.namespace, Items: items };
  const request: NomadRequest = { method: "PUT", path: `/v1/var/${path}`, body, right: "variables:write" };
  const answer = await client.ask(request);
  if (answer.status !== 200) throw client.errorOf(answer, request);
}

/** Deletes the variable of a job; a missing one is no error, nor is one that this token could never have written. */
export async function deleteVariable(client: NomadClient, name: string): Promise<void> {
  const request: NomadRequest = { method: "DELETE", path: `/v1/var/${variablePath(name)}`, right: "variables:destroy" };
  const answer = await client.ask(request);
  if (answer.status !== 204 && answer.status !== 200 && answer.status !== 404 && !isDenied(answer))
    throw client.errorOf(answer, request);
}

/** Variables of jobs whose names begin so. A token without the right gets an empty list (N 24). */
export async function variablesOf(
  client: NomadClient,
  prefix: string,
): Promise<Listed<{ job: string; modifiedMs: number }>> {
  const query = { prefix: variablePath(prefix) };
  const request: NomadRequest = { method: "GET", path: "/v1/vars", query, right: "variables:list" };
  const start = variablePath("").length;
  const { rows, ...rest } = await list(client, request, Variables);
  return {
    ...rest,
    rows: rows.map(({ Path, ModifyTime }) => ({ job: Path.slice(start), modifiedMs: ModifyTime / 1e6 })),
  };
}

export type FileRead =
  | { kind: "text"; text: string }
  /** There is no such file. */
  | { kind: "missing" }
  /** The node keeps nothing of this allocation any more, or is away; `words` are Nomad's. */
  | { kind: "unreadable"; words: string };

/**
 * A file of an allocation. It is looked at before it is read, since fs/cat answers 200 with an error text as the body
 * when it is not there (N 5).
 * @throws ClusterError when the token may not, or the server fails
 */
export async function readAllocationFile(
  client: NomadClient,
  allocation: string,
  path: string,
  maxBytes: number,
): Promise<FileRead> {
  const request = { method: "GET", query: { path }, right: "read-fs" } as const;
  const stat = await client.ask({ ...request, path: `/v1/client/fs/stat/${allocation}` });
  const refused = unreadable(stat);
  if (refused !== null) return refused;
  if (stat.status !== 200) throw client.errorOf(stat, request);
  const { Size, IsDir } = parsed(stat, FileStat);
  if (IsDir || Size > maxBytes) return { kind: "missing" };
  const cat = await client.ask({ ...request, path: `/v1/client/fs/cat/${allocation}`, maxBytes: maxBytes + 4_096 });
  const lost = unreadable(cat);
  if (lost !== null) return lost;
  if (cat.status !== 200) throw client.errorOf(cat, request);
  return { kind: "text", text: cat.text };
}

function unreadable(answer: NomadAnswer): FileRead | null {
  if (answer.status === 200 || isDenied(answer)) return null;
  const words = answer.text.trim().slice(0, 300);
  if (/no such file or directory/.test(words)) return { kind: "missing" };
  const known = /not found on client|No path to node|Unknown allocation|not started yet|Unknown node|node .* down/i;
  return known.test(words) ? { kind: "unreadable", words } : null;
}

/**
 * The last bytes of one stream of a task (N 41).
 * @throws ClusterError; NOT_FOUND with Nomad's words as reason when there is no log (N 16)
 */
export async function logTail(
  client: NomadClient,
  allocation: string,
  task: string,
  type: "stdout" | "stderr",
  bytes: number,
): Promise<string> {
  return (await readLog(client, allocation, { task, type, origin: "end", offset: String(bytes) }, bytes + 65_536)).text;
}

/** A node keeps two files of 10 MB. */
const LOG_BYTES = 24 * 1024 * 1024;

/** One stream of a task from an offset to its end so far. @throws ClusterError as logTail */
export async function logFrom(
  client: NomadClient,
  allocation: string,
  task: string,
  type: "stdout" | "stderr",
  offset: number,
): Promise<Uint8Array> {
  const where = { task, type, origin: "start", offset: String(offset) };
  return (await readLog(client, allocation, where, LOG_BYTES)).bytes;
}

async function readLog(
  client: NomadClient,
  allocation: string,
  where: Record<string, string>,
  maxBytes: number,
): Promise<NomadAnswer> {
  const query = { ...where, plain: "true" };
  const request: NomadRequest = { method: "GET", path: `/v1/client/fs/logs/${allocation}`, query, right: "read-fs" };
  const answer = await client.ask({ ...request, maxBytes });
  if (answer.status === 200) return answer;
  const refused = unreadable(answer);
  if (refused?.kind === "unreadable")
    throw new ClusterError("NOT_FOUND", `no log: ${refused.words}`, { status: answer.status, reason: refused.words });
  throw client.errorOf(answer, request);
}
