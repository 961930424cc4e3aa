import type { BackendAttempt, BackendOwner, StartResult } from "../backend.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { readJob, registerJob, writeVariable } from "./calls.ts";
import type { NomadAnswer, NomadClient } from "./client.ts";
import { jobDocument, metaOf, type NomadJob, type NomadSpec } from "./document.ts";
import { failureOfWords } from "./evidence.ts";
import { grantText } from "./rights.ts";

/** Words of a refused job that a failure shows. */
const WORDS_CHARS = 1_000;

/** Creates or adopts the job of an attempt; safe to repeat under the same name. */
export async function startJob(
  client: NomadClient,
  spec: NomadSpec,
  owner: BackendOwner,
  attempt: BackendAttempt,
): Promise<StartResult> {
  const built = jobDocument(attempt, spec, owner);
  if (!built.ok) return { kind: "failed", failure: built.failure };
  try {
    // A job without its variable waits for ever (N 43), so the variable comes first.
    if (Object.keys(built.items).length > 0) await writeVariable(client, built.job.ID, built.items);
    const answer = await registerJob(client, built.job);
    return await registered(client, owner, attempt, built.job, answer);
  } catch (error) {
    if (error instanceof ClusterError && error.reason === "denied" && Object.keys(built.items).length > 0)
      return variableDenied(client, built.job.ID, error);
    return { kind: "unknown", error: faultOf(error) };
  }
}

/** Only the variable needs its own right; without it such jobs can never start, the others can. */
function variableDenied(client: NomadClient, unit: string, error: ClusterError): StartResult {
  if (!error.message.includes("variables")) return { kind: "unknown", error: faultOf(error) };
  const message = `the job has secrets, and the token may not write the Nomad Variable that hands them over: ${grantText("variables:write", client.namespace)}`;
  const placement = { unit, node: null, events: [] };
  return {
    kind: "failed",
    failure: { stage: "dispatch", class: "config", code: "VARIABLES_DENIED", message, retryable: false, placement },
  };
}

async function registered(
  client: NomadClient,
  owner: BackendOwner,
  attempt: BackendAttempt,
  job: NomadJob,
  answer: NomadAnswer,
): Promise<StartResult> {
  const started = { kind: "started", externalId: job.ID, node: null } as const;
  if (answer.status === 200) return { ...started, adopted: false };
  const words = answer.text.trim().slice(0, WORDS_CHARS);
  const placement = { unit: job.ID, node: null, events: [words] };
  // A conflict is a 500 with a text (N 6), also for a job that has ended (N 7).
  if (answer.status === 500 && /Enforcing job modify index/.test(words)) {
    const found = await readJob(client, job.ID);
    if (found === null)
      return {
        kind: "unknown",
        error: { code: "UPSTREAM_ERROR", message: "the job exists and is not shown", retryAfterSec: null },
      };
    const wanted = metaOf(owner, attempt.job.labels);
    return Object.entries(wanted).every(([key, value]) => found.Meta[key] === value)
      ? { ...started, adopted: true }
      : { kind: "failed", failure: failureOfWords("register", words, placement) };
  }
  if (/nonexistent namespace/.test(words)) throw client.errorOf(answer, { method: "POST", right: "submit-job" });
  const refused = /errors? occurred|validation failed|cannot unmarshal|nonexistent node pool/;
  if ((answer.status === 500 || answer.status === 400) && refused.test(words))
    return { kind: "failed", failure: failureOfWords("register", words, placement) };
  throw client.errorOf(answer, { method: "POST", right: "submit-job" });
}
