import { type ErrorCode, EverdictError } from "../../../contracts/errors.ts";
import type { ClusterFault } from "../backend.ts";

/** What is known of a refusal beside its code. */
export interface ClusterErrorFacts {
  /** HTTP status; null when no answer came. */
  status: number | null;
  /** The cluster's own word, for example AlreadyExists; never a whole body. */
  reason?: string;
  /** The write may have taken effect. */
  uncertain?: boolean;
  retryAfterSec?: number;
  cause?: unknown;
}

/** A cluster's API did not do what was asked. `message` holds known fields of its answer only. */
export class ClusterError extends EverdictError {
  readonly httpStatus: number | null;
  readonly reason: string;
  readonly uncertain: boolean;

  constructor(code: ErrorCode, message: string, facts: ClusterErrorFacts) {
    super(code, message.slice(0, 2_000), {
      ...(facts.retryAfterSec === undefined ? {} : { retryAfterSec: facts.retryAfterSec }),
      ...(facts.cause === undefined ? {} : { cause: facts.cause }),
    });
    this.name = "ClusterError";
    this.httpStatus = facts.status;
    this.reason = facts.reason ?? "";
    this.uncertain = facts.uncertain ?? false;
  }

  /** As the Scheduler hears of it. */
  toFault(): ClusterFault {
    return { code: this.code, message: this.message.slice(0, 500), retryAfterSec: this.retryAfterSec ?? null };
  }
}

/** The fault behind anything thrown; a defect of ours is told as one, without its text. */
export function faultOf(error: unknown): ClusterFault {
  if (error instanceof ClusterError) return error.toFault();
  if (error instanceof EverdictError) return { code: error.code, message: error.message, retryAfterSec: null };
  return { code: "INTERNAL", message: "the backend failed by its own fault", retryAfterSec: null };
}
