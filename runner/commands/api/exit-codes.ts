import type { ErrorCode } from "../../../contracts/errors.ts";

/** Exit statuses of the API commands; `run` and `scorecard` use 0, 1 and 2 for what was measured. docs/cli.md lists them. */
export const EXIT_CODES = { ok: 0, failed: 1, usage: 2, auth: 3, notFound: 4, conflict: 5, unavailable: 7 } as const;

const BY_CODE: Partial<Record<ErrorCode, number>> = {
  BAD_REQUEST: EXIT_CODES.usage,
  PAYLOAD_TOO_LARGE: EXIT_CODES.usage,
  UNAUTHENTICATED: EXIT_CODES.auth,
  FORBIDDEN: EXIT_CODES.auth,
  NOT_FOUND: EXIT_CODES.notFound,
  CONFLICT: EXIT_CODES.conflict,
  RATE_LIMITED: EXIT_CODES.unavailable,
  UNAVAILABLE: EXIT_CODES.unavailable,
  UPSTREAM_TIMEOUT: EXIT_CODES.unavailable,
};

/** The exit status that tells a script what kind of error it was. */
export const exitCodeOf = (code: ErrorCode): number => BY_CODE[code] ?? EXIT_CODES.failed;
