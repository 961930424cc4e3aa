import * as z from "zod";

/*
 * The fields of Nomad's answers that are relied on. Everything else is dropped; absent and null mean the same, as Go
 * writes null for an empty list or map.
 */

const Text = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
const Count = z
  .number()
  .nullish()
  .transform((value) => value ?? 0);

export const TaskEvent = z.object({
  Type: z.string(),
  DisplayMessage: Text,
  /** Nanoseconds since 1970; JavaScript keeps them to about 256 ns. */
  Time: Count,
  ExitCode: Count,
  Details: z
    .record(z.string(), z.string())
    .nullish()
    .transform((value) => value ?? {}),
});
export type TaskEvent = z.infer<typeof TaskEvent>;

export const TaskState = z.object({
  State: Text,
  Failed: z
    .boolean()
    .nullish()
    .transform((value) => value ?? false),
  Events: z
    .array(TaskEvent)
    .max(1_000)
    .nullish()
    .transform((value) => value ?? []),
});

export const Allocation = z.object({
  ID: z.string().max(36),
  JobID: z.string(),
  ClientStatus: z.string(),
  ClientDescription: Text,
  DesiredStatus: z.string(),
  DesiredDescription: Text,
  NodeName: Text,
  CreateIndex: Count,
  /** Nanoseconds. */
  CreateTime: Count,
  TaskStates: z
    .record(z.string(), TaskState)
    .nullish()
    .transform((value) => value ?? {}),
});
export type Allocation = z.infer<typeof Allocation>;
export const Allocations = z.array(Allocation);

/** A row of jobs/statuses: allocation states, no exit codes (N 38). */
export const JobStatus = z.object({
  ID: z.string(),
  Status: Text,
  Stop: z
    .boolean()
    .nullish()
    .transform((value) => value ?? false),
  SubmitTime: Count,
  Allocs: z
    .array(z.object({ ID: z.string(), ClientStatus: z.string() }))
    .nullish()
    .transform((value) => value ?? []),
});
export type JobStatus = z.infer<typeof JobStatus>;
export const JobStatuses = z.array(JobStatus);

const Meta = z
  .record(z.string(), z.string())
  .nullish()
  .transform((value) => value ?? {});

export const JobStub = z.object({ ID: z.string(), Status: Text, SubmitTime: Count, Meta });
export const JobStubs = z.array(JobStub);

export const RegisteredJob = z.object({
  ID: z.string(),
  Status: Text,
  Stop: z
    .boolean()
    .nullish()
    .transform((value) => value ?? false),
  SubmitTime: Count,
  Meta,
});
export type RegisteredJob = z.infer<typeof RegisteredJob>;

const Counts = z
  .record(z.string(), z.number())
  .nullish()
  .transform((value) => value ?? {});

export const Placement = z.object({
  NodesEvaluated: Count,
  NodesFiltered: Count,
  NodesExhausted: Count,
  ConstraintFiltered: Counts,
  DimensionExhausted: Counts,
  QuotaExhausted: z
    .array(z.string())
    .nullish()
    .transform((value) => value ?? []),
});
export type Placement = z.infer<typeof Placement>;

const FailedGroups = z
  .record(z.string(), Placement)
  .nullish()
  .transform((value) => value ?? {});

export const Evaluation = z.object({
  ID: z.string(),
  JobID: z.string(),
  Status: Text,
  FailedTGAllocs: FailedGroups,
});
export type Evaluation = z.infer<typeof Evaluation>;
export const Evaluations = z.array(Evaluation);

export const Plan = z.object({ FailedTGAllocs: FailedGroups, Warnings: Text });

export const FileStat = z.object({ Size: z.number(), IsDir: z.boolean() });

export const TokenSelf = z.object({ AccessorID: z.string(), Type: Text, Policies: z.array(z.string()).nullish() });
export const Policy = z.object({ Rules: z.string() });

export const Members = z.object({
  Members: z.array(z.object({ Tags: z.record(z.string(), z.string()).nullish() })),
});

export const Nodes = z.array(
  z.object({
    Drivers: z
      .record(
        z.string(),
        z.object({
          Healthy: z.boolean().nullish(),
          Attributes: z.record(z.string(), z.string()).nullish(),
        }),
      )
      .nullish(),
  }),
);

export const Variables = z.array(z.object({ Path: z.string(), ModifyTime: Count }));

const Devices = z
  .array(
    z.object({
      Type: Text,
      Instances: z
        .array(z.object({ Healthy: z.boolean().nullish() }))
        .nullish()
        .transform((value) => value ?? []),
    }),
  )
  .nullish()
  .transform((value) => value ?? []);

/** A node of the list with `resources=true`. */
export const NodeRow = z.object({
  ID: z.string().max(36),
  Name: Text,
  Address: Text,
  Status: Text,
  Drain: z.boolean().nullish(),
  SchedulingEligibility: Text,
  Version: Text,
  Drivers: z
    .record(z.string(), z.object({ Attributes: z.record(z.string(), z.string()).nullish() }))
    .nullish()
    .transform((value) => value ?? {}),
  NodeResources: z
    .object({
      Cpu: z.object({ CpuShares: Count }),
      Memory: z.object({ MemoryMB: Count }),
      Disk: z.object({ DiskMB: Count }),
      Devices,
    })
    .nullish(),
  ReservedResources: z
    .object({
      Cpu: z.object({ CpuShares: Count }),
      Memory: z.object({ MemoryMB: Count }),
      Disk: z.object({ DiskMB: Count }),
    })
    .nullish(),
});
export type NodeRow = z.infer<typeof NodeRow>;
export const NodeRows = z.array(NodeRow);

/** Of one node: what the list does not say. Its SecretID is never read. */
export const NodeDetail = z.object({
  Attributes: z
    .record(z.string(), z.string())
    .nullish()
    .transform((value) => value ?? {}),
});

/** What a client measures of its machine. */
export const HostStats = z.object({
  /** MHz in use. */
  CPUTicksConsumed: z.number().nullish(),
  /** Bytes. */
  Memory: z.object({ Used: Count }).nullish(),
  AllocDirStats: z.object({ Used: Count }).nullish(),
});

/** An allocation of the list with `resources=true&task_states=false`. */
export const PlacedAllocation = z.object({
  ID: z.string().max(36),
  JobID: z.string(),
  JobType: Text,
  ClientStatus: Text,
  NodeName: Text,
  CreateTime: Count,
  AllocatedResources: z
    .object({
      Tasks: z
        .record(
          z.string(),
          z.object({
            Devices: z
              .array(
                z.object({
                  Type: Text,
                  DeviceIDs: z
                    .array(z.string())
                    .nullish()
                    .transform((value) => value ?? []),
                }),
              )
              .nullish()
              .transform((value) => value ?? []),
          }),
        )
        .nullish()
        .transform((value) => value ?? {}),
    })
    .nullish(),
});
export type PlacedAllocation = z.infer<typeof PlacedAllocation>;
export const PlacedAllocations = z.array(PlacedAllocation);

export const LiveJob = z.object({ ID: z.string(), Type: Text, Status: Text, SubmitTime: Count, Meta });
export type LiveJob = z.infer<typeof LiveJob>;
export const LiveJobs = z.array(LiveJob);

/** A job with its groups, for resizing. */
export const ScalableJob = z.object({
  Type: Text,
  Stop: z.boolean().nullish(),
  Meta,
  TaskGroups: z
    .array(z.object({ Name: z.string(), Count: Count }))
    .nullish()
    .transform((value) => value ?? []),
});
