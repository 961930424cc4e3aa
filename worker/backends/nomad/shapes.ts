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
