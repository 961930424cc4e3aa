import { EverdictError } from "../../contracts/errors.ts";
import { logEvent } from "../observability/log.ts";

/** Any error as ours. What we did not write for callers never reaches them. */
export function asEverdictError(error: unknown): EverdictError {
  if (error instanceof EverdictError) return error;
  const text = error instanceof Error ? error.message : "";
  // D1 and object storage fail as plain errors with a prefix; a store that cannot be read is never an empty answer.
  if (
    /^D1_|D1 DB|Network connection lost|storage operation|Durable Object (storage|reset)|overloaded/i.test(text) ||
    isDatabaseCause(error)
  ) {
    return new EverdictError("UNAVAILABLE", "a store did not answer; try again", { retryAfterSec: 2, cause: error });
  }
  return new EverdictError("INTERNAL", "something went wrong on our side; quote the request id in a report", {
    cause: error,
  });
}

/** drizzle wraps what D1 threw. */
function isDatabaseCause(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && /^D1_/.test(error.cause.message);
}

/** The error as an RFC 9457 answer. */
export function problemResponse(error: EverdictError, requestId: string): Response {
  const headers: Record<string, string> = {
    "content-type": "application/problem+json",
    "cache-control": "no-store",
    "x-request-id": requestId,
  };
  if (error.retryAfterSec !== undefined) headers["retry-after"] = String(Math.max(1, Math.ceil(error.retryAfterSec)));
  else if (error.code === "UNAVAILABLE" || error.code === "RATE_LIMITED") headers["retry-after"] = "2";
  if (error.code === "UNAUTHENTICATED") headers["www-authenticate"] = 'Bearer realm="everdict"';
  return new Response(JSON.stringify(error.toProblem(requestId)), { status: error.status, headers });
}

/** Tells operators what callers are not told. */
export function logFailure(known: EverdictError, requestId: string, thrown: unknown): void {
  if (known.status < 500) return;
  const cause = known.cause instanceof Error ? known.cause : thrown;
  const { name, message, stack } = cause instanceof Error ? cause : { name: "unknown", message: "", stack: undefined };
  const where = known.code === "INTERNAL" ? { stack: stack?.slice(0, 2_000) } : {};
  logEvent("error", { requestId, code: known.code, error: name, message: message.slice(0, 500), ...where });
}
