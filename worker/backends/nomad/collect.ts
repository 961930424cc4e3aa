import { OUTCOME_MAX_BYTES, type Outcome } from "../../../contracts/job.ts";
import { outcomeOfText } from "../../../contracts/outcome.ts";
import type { Failure } from "../../../contracts/run.ts";
import type { UnitEnd, WatchedUnit } from "../backend.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { logTail, readAllocationFile } from "./calls.ts";
import type { NomadClient } from "./client.ts";
import { CLONE_WORDS_PATH, MAIN_TASK, OUTCOME_PATH } from "./document.ts";
import {
  cloneFailed,
  failureOfAllocation,
  failureOfWords,
  hasStarted,
  ranOutOfMemory,
  wordsOfAllocation,
} from "./evidence.ts";
import type { Allocation } from "./shapes.ts";

/** Result line with its mark, nonce and newline. */
const OUTCOME_FILE_BYTES = OUTCOME_MAX_BYTES + 4_096;
const WORDS_BYTES = 4_096;

export type Collected =
  | { end: UnitEnd }
  /** It has ended, and its result cannot be read yet; the words say why. */
  | { wait: string };

type OutcomeRead = { kind: "outcome"; outcome: Outcome } | { kind: "none" } | { kind: "unreadable"; words: string };

/**
 * The end of a job whose allocations have all ended: the first valid Outcome, or the failure that the last one shows.
 * @param allocations oldest first; more than one where Nomad placed the job again
 */
export async function collectEnd(
  client: NomadClient,
  unit: WatchedUnit,
  allocations: readonly Allocation[],
  nowMs: number,
): Promise<Collected> {
  let unreadable: { alloc: Allocation; words: string } | null = null;
  for (const alloc of allocations) {
    if (!hasStarted(alloc)) continue;
    const read = await readOutcome(client, alloc, unit.nonce);
    if (read.kind === "outcome")
      return { end: { kind: "outcome", outcome: withFacts(read.outcome, alloc), partial: false } };
    if (read.kind === "unreadable") unreadable = { alloc, words: read.words };
  }
  if (unreadable !== null && awaited(unreadable)) return { wait: `the job has ended; ${unreadable.words}` };
  const alloc = allocations.at(-1);
  if (alloc === undefined) return { wait: "the job has no allocation" };
  return { end: { kind: "failure", failure: await failureWithWords(client, unit.name, alloc, unreadable, nowMs) } };
}

/** A node that is away may come back with the result, unless Nomad itself gave the job up. */
const awaited = ({ alloc, words }: { alloc: Allocation; words: string }): boolean =>
  !/not found on client|Unknown allocation/.test(words) && alloc.ClientStatus !== "lost";

async function readOutcome(client: NomadClient, alloc: Allocation, nonce: string): Promise<OutcomeRead> {
  const file = await readAllocationFile(client, alloc.ID, OUTCOME_PATH, OUTCOME_FILE_BYTES);
  if (file.kind === "unreadable") return file;
  const outcome = file.kind === "text" ? outcomeOfText(file.text, nonce) : null;
  return outcome === null ? { kind: "none" } : { kind: "outcome", outcome };
}

/** The cluster's own evidence about memory and machine stands beside what the program reported. */
const withFacts = (outcome: Outcome, alloc: Allocation): Outcome => ({
  ...outcome,
  ...(alloc.NodeName === "" ? {} : { node: alloc.NodeName.slice(0, 253) }),
  ...(ranOutOfMemory(alloc) ? { oomKilled: true } : {}),
});

async function failureWithWords(
  client: NomadClient,
  unit: string,
  alloc: Allocation,
  unreadable: { alloc: Allocation; words: string } | null,
  nowMs: number,
): Promise<Failure> {
  if (cloneFailed(alloc)) return cloneFailure(client, unit, alloc);
  // An ended job whose files are gone may have had a result: that is the fact to tell, not its exit code.
  if (
    unreadable !== null &&
    unreadable.alloc === alloc &&
    alloc.DesiredStatus === "run" &&
    alloc.ClientStatus !== "lost"
  ) {
    const events = [unreadable.words, ...wordsOfAllocation(alloc)];
    return failureOfWords("client", unreadable.words, { unit, node: alloc.NodeName || null, events });
  }
  const failure = failureOfAllocation(alloc, unit, nowMs);
  if (!hasStarted(alloc)) return failure;
  const tail = await tailOf(client, alloc);
  return tail === "" ? failure : { ...failure, logTail: tail };
}

/** The program's last words; their absence changes nothing. */
async function tailOf(client: NomadClient, alloc: Allocation): Promise<string> {
  for (const type of ["stderr", "stdout"] as const) {
    try {
      const text = await logTail(client, alloc.ID, MAIN_TASK, type, WORDS_BYTES);
      if (text.trim() !== "") return text.slice(-WORDS_BYTES);
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      return "";
    }
  }
  return "";
}

const UNREACHABLE = /could not resolve host|connection (refused|timed out|reset)|unable to access.*(timed out|5\d\d)/i;

async function cloneFailure(client: NomadClient, unit: string, alloc: Allocation): Promise<Failure> {
  const started = alloc.TaskStates.clone?.Events.some((event) => event.Type === "Started") === true;
  const failure = failureOfAllocation(alloc, unit, 0);
  if (!started) {
    const message = `the image that clones git sources did not start; see 'gitImage' of the runtime: ${failure.message}`;
    return { ...failure, message: message.slice(0, 4_000) };
  }
  const file = await readAllocationFile(client, alloc.ID, CLONE_WORDS_PATH, WORDS_BYTES * 16);
  const words = file.kind === "text" ? file.text.trim().slice(-2_000) : "its words could not be read";
  const infra = UNREACHABLE.test(words);
  return {
    ...failure,
    stage: "install",
    class: infra ? "infra" : "config",
    code: "GIT_CLONE_FAILED",
    message: `git could not fetch the source: ${words}`,
    retryable: infra,
  };
}
