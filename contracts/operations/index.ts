import { ADMIN_OPERATIONS } from "./admin.ts";
import type { Operation } from "./operation.ts";
import { QUEUE_HISTORY_OPERATIONS } from "./queue-history.ts";
import { REGISTRY_OPERATIONS } from "./registry.ts";
import { RELAY_OPERATIONS } from "./relays.ts";
import { RUNNER_OPERATIONS } from "./runners.ts";
import { QUEUE_OPERATIONS, RUN_OPERATIONS, SCORECARD_OPERATIONS } from "./runs.ts";
import { SCORECARD_VIEW_OPERATIONS } from "./scorecard-views.ts";
import { SESSION_OPERATIONS } from "./session.ts";

/** Every API operation, by name. */
export const OPERATIONS = {
  ...REGISTRY_OPERATIONS,
  ...RUN_OPERATIONS,
  ...SCORECARD_OPERATIONS,
  ...SCORECARD_VIEW_OPERATIONS,
  ...QUEUE_OPERATIONS,
  ...QUEUE_HISTORY_OPERATIONS,
  ...RUNNER_OPERATIONS,
  ...RELAY_OPERATIONS,
  ...ADMIN_OPERATIONS,
  ...SESSION_OPERATIONS,
};
export type Operations = typeof OPERATIONS;
export type OperationName = keyof Operations;

/** The table without its particular types, for code that walks it. */
export const OPERATION_LIST: readonly Operation[] = Object.values(OPERATIONS) as unknown as readonly Operation[];
