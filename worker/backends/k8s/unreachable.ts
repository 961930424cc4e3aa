import { ClusterError } from "../transport/cluster-error.ts";

const causeWords = (cause: unknown): string =>
  cause instanceof Error ? `${cause.message} ${"code" in cause ? String(cause.code) : ""}` : "";

/** Why the API gave no answer of use, in the words that a probe and a look share. */
export function unreachableReason(error: unknown): "timeout" | "tls" | "connect" | "auth" | "api" {
  if (!(error instanceof ClusterError)) return "api";
  if (error.httpStatus !== null) return error.httpStatus === 401 || error.httpStatus === 403 ? "auth" : "api";
  if (error.code === "UPSTREAM_TIMEOUT") return "timeout";
  const cause = error.cause instanceof Error ? `${error.cause.message} ${causeWords(error.cause.cause)}` : "";
  return /certificate|TLS|SSL|self.signed|wrong version number/i.test(cause) ? "tls" : "connect";
}
