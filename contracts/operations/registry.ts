import * as z from "zod";
import { CapabilityList } from "../capabilities.ts";
import { Dataset, EvalCase } from "../case.ts";
import { Issue } from "../errors.ts";
import { HarnessSpec } from "../harness.ts";
import { ControlRequest, ControlResult, Inspection } from "../inspection.ts";
import { LIMITS, Tags, Version } from "../names.ts";
import type { Action } from "../roles.ts";
import { Timestamp } from "../run.ts";
import { RuntimeSpec } from "../runtime-spec.ts";
import { operation } from "./operation.ts";
import { RelayOfRuntime } from "./relays.ts";
import { Actor, IdParams, NoParams, NoQuery, PageQuery, page, Registered, VersionParams } from "./shapes.ts";

const ListQuery = z.strictObject({
  ...PageQuery,
  archived: z.enum(["true", "false"]).optional().describe("Also archived ones; default false"),
});

const listed = {
  id: z.string(),
  owner: z.string().describe("Workspace, or _shared"),
  latest: z.string().nullable().describe("Highest version that is not archived"),
  versions: z.array(z.string()),
  tags: z.record(z.string(), z.array(z.string())).describe("Tags by version"),
  archived: z.boolean().describe("Every version is archived"),
  description: z.string().nullable(),
};

const entry = <T extends z.ZodType>(spec: T) =>
  z.strictObject({
    id: z.string(),
    version: z.string(),
    owner: z.string(),
    createdAt: Timestamp,
    createdBy: Actor,
    archived: z.boolean(),
    tags: Tags,
    spec,
  });

const validation = {
  ok: z.boolean(),
  errors: z.array(Issue),
  warnings: z.array(z.string()),
  existingVersions: z.array(z.string()),
  versionExists: z.boolean(),
  missingSecrets: z.array(z.string()).describe("Names referred to that are not stored yet; not an error"),
};
const Validation = z.strictObject(validation);

export const Health = z
  .strictObject({
    state: z.enum(["ok", "degraded", "open", "unknown"]),
    detail: z.string().nullable(),
    checkedAt: Timestamp.nullable(),
  })
  .describe("Of the lane between us and the compute");

export const Reachability = z
  .strictObject({
    verdict: z.enum(["direct", "relay", "blocked"]).describe("Whether the edge can dial it itself"),
    reasons: z.array(z.string().max(60)).describe("What makes a relay necessary, or forbids it"),
    command: z.string().nullable().describe("How to make it reachable by a relay; null when nothing is to be done"),
  })
  .describe("How a deployed control plane would reach it");

export const Check = z.strictObject({
  name: z.string(),
  ok: z.boolean(),
  detail: z.string(),
  fix: z.string().nullable(),
});

const AnySpec = z
  .record(z.string().max(100), z.unknown())
  .describe("A spec, complete or not; problems come back as errors");

/** The operations every registry has; the specs differ, the code does not. */
const common = <S extends z.ZodType, K extends "runtimes" | "harnesses" | "datasets">(
  kind: K,
  one: string,
  spec: S,
  write: Action,
  maxBodyBytes: number,
) => ({
  create: operation({
    name: `create_${one}`,
    idempotent: true,
    method: "POST",
    path: `/${kind}`,
    group: kind,
    summary: `Register a ${one} version`,
    description:
      "Versions are immutable. The same bytes again answer 200 with the stored one; other bytes answer 409 naming the next free version.",
    audience: "user",
    action: write,
    params: NoParams,
    query: NoQuery,
    body: spec,
    bodyAs: "spec",
    status: 201,
    output: Registered,
    creates: true,
    maxBodyBytes,
  }),
  get: operation({
    name: `get_${one}`,
    method: "GET",
    path: `/${kind}/{id}/versions/{version}`,
    group: kind,
    summary: `Read a ${one} version`,
    audience: "user",
    action: `${kind}:read`,
    params: VersionParams,
    query: NoQuery,
    status: 200,
    output: entry(spec),
  }),
  tags: operation({
    name: `set_${one}_tags`,
    method: "PUT",
    path: `/${kind}/{id}/versions/{version}/tags`,
    group: kind,
    summary: `Replace the tags of a ${one} version`,
    audience: "user",
    action: `${kind}:manage`,
    params: z.strictObject({ id: IdParams.shape.id, version: Version }),
    query: NoQuery,
    body: z.strictObject({ tags: Tags }),
    status: 200,
    output: z.strictObject({ id: z.string(), version: z.string(), tags: Tags }),
  }),
  archive: operation({
    name: `archive_${one}`,
    idempotent: true,
    method: "POST",
    path: `/${kind}/{id}/archive`,
    group: kind,
    summary: `Archive a ${one}, or one version of it`,
    description: "An archived version is no longer 'latest' and takes no new work; what runs goes on.",
    audience: "user",
    action: `${kind}:manage`,
    params: IdParams,
    query: NoQuery,
    body: z.strictObject({
      version: Version.optional(),
      archived: z.boolean().default(true).describe("false brings it back"),
    }),
    status: 200,
    output: z.strictObject({
      id: z.string(),
      archived: z.array(z.string()).describe("Versions that are archived now"),
    }),
    destructive: true,
  }),
});

const runtimes = common("runtimes", "runtime", RuntimeSpec, "runtimes:write", 256 * 1024);
const harnesses = common("harnesses", "harness", HarnessSpec, "harnesses:write", 1024 * 1024);
const datasets = common("datasets", "dataset", Dataset, "datasets:write", LIMITS.datasetBytes);

const lists = {
  list_runtimes: operation({
    name: "list_runtimes",
    method: "GET",
    path: "/runtimes",
    group: "runtimes",
    summary: "List runtimes, own and shared",
    audience: "user",
    action: "runtimes:read",
    params: NoParams,
    query: ListQuery,
    status: 200,
    output: page(
      z.strictObject({
        ...listed,
        kind: z.enum(["local", "nomad", "k8s"]),
        capabilities: CapabilityList,
        health: Health.nullable(),
        relay: RelayOfRuntime,
      }),
    ),
  }),
  list_harnesses: operation({
    name: "list_harnesses",
    method: "GET",
    path: "/harnesses",
    group: "harnesses",
    summary: "List harnesses, own and shared",
    audience: "user",
    action: "harnesses:read",
    params: NoParams,
    query: ListQuery,
    status: 200,
    output: page(z.strictObject({ ...listed, kind: z.enum(["command", "service"]) })),
  }),
  list_datasets: operation({
    name: "list_datasets",
    method: "GET",
    path: "/datasets",
    group: "datasets",
    summary: "List datasets, own and shared",
    audience: "user",
    action: "datasets:read",
    params: NoParams,
    query: ListQuery,
    status: 200,
    output: page(z.strictObject({ ...listed, cases: z.number().int().describe("Cases of the latest version") })),
  }),
};

const validates = {
  validate_runtime: operation({
    name: "validate_runtime",
    readOnly: true,
    method: "POST",
    path: "/runtimes/validate",
    group: "runtimes",
    summary: "Check a runtime spec without saving it",
    audience: "user",
    action: "runtimes:write",
    params: NoParams,
    query: NoQuery,
    body: AnySpec,
    bodyAs: "spec",
    status: 200,
    output: z.strictObject({
      ...validation,
      reachability: Reachability,
      receipt: z.string().nullable().describe("Proof for the save gate; null unless ok"),
    }),
    maxBodyBytes: 256 * 1024,
  }),
  probe_runtime: operation({
    name: "probe_runtime",
    // What it keeps is what it saw of a registered cluster, its health; nothing that anybody registered changes.
    readOnly: true,
    openWorld: true,
    method: "POST",
    path: "/runtimes/probe",
    group: "runtimes",
    summary: "Ask the cluster whether it answers, with the stored credential",
    description: "Runs no job; at most 10 seconds. An unreachable cluster is an answer, not an error.",
    audience: "user",
    action: "runtimes:write",
    params: NoParams,
    query: NoQuery,
    body: RuntimeSpec,
    bodyAs: "spec",
    status: 200,
    output: z.strictObject({
      kind: z.string(),
      reachable: z.boolean(),
      detail: z.string(),
      reason: z.string().nullable(),
      checks: z.array(Check),
      policy: z.string().optional().describe("Least-privilege policy of the cluster, to paste"),
      receipt: z.string().nullable(),
    }),
    maxBodyBytes: 256 * 1024,
  }),
  validate_harness: operation({
    name: "validate_harness",
    readOnly: true,
    method: "POST",
    path: "/harnesses/validate",
    group: "harnesses",
    summary: "Check a harness spec without saving it",
    audience: "user",
    action: "harnesses:write",
    params: NoParams,
    query: NoQuery,
    body: AnySpec,
    bodyAs: "spec",
    status: 200,
    output: Validation,
  }),
  validate_dataset: operation({
    name: "validate_dataset",
    readOnly: true,
    method: "POST",
    path: "/datasets/validate",
    group: "datasets",
    summary: "Check a dataset without saving it",
    audience: "user",
    action: "datasets:write",
    params: NoParams,
    query: NoQuery,
    body: AnySpec,
    bodyAs: "spec",
    status: 200,
    output: Validation,
    maxBodyBytes: LIMITS.datasetBytes,
  }),
  list_dataset_cases: operation({
    name: "list_dataset_cases",
    method: "GET",
    path: "/datasets/{id}/versions/{version}/cases",
    group: "datasets",
    summary: "Page through the cases of a dataset",
    audience: "user",
    action: "datasets:read",
    params: VersionParams,
    query: z.strictObject(PageQuery),
    status: 200,
    output: page(EvalCase),
  }),
};

const clusters = {
  inspect_runtime: operation({
    name: "inspect_runtime",
    openWorld: true,
    method: "GET",
    path: "/runtimes/{id}/versions/{version}/inspect",
    group: "runtimes",
    summary: "Look at a runtime's cluster: nodes, capacity, what runs there",
    description: "Takes at most 15 seconds. An unreachable cluster is an answer, not an error.",
    audience: "user",
    action: "runtimes:read",
    params: VersionParams,
    query: NoQuery,
    status: 200,
    output: Inspection,
  }),
  control_runtime: operation({
    name: "control_runtime",
    openWorld: true,
    method: "POST",
    path: "/runtimes/{id}/versions/{version}/control",
    group: "runtimes",
    summary: "Act on a runtime's cluster: stop a unit, reclaim, purge, cordon, resize",
    description:
      "Acts on units that carry this runtime's labels; on anything else, nodes included, only where the runtime says externalControl.",
    audience: "user",
    action: "runtimes:control",
    params: VersionParams,
    query: NoQuery,
    body: ControlRequest,
    bodyAs: "control",
    status: 200,
    output: ControlResult,
    destructive: true,
  }),
};

export const REGISTRY_OPERATIONS = {
  create_runtime: runtimes.create,
  ...validates,
  ...lists,
  get_runtime: { ...runtimes.get, output: entry(RuntimeSpec).extend({ relay: RelayOfRuntime }) },
  set_runtime_tags: runtimes.tags,
  archive_runtime: runtimes.archive,
  ...clusters,
  create_harness: harnesses.create,
  get_harness: harnesses.get,
  set_harness_tags: harnesses.tags,
  archive_harness: harnesses.archive,
  create_dataset: datasets.create,
  get_dataset: datasets.get,
  set_dataset_tags: datasets.tags,
  archive_dataset: datasets.archive,
};
