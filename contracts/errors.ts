import * as z from "zod";

/** Closed list of error codes and their HTTP status. Codes are API; messages may change. */
export const ERROR_STATUS = {
  BAD_REQUEST: 400,
  UNAUTHENTICATED: 401,
  BUDGET_EXCEEDED: 402,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  UPGRADE_REQUIRED: 426,
  RATE_LIMITED: 429,
  INTERNAL: 500,
  UPSTREAM_ERROR: 502,
  UPSTREAM_MISCONFIGURED: 502,
  UNAVAILABLE: 503,
  UPSTREAM_TIMEOUT: 504,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

const TITLES: Record<ErrorCode, string> = {
  BAD_REQUEST: "Bad request",
  UNAUTHENTICATED: "Not authenticated",
  BUDGET_EXCEEDED: "Budget exceeded",
  FORBIDDEN: "Forbidden",
  NOT_FOUND: "Not found",
  CONFLICT: "Conflict",
  PAYLOAD_TOO_LARGE: "Payload too large",
  UNSUPPORTED_MEDIA_TYPE: "Unsupported media type",
  UPGRADE_REQUIRED: "Upgrade required",
  RATE_LIMITED: "Rate limited",
  INTERNAL: "Internal error",
  UPSTREAM_ERROR: "Upstream error",
  UPSTREAM_MISCONFIGURED: "Upstream misconfigured",
  UNAVAILABLE: "Unavailable",
  UPSTREAM_TIMEOUT: "Upstream timeout",
};

export const Issue = z
  .strictObject({
    path: z.string().max(300).describe("Dotted path of the field, for example case.timeoutSec"),
    message: z.string().max(1_000).describe("What to change"),
  })
  .describe("One problem with one field of the request");
export type Issue = z.infer<typeof Issue>;

export const Problem = z
  .object({
    type: z.string().max(200).describe("Stable address of this kind of problem"),
    title: z.string().max(100).describe("The kind of problem in words"),
    status: z.number().int().describe("HTTP status"),
    detail: z.string().max(4_000).describe("What happened and what to change"),
    code: z
      .enum(/* @__PURE__ */ Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]])
      .describe("Stable error code"),
    instance: z.string().max(100).describe("Request id, to be quoted in a report"),
    data: z.record(z.string(), z.unknown()).optional().describe("Facts a program can act on"),
    issues: z.array(Issue).max(100).optional().describe("All problems of the request's fields"),
  })
  .describe("RFC 9457 problem document");
export type Problem = z.infer<typeof Problem>;

export interface ErrorExtras {
  data?: Record<string, unknown>;
  issues?: Issue[];
  /** Seconds after which a repeat makes sense; becomes Retry-After. */
  retryAfterSec?: number;
  cause?: unknown;
}

/** The one error type of the project. `message` is written for the caller and never carries internals. */
export class EverdictError extends Error {
  readonly code: ErrorCode;
  readonly data: Record<string, unknown> | undefined;
  readonly issues: Issue[] | undefined;
  readonly retryAfterSec: number | undefined;

  constructor(code: ErrorCode, message: string, extras: ErrorExtras = {}) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.name = "EverdictError";
    this.code = code;
    this.data = extras.data;
    this.issues = extras.issues;
    this.retryAfterSec = extras.retryAfterSec;
  }

  get status(): number {
    return ERROR_STATUS[this.code];
  }

  /** The problem document for this error. @param instance the request id */
  toProblem(instance: string): Problem {
    return {
      type: `https://everdict.dev/problems/${this.code.toLowerCase().replaceAll("_", "-")}`,
      title: TITLES[this.code],
      status: this.status,
      detail: this.message,
      code: this.code,
      instance,
      ...(this.data ? { data: this.data } : {}),
      ...(this.issues ? { issues: this.issues } : {}),
    };
  }
}

/** A 404 that names the thing; also used for another workspace's things, so that existence does not leak. */
export function notFound(kind: string, id: string, workspace: string): EverdictError {
  return new EverdictError("NOT_FOUND", `${kind} '${id}' is not registered in workspace '${workspace}'`, {
    data: { [kind.replaceAll(" ", "_")]: id },
  });
}

type Branch = readonly z.core.$ZodIssue[];

/** Whether a branch of a union refuses the value as a whole: it wants another type, or another fixed value. */
function wantsAnother(branch: Branch): boolean {
  return branch.some(
    (issue) =>
      issue.path.length === 0 &&
      (issue.code === "invalid_type" ||
        issue.code === "invalid_value" ||
        (issue.code === "invalid_union" && issue.errors.length > 0 && issue.errors.every(wantsAnother))),
  );
}

/** Keys of the value itself that a branch does not know. */
const strangersOf = (branch: Branch): number =>
  branch.reduce((sum, issue) => {
    return issue.code === "unrecognized_keys" && issue.path.length === 0 ? sum + issue.keys.length : sum;
  }, 0);

/**
 * The branch of a union that the caller meant: one that takes such a value at all, knows most of its keys, and has the
 * fewest complaints. A count of complaints alone would pick a wrong type, which complains once, over a mistyped key.
 * @returns null when every branch wants another value
 */
function branchMeant(branches: readonly Branch[]): Branch | null {
  const [best] = branches
    .filter((branch) => !wantsAnother(branch))
    .sort((a, b) => strangersOf(a) - strangersOf(b) || a.length - b.length);
  return best ?? null;
}

const UNION_WORDS = "Invalid input";

/** The union's own words where it has some, else every form that it takes. */
function choiceWords(issue: z.core.$ZodIssueInvalidUnion): string {
  if (issue.message !== UNION_WORDS) return issue.message.slice(0, 1_000);
  const forms = new Set<string>();
  let received = "";
  const collect = (branch: Branch): void => {
    for (const { path, message, ...rest } of branch) {
      if (path.length > 0) continue;
      if (rest.code === "invalid_union") rest.errors.forEach(collect);
      const words = /expected (.+?)(, received .+)?$/.exec(message);
      if (words?.[1] !== undefined) forms.add(words[1]);
      if (words?.[2] !== undefined) received = words[2];
    }
  };
  issue.errors.forEach(collect);
  return `${UNION_WORDS}: expected ${[...forms].join(" or ")}${received}`.slice(0, 1_000);
}

/** Turns zod's issues into ours; an unknown key is named in the path so that a typo is found at once. */
export function issuesOf(error: z.ZodError, prefix = ""): Issue[] {
  const out: Issue[] = [];
  const visit = (issue: z.core.$ZodIssue, base: readonly PropertyKey[]): void => {
    const path = [...base, ...issue.path];
    if (issue.code === "unrecognized_keys") {
      for (const key of issue.keys) out.push({ path: join(prefix, [...path, key]), message: "unknown key; remove it" });
      return;
    }
    if (issue.code === "invalid_union" && issue.errors.length > 0) {
      const meant = branchMeant(issue.errors);
      if (meant === null) out.push({ path: join(prefix, path), message: choiceWords(issue) });
      else for (const inner of meant) visit(inner, path);
      return;
    }
    // What is wrong with a name of a record stands one level down.
    const words = issue.code === "invalid_key" ? (issue.issues[0]?.message ?? issue.message) : issue.message;
    out.push({ path: join(prefix, path), message: words.slice(0, 1_000) });
  };
  for (const issue of error.issues) visit(issue, []);
  return out.slice(0, 100);
}

function join(prefix: string, path: readonly PropertyKey[]): string {
  const dotted = path.map(String).join(".");
  const whole = prefix && dotted ? `${prefix}.${dotted}` : prefix || dotted || "(body)";
  return whole.slice(0, 300);
}
