import type { Outcome } from "../../../contracts/job.ts";
import { ResultScanner } from "../../../contracts/outcome.ts";
import type { UnitEnd } from "../backend.ts";
import { ClusterError } from "../transport/cluster-error.ts";
import { readChunks } from "../transport/read-body.ts";
import type { K8sClient } from "./client.ts";
import type { EndedPod } from "./fold.ts";
import { MAIN } from "./labels.ts";
import { RIGHTS } from "./rights.ts";

/** The result line is the last but one; a grader's output may follow the agent's for some lines. */
const TAIL_LINES = 64;
/** A kubelet serves the newest file of a log only, 10 MiB by default. */
const MAX_LOG_BYTES = 12 * 1024 * 1024;
const LOG_TAIL_BYTES = 4_096;
const LOG_MS = 20_000;
/** While a node does not answer, its logs may still come; after this the compact Outcome has to do. */
const LOG_WAIT_MS = 5 * 60_000;

export type Collected = { kind: "end"; end: UnitEnd } | { kind: "later"; detail: string };

/**
 * The Outcome of an ended pod. Small ones stand whole in the termination message and cost no call; of others the log is
 * read once. The last valid line counts: a Secret volume cannot be unlinked, so the agent could read the nonce.
 */
export async function collectEnd(client: K8sClient, end: EndedPod, nonce: string, nowMs: number): Promise<Collected> {
  if (end.compact !== null && end.compact.truncated === undefined) return outcomeEnd(end, end.compact, false);
  const log = await readLog(client, end.pod, nonce);
  if (log.kind === "text" && log.outcome !== null) return outcomeEnd(end, log.outcome, false);
  const waited = end.finishedAt === null ? 0 : nowMs - end.finishedAt;
  if (log.kind === "later" && waited < LOG_WAIT_MS) return { kind: "later", detail: log.detail };
  if (end.compact !== null) return outcomeEnd(end, end.compact, true);
  const { otherwise } = end;
  const tail = log.kind === "text" ? log.tail : "";
  return { kind: "end", end: { kind: "failure", failure: tail === "" ? otherwise : { ...otherwise, logTail: tail } } };
}

function outcomeEnd(end: EndedPod, outcome: Outcome, partial: boolean): Collected {
  const facts = { ...(end.node === null ? {} : { node: end.node }), ...(end.oomKilled ? { oomKilled: true } : {}) };
  return { kind: "end", end: { kind: "outcome", outcome: { ...outcome, ...facts }, partial } };
}

type LogRead =
  | { kind: "text"; outcome: Outcome | null; tail: string }
  /** It cannot be had now. */
  | { kind: "later"; detail: string }
  | { kind: "none" };

async function readLog(client: K8sClient, pod: string, nonce: string): Promise<LogRead> {
  const scanner = new ResultScanner(nonce, "last");
  let tail = new Uint8Array(0);
  const keep = (bytes: Uint8Array): void => {
    const joined = new Uint8Array(tail.length + bytes.length);
    joined.set(tail);
    joined.set(bytes, tail.length);
    tail = joined.slice(Math.max(0, joined.length - LOG_TAIL_BYTES));
  };
  try {
    const query = { container: MAIN, tailLines: String(TAIL_LINES) };
    const response = await client.open(RIGHTS.podLog, { name: pod, query, accept: "*/*", deadlineMs: LOG_MS });
    const whole = await readChunks(response, MAX_LOG_BYTES, (chunk) => {
      keep(scanner.push(chunk));
      return true;
    });
    if (whole) keep(scanner.end());
  } catch (error) {
    const lasting = error instanceof ClusterError && /^(NOT_FOUND|BAD_REQUEST)$/.test(error.code);
    // The kubelet's own 404 means that it does not know the pod yet, the API's that the pod is gone.
    if (lasting && !/could not find the requested resource/.test(error.message)) return { kind: "none" };
    const detail = error instanceof ClusterError ? error.message : "its log broke off";
    return { kind: "later", detail: `it has ended, and its result cannot be read yet: ${detail}`.slice(0, 500) };
  }
  const text = new TextDecoder().decode(tail);
  // Answered with status 200 for a container that the node no longer has.
  if (/^unable to retrieve container logs for /.test(text)) return { kind: "none" };
  return { kind: "text", outcome: scanner.outcome, tail: text };
}
