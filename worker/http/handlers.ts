import type { OperationName, Operations } from "../../contracts/operations/index.ts";
import type { BodyOf, OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { SESSION_OPERATIONS } from "../../contracts/operations/session.ts";
import type { Context } from "../context.ts";
import * as clusters from "../services/clusters.ts";
import { compareScorecards } from "../services/compare.ts";
import * as identity from "../services/identity.ts";
import * as logs from "../services/logs.ts";
import * as queue from "../services/queue.ts";
import { getQueueHistory } from "../services/queue-history.ts";
import * as registries from "../services/registries.ts";
import * as relays from "../services/relays.ts";
import * as runners from "../services/runners.ts";
import * as runs from "../services/runs.ts";
import * as scorecardViews from "../services/scorecard-views.ts";
import * as scorecards from "../services/scorecards.ts";
import * as secrets from "../services/secrets.ts";
import type { Reply } from "./reply.ts";

export interface Input<T> {
  params: ParamsOf<T>;
  query: QueryOf<T>;
  body: BodyOf<T>;
}

type Handler<T> = (ctx: Context, input: Input<T>) => Promise<OutputOf<T> | Reply<OutputOf<T>> | undefined>;
type StreamHandler<T> = (ctx: Context, input: Input<T>, request: Request) => Promise<Response>;

type StreamName = "stream_run_logs" | "stream_scorecard";
type SessionName = keyof typeof SESSION_OPERATIONS;
export type RunnerName = "runner_lease" | "runner_heartbeat" | "runner_results" | "runner_log";
export type UserName = Exclude<OperationName, StreamName | RunnerName | SessionName>;

/** The one implementation of each operation; HTTP and MCP both call it. */
export const HANDLERS: { [K in UserName]: Handler<Operations[K]> } = {
  create_runtime: registries.createRuntime,
  validate_runtime: registries.validateRuntime,
  probe_runtime: registries.probeRuntime,
  list_runtimes: registries.listRuntimes,
  get_runtime: registries.getRuntime,
  set_runtime_tags: registries.replaceTags("runtime"),
  archive_runtime: registries.archive("runtime"),
  inspect_runtime: clusters.inspectRuntime,
  control_runtime: clusters.controlCluster,
  create_harness: registries.createHarness,
  validate_harness: registries.validateHarness,
  list_harnesses: registries.listHarnesses,
  get_harness: registries.getHarness,
  set_harness_tags: registries.replaceTags("harness"),
  archive_harness: registries.archive("harness"),
  create_dataset: registries.createDataset,
  validate_dataset: registries.validateDataset,
  list_datasets: registries.listDatasets,
  get_dataset: registries.getDataset,
  list_dataset_cases: registries.listDatasetCases,
  set_dataset_tags: registries.replaceTags("dataset"),
  archive_dataset: registries.archive("dataset"),
  submit_run: runs.submitRun,
  list_runs: runs.listRuns,
  get_run: runs.getRun,
  cancel_run: runs.cancelRun,
  get_run_logs: logs.getLogs,
  get_run_placement: runs.getPlacement,
  run_scorecard: scorecards.runScorecard,
  list_scorecards: scorecards.listScorecards,
  compare_scorecards: compareScorecards,
  get_scorecard: scorecards.getScorecard,
  get_scorecard_grid: scorecardViews.getScorecardGrid,
  preview_scorecard: scorecardViews.previewScorecard,
  list_scorecard_runs: scorecards.listScorecardRuns,
  cancel_scorecard: scorecards.cancelScorecard,
  retry_scorecard: scorecards.retryScorecard,
  get_queue: queue.getQueue,
  get_queue_history: getQueueHistory,
  promote_queue_entry: queue.promote,
  cancel_queue_entry: queue.cancelEntry,
  list_runners: runners.listRunners("own"),
  pair_runner: runners.pairRunner("own"),
  revoke_runner: runners.revokeRunner("own"),
  list_workspace_runners: runners.listRunners("workspace"),
  pair_workspace_runner: runners.pairRunner("workspace"),
  revoke_workspace_runner: runners.revokeRunner("workspace"),
  list_relays: relays.listRelays,
  pair_relay: relays.pairRelay,
  revoke_relay: relays.revokeRelay,
  get_me: identity.getMe,
  create_workspace: identity.createWorkspace,
  list_workspaces: identity.listWorkspaces,
  get_workspace_limits: identity.getLimits,
  set_workspace_limits: identity.setLimits,
  list_members: identity.listMembers,
  set_member: identity.setMember,
  remove_member: identity.removeMember,
  create_api_key: identity.createApiKey,
  list_api_keys: identity.listApiKeys,
  revoke_api_key: identity.revokeApiKey,
  list_audit: identity.listAudit,
  list_secret_names: secrets.listSecretNames,
  list_secrets: secrets.listSecrets,
  put_secret: secrets.putSecret,
  rotate_vault: secrets.rotateVault,
  delete_secret: secrets.deleteSecret,
};

export const STREAMS: { [K in StreamName]: StreamHandler<Operations[K]> } = {
  stream_run_logs: logs.streamLogs,
  stream_scorecard: scorecards.streamScorecard,
};

/** Operations that make sense before a workspace is chosen. */
export const WITHOUT_WORKSPACE: ReadonlySet<string> = new Set([
  "get_me",
  "list_workspaces",
  "create_workspace",
  "get_workspace_limits",
  "set_workspace_limits",
  "rotate_vault",
]);
