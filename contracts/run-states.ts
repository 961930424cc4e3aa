/* The states of a run without their schemas: a page that only names them need not load a schema library. */

export const RUN_STATUSES = ["queued", "dispatching", "running", "succeeded", "failed", "cancelled"] as const;
export const TERMINAL_STATUSES = ["succeeded", "failed", "cancelled"] as const;
/** Whether nothing can change any more. */
export const isTerminal = (status: string): boolean => (TERMINAL_STATUSES as readonly string[]).includes(status);

export const FAILURE_CLASSES = ["infra", "config", "harness", "agent"] as const;
