import * as z from "zod";
import { Timestamp } from "./run.ts";

/** The most that is shown one by one; all are counted. */
export const INSPECTION_LIMITS = { nodes: 30, workload: 100, warnings: 20 } as const;

export const Amount = z
  .strictObject({
    total: z.number().describe("What there is to give away"),
    used: z.number().nullable().describe("null where the cluster does not measure it"),
  })
  .describe("An amount in the unit that `units` names");
export type Amount = z.infer<typeof Amount>;

const Text = z.string().max(300);

export const NodeView = z
  .strictObject({
    name: Text,
    ready: z.boolean().describe("The cluster hears of it"),
    schedulable: z.boolean().describe("Takes new work"),
    os: Text,
    arch: Text,
    kernel: Text.describe("Version of its kernel"),
    containerRuntime: Text.nullable().describe("Container runtime and its version; null where none is known"),
    agentVersion: Text.describe("Version of the kubelet or the Nomad client"),
    address: Text.nullable().describe("Network address; null when unknown or not told"),
    cpu: Amount,
    memoryMb: Amount,
    diskMb: Amount.nullable(),
    gpu: Amount,
  })
  .describe("One machine of a cluster");
export type NodeView = z.infer<typeof NodeView>;

export const WorkloadView = z
  .strictObject({
    name: Text,
    unit: Text.describe("What control acts on: a Job's name; a pod's where it has none"),
    ours: z.boolean().describe("Carries the labels of this runtime"),
    role: z.enum(["job", "service", "other"]).describe("job: a case; service: it stays; other: anything else"),
    state: Text.describe("In the cluster's own words"),
    node: Text.nullable(),
    since: Text.nullable().describe("ISO 8601"),
  })
  .describe("Something that runs there");
export type WorkloadView = z.infer<typeof WorkloadView>;

export const Inspection = z
  .strictObject({
    kind: z.enum(["local", "nomad", "k8s"]).describe("Kind of the runtime"),
    reachable: z.boolean(),
    detail: z.string().max(1_000),
    reason: z
      .string()
      .max(60)
      .nullable()
      .describe(
        "As a probe's: auth, api, connect, tls, timeout, relay, relay-offline, credential …; null when it answered",
      ),
    cluster: z.strictObject({ version: Text, namespace: Text }).nullable().describe("What answered"),
    units: z
      .strictObject({
        cpu: z.enum(["millicores", "MHz"]).describe("Unit of every cpu here"),
        memory: z.literal("MiB").describe("Unit of every memoryMb"),
        disk: z.literal("MiB").describe("Unit of every diskMb"),
      })
      .describe("Units native to the kind"),
    nodes: z
      .array(NodeView)
      .max(INSPECTION_LIMITS.nodes)
      .nullable()
      .describe("At most 30, those in trouble first; null when they could not be read"),
    nodesTotal: z.number().int().nullable().describe("How many there are"),
    capacity: z
      .strictObject({ cpu: Amount, memoryMb: Amount, gpu: Amount })
      .nullable()
      .describe("Of all nodes that take work; used is null unless it is known of each of them"),
    workload: z
      .array(WorkloadView)
      .max(INSPECTION_LIMITS.workload)
      .nullable()
      .describe("At most 100, ours first; null when it could not be read"),
    workloadTotal: z.number().int().nullable().describe("How many there are, at least"),
    stores: z
      .array(z.strictObject({ name: Text, kind: Text.describe("postgres, redis or minio"), state: Text }))
      .nullable()
      .describe("Stores of topologies; null where none can be"),
    warnings: z.array(z.string().max(500)).max(INSPECTION_LIMITS.warnings).describe("What was left out, and why"),
    readAt: Timestamp.describe("One reading serves all viewers for 5 s"),
  })
  .describe("A look at a runtime, best effort: a section that could not be read is null and told in warnings");
export type Inspection = z.infer<typeof Inspection>;

const Unit = z
  .string()
  .min(1)
  .max(253)
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, "must be the unit's name as inspect_runtime shows it")
  .describe("`unit` of a workload");

export const ControlRequest = z
  .discriminatedUnion("action", [
    z.strictObject({ action: z.literal("stopWorkload"), workload: Unit }).describe("Ends one unit"),
    z
      .strictObject({ action: z.literal("reclaimIdle") })
      .describe("Removes what of ours no live attempt needs: units without one, and what ended ones left behind"),
    z
      .strictObject({ action: z.literal("purgeTerminal") })
      .describe("Deletes ended units of ours whose result is stored; Kubernetes only"),
    z
      .strictObject({
        action: z.literal("cordonNode"),
        node: Unit.describe("Name of a node"),
        cordoned: z.boolean().default(true).describe("false lets new work back on"),
      })
      .describe("Keeps new work off a node"),
    z
      .strictObject({
        action: z.literal("resizeWorkload"),
        workload: Unit,
        replicas: z.number().int("must be a whole number").min(0).max(1_000).describe("Copies wanted, 0 to 1000"),
      })
      .describe("Changes how many copies of a service run"),
  ])
  .describe("What an operator of the workspace does to a cluster");
export type ControlRequest = z.infer<typeof ControlRequest>;

export const ControlResult = z
  .strictObject({
    action: z.string().max(40).describe("What was asked for"),
    affected: z.array(Text).max(100).describe("Names of what was changed, at most 100"),
    affectedTotal: z.number().int().describe("How many were changed"),
    detail: z.string().max(1_000),
  })
  .describe("What an action did");
export type ControlResult = z.infer<typeof ControlResult>;
