import type { ControlRequest, ControlResult } from "../../contracts/inspection.ts";
import { ClusterError } from "./transport/cluster-error.ts";

/** Names shown of what was changed. */
const MAX_SHOWN = 100;

export const controlled = (
  action: ControlRequest["action"],
  affected: readonly string[],
  detail: string,
): ControlResult => ({ action, affected: affected.slice(0, MAX_SHOWN), affectedTotal: affected.length, detail });

const refusal = (code: "FORBIDDEN" | "BAD_REQUEST" | "NOT_FOUND", message: string, reason: string): ClusterError =>
  new ClusterError(code, message, { status: null, reason });

/** Somebody else's, and the runtime does not say that it may be touched. */
export const foreign = (what: string): ClusterError =>
  refusal(
    "FORBIDDEN",
    `${what} does not carry the labels of this runtime; register a version with externalControl: true to act on it`,
    "foreign",
  );

export const unsupported = (message: string): ClusterError => refusal("BAD_REQUEST", message, "unsupported");

export const unknownUnit = (name: string): ClusterError =>
  refusal("NOT_FOUND", `there is no unit '${name}'; inspect_runtime shows what runs`, "unknown");

/** What stopping a unit of a live attempt means for its run. */
export const STOPPED_WORDS = "a run that was live on it sees it as evicted; cancel the run to end it for good";
