import * as z from "zod";

/* What is read of the API's objects: only these fields are relied on. Times are ISO 8601 with whole seconds. */

const Metadata = z.object({
  name: z.string(),
  uid: z.string().default(""),
  labels: z.record(z.string(), z.string()).default({}),
  creationTimestamp: z.string().nullish(),
  deletionTimestamp: z.string().nullish(),
});

const Condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().nullish(),
  message: z.string().nullish(),
  lastTransitionTime: z.string().nullish(),
});
export type Condition = z.infer<typeof Condition>;

const Terminated = z.object({
  exitCode: z.number().int(),
  reason: z.string().nullish(),
  message: z.string().nullish(),
  startedAt: z.string().nullish(),
  finishedAt: z.string().nullish(),
});
export type Terminated = z.infer<typeof Terminated>;

const ContainerStatus = z.object({
  name: z.string(),
  state: z
    .object({
      waiting: z.object({ reason: z.string().nullish(), message: z.string().nullish() }).nullish(),
      running: z.object({ startedAt: z.string().nullish() }).nullish(),
      terminated: Terminated.nullish(),
    })
    .default({}),
});
export type ContainerStatus = z.infer<typeof ContainerStatus>;

export const Pod = z.object({
  metadata: Metadata,
  spec: z
    .object({
      nodeName: z.string().nullish(),
      activeDeadlineSeconds: z.number().nullish(),
      containers: z
        .array(
          z.object({
            resources: z
              .object({ limits: z.record(z.string(), z.union([z.string(), z.number()])).nullish() })
              .nullish(),
          }),
        )
        .nullish(),
    })
    .default({}),
  status: z
    .object({
      phase: z.string().nullish(),
      reason: z.string().nullish(),
      message: z.string().nullish(),
      startTime: z.string().nullish(),
      conditions: z.array(Condition).nullish(),
      initContainerStatuses: z.array(ContainerStatus).nullish(),
      containerStatuses: z.array(ContainerStatus).nullish(),
    })
    .default({}),
});
export type Pod = z.infer<typeof Pod>;

export const KubeJob = z.object({
  metadata: Metadata,
  spec: z.object({ suspend: z.boolean().nullish() }).default({}),
  status: z
    .object({
      startTime: z.string().nullish(),
      completionTime: z.string().nullish(),
      conditions: z.array(Condition).nullish(),
    })
    .default({}),
});
export type KubeJob = z.infer<typeof KubeJob>;

export const KubeEvent = z.object({
  metadata: Metadata,
  involvedObject: z.object({ kind: z.string().nullish(), name: z.string().nullish(), uid: z.string().nullish() }),
  reason: z.string().nullish(),
  message: z.string().nullish(),
  type: z.string().nullish(),
  firstTimestamp: z.string().nullish(),
  lastTimestamp: z.string().nullish(),
  eventTime: z.string().nullish(),
});
export type KubeEvent = z.infer<typeof KubeEvent>;

/** An object of which only the metadata was asked for. */
export const PartialObject = z.object({ metadata: Metadata });
export type PartialObject = z.infer<typeof PartialObject>;

export const KubeNode = z.object({
  metadata: Metadata,
  spec: z.object({ unschedulable: z.boolean().nullish() }).default({}),
  status: z
    .object({
      conditions: z.array(Condition).nullish(),
      allocatable: z.record(z.string(), z.string()).nullish(),
      addresses: z.array(z.object({ type: z.string(), address: z.string() })).nullish(),
      nodeInfo: z
        .object({
          operatingSystem: z.string().nullish(),
          architecture: z.string().nullish(),
          kernelVersion: z.string().nullish(),
          containerRuntimeVersion: z.string().nullish(),
          kubeletVersion: z.string().nullish(),
        })
        .nullish(),
    })
    .default({}),
});
export type KubeNode = z.infer<typeof KubeNode>;

export const NodeMetrics = z.object({ metadata: Metadata, usage: z.record(z.string(), z.string()).default({}) });
export type NodeMetrics = z.infer<typeof NodeMetrics>;

/** One page of a list. */
export const page = <T extends z.ZodType>(item: T) =>
  z.object({
    metadata: z.object({
      resourceVersion: z.string().default(""),
      continue: z.string().nullish(),
      remainingItemCount: z.number().nullish(),
    }),
    items: z.array(item).nullable(),
  });

/** Epoch ms of a time of the API; null when there is none. */
export function timeOf(text: string | null | undefined): number | null {
  const ms = Date.parse(text ?? "");
  return Number.isNaN(ms) ? null : ms;
}

/** The condition of this type that is true. */
export const trueCondition = (conditions: readonly Condition[] | null | undefined, type: string): Condition | null =>
  conditions?.find((condition) => condition.type === type && condition.status === "True") ?? null;

/** The condition of this type, whatever it says. */
export const conditionOf = (conditions: readonly Condition[] | null | undefined, type: string): Condition | null =>
  conditions?.find((condition) => condition.type === type) ?? null;
