import { EverdictError } from "../../contracts/errors.ts";

export interface Trouble {
  title: string;
  detail: string;
  code: string;
  requestId: string | null;
  /** Trying the same again may help. */
  transient: boolean;
}

const TRANSIENT = new Set(["UNAVAILABLE", "UPSTREAM_TIMEOUT", "UPSTREAM_ERROR", "RATE_LIMITED", "INTERNAL"]);

const TITLES: Record<string, string> = {
  UNAVAILABLE: "The control plane does not answer",
  UNAUTHENTICATED: "You are not signed in",
  FORBIDDEN: "You may not do this",
  NOT_FOUND: "Not found",
  CONFLICT: "It has changed meanwhile",
  BAD_REQUEST: "Something needs a change",
  RATE_LIMITED: "Too many requests",
  BUDGET_EXCEEDED: "More runs than the budget holds",
};

/** What went wrong, in words, with what a report must quote. */
export function troubleOf(error: unknown): Trouble {
  if (error instanceof EverdictError) {
    const requestId = "requestId" in error && typeof error.requestId === "string" ? error.requestId : null;
    return {
      title: TITLES[error.code] ?? "This did not work",
      detail: error.message,
      code: error.code,
      requestId,
      transient: TRANSIENT.has(error.code),
    };
  }
  return {
    title: "The dashboard made a mistake",
    detail: error instanceof Error ? error.message : String(error),
    code: "DASHBOARD",
    requestId: null,
    transient: false,
  };
}

export const isOffline = (error: unknown): boolean =>
  error instanceof EverdictError && error.code === "UNAVAILABLE" && !("requestId" in error);

export const isCode = (error: unknown, ...codes: string[]): boolean =>
  error instanceof EverdictError && codes.includes(error.code);
