import * as z from "zod";
import { ClusterError } from "../transport/cluster-error.ts";
import type { TransportResponse } from "../transport/transport.ts";
import { type Right, rightWords } from "./rights.ts";

const Status = z.object({
  kind: z.literal("Status"),
  message: z.string().default(""),
  reason: z.string().default(""),
  details: z
    .object({
      kind: z.string().optional(),
      retryAfterSeconds: z.number().optional(),
      causes: z.array(z.object({ reason: z.string().optional(), message: z.string().optional() })).optional(),
    })
    .optional(),
});
type Status = z.infer<typeof Status>;

/** Longest pause a cluster may ask for that is honoured, in seconds. */
const MAX_RETRY_AFTER_SEC = 600;
/** Pause of a 429 without Retry-After, in seconds. */
const THROTTLED_SEC = 1;
/** Quota frees up when other work ends; asking more often helps nobody. */
const QUOTA_SEC = 15;

/** Errors of fairness, of unknown paths and of time-outs are not JSON, or JSON of no kind. */
function statusOf(text: string): Status | null {
  try {
    const parsed = Status.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

function retryAfterOf(response: TransportResponse, status: Status | null): number | undefined {
  const header = response.headers.get("retry-after");
  const seconds = header !== null && /^\d{1,6}$/.test(header) ? Number(header) : status?.details?.retryAfterSeconds;
  return seconds === undefined ? undefined : Math.min(MAX_RETRY_AFTER_SEC, Math.max(1, seconds));
}

/**
 * 403 has three meanings, told apart by cause and text: the namespace is ending, a quota is full, or a right is missing
 * or a policy said no. Quota and missing rights have the same reason and no cause.
 */
function forbidden(right: Right, status: Status | null): ClusterError {
  const message = status?.message ?? "";
  const facts = { status: 403 };
  if (status?.details?.causes?.some(({ reason }) => reason === "NamespaceTerminating"))
    return new ClusterError("CONFLICT", message, { ...facts, reason: "NamespaceTerminating" });
  if (/exceeded quota/.test(message))
    return new ClusterError("RATE_LIMITED", message, { ...facts, reason: "QuotaExceeded", retryAfterSec: QUOTA_SEC });
  if (/ cannot [a-z]+ resource /.test(message) || message === "") {
    const text = `the credential lacks the right to ${rightWords(right)}; absent things and missing rights look alike to it`;
    return new ClusterError("UPSTREAM_MISCONFIGURED", message === "" ? text : `${text} (${message})`, {
      ...facts,
      reason: "Forbidden",
    });
  }
  return new ClusterError("BAD_REQUEST", message, { ...facts, reason: "AdmissionDenied" });
}

function notFound(right: Right, status: Status | null): ClusterError {
  if (status === null)
    return new ClusterError("UPSTREAM_MISCONFIGURED", `this address does not serve ${rightWords(right)}`, {
      status: 404,
      reason: "NotServed",
    });
  const missing = status.details?.kind === "namespaces" || /^namespaces "/.test(status.message);
  return new ClusterError("NOT_FOUND", status.message, {
    status: 404,
    reason: missing && right.resource !== "namespaces" ? "NamespaceNotFound" : "NotFound",
  });
}

/** What an answer that is no success means. Every status has a defined meaning; a body is never echoed but for known fields. */
export function apiError(right: Right, response: TransportResponse, body: string): ClusterError {
  const { status: code } = response;
  const status = statusOf(body);
  const message = status?.message ?? "";
  const reason = status?.reason ?? "";
  const retryAfterSec = retryAfterOf(response, status);
  const pause = retryAfterSec === undefined ? {} : { retryAfterSec };
  if (code === 401)
    return new ClusterError(
      "UPSTREAM_MISCONFIGURED",
      "the cluster does not know the credential (HTTP 401); check the secret named in authSecret",
      { status: 401, reason: "Unauthorized" },
    );
  if (code === 403) return forbidden(right, status);
  if (code === 404) return notFound(right, status);
  if (code === 409)
    return new ClusterError("CONFLICT", message, { status: 409, reason: reason === "" ? "Conflict" : reason });
  if (code === 410) return new ClusterError("UPSTREAM_ERROR", message, { status: 410, reason: "Expired", ...pause });
  if (code === 413 || code === 400 || code === 422) {
    const denied = / denied request: |denied the request/.test(message);
    return new ClusterError("BAD_REQUEST", message === "" ? `the cluster answered HTTP ${code}` : message, {
      status: code,
      reason: denied ? "AdmissionDenied" : code === 413 ? "TooLarge" : "Invalid",
    });
  }
  if (code === 429)
    return new ClusterError("RATE_LIMITED", "the cluster asks for fewer requests (HTTP 429)", {
      status: 429,
      reason: "TooManyRequests",
      retryAfterSec: retryAfterSec ?? THROTTLED_SEC,
    });
  if (code >= 300 && code < 400)
    return new ClusterError(
      "UPSTREAM_MISCONFIGURED",
      `the address answers with a redirect (HTTP ${code}), which is not followed; register the address it leads to`,
      { status: code, reason: "Redirect" },
    );
  if (code === 504 || reason === "Timeout" || reason === "ServerTimeout")
    return new ClusterError("UPSTREAM_TIMEOUT", `the cluster did not answer in time (HTTP ${code})`, {
      status: code,
      reason: "Timeout",
      uncertain: true,
      ...pause,
    });
  if (code >= 500)
    return new ClusterError("UPSTREAM_ERROR", `the cluster has an error of its own (HTTP ${code})`, {
      status: code,
      reason: reason === "" ? "ServerError" : reason,
      uncertain: true,
      ...pause,
    });
  return new ClusterError("UPSTREAM_MISCONFIGURED", `the address answers HTTP ${code}, which Kubernetes does not`, {
    status: code,
    reason: "Unexpected",
  });
}
