import * as z from "zod";
import { CapabilityList, Os } from "./capabilities.ts";
import { Job, Outcome, OutcomeFile } from "./job.ts";
import { RunId } from "./names.ts";
import { nullIsNone } from "./null-is-none.ts";
import { whole } from "./numbers.ts";
import { Failure } from "./run.ts";

export const PROTOCOL = 1;
export const MIN_PROTOCOL = 1;
/** A lease lasts this long without a heartbeat. */
export const LEASE_MS = 120_000;
export const HEARTBEAT_MS = 30_000;
/** A grant that is not accepted within this time is withdrawn: a Worker does not learn that a parked client has gone. */
export const ACCEPT_MS = 10_000;
export const MAX_WAIT_MS = 25_000;

const InstanceId = z.string().min(1).max(100).describe("Random per runner process");
const Epoch = whole(1, 1_000_000).describe("Number of the attempt; only grows");
export const AttemptRef = z.strictObject({ runId: RunId, epoch: Epoch });
export type AttemptRef = z.infer<typeof AttemptRef>;

const Amount = (what: string, max: number) =>
  z.strictObject({ total: whole(0, max), free: whole(0, max) }).describe(what);

export const LeaseRequest = nullIsNone(
  z.strictObject({
    protocol: whole(0, 1_000).describe("Protocol version the runner speaks"),
    instanceId: InstanceId,
    machineId: z.string().min(1).max(100).describe("Random id kept in the runner's state folder"),
    waitMs: whole(0, MAX_WAIT_MS, "milliseconds").describe("How long to park when nothing fits, in ms"),
    slots: Amount("Jobs at once", 1_000),
    memoryMb: Amount("Memory for jobs in MiB", 100_000_000).nullable().optional(),
    cpu: Amount("CPU for jobs in millicores", 10_000_000).nullable().optional(),
    labels: z.array(z.string().max(60)).max(20),
    capabilities: CapabilityList,
    os: Os,
    arch: z.string().max(20),
    version: z.string().max(40),
    hostname: z.string().max(253).optional(),
  }),
).describe("Asks for work, parking up to waitMs");
export type LeaseRequest = z.infer<typeof LeaseRequest>;

export const RegistryAuth = z.strictObject({
  host: z.string().max(253),
  username: z.string().max(300),
  password: z.string().max(16_384),
});

export const LeasedAttempt = z
  .strictObject({
    runId: RunId,
    epoch: Epoch,
    leaseMs: z.number().int(),
    deadlineMs: z.number().int().describe("Longest life from the container's start, counted by the runner"),
    job: Job,
    nonce: z.string().length(32).describe("Marks the genuine result line"),
    secrets: z.record(z.string(), z.string()).describe("Values for job.secretEnv by variable name"),
    gitCredential: z.string().max(16_384).nullable().optional().describe("Credential for the clone only"),
    registryAuth: RegistryAuth.nullable(),
    logToken: z.string().max(300).describe("Bearer for this attempt's log"),
  })
  .describe("A granted attempt");
export type LeasedAttempt = z.infer<typeof LeasedAttempt>;

export const Command = z.strictObject({ runId: RunId, epoch: Epoch, verdict: z.enum(["cancel", "superseded"]) });
export type Command = z.infer<typeof Command>;

export const LeaseAnswer = z.strictObject({ attempts: z.array(LeasedAttempt), commands: z.array(Command) });
export type LeaseAnswer = z.infer<typeof LeaseAnswer>;

export const Phase = z.enum(["accepted", "pulling", "running"]);
export const HeartbeatRequest = z
  .strictObject({
    instanceId: InstanceId,
    attempts: z.array(AttemptRef.extend({ phase: Phase })).max(1_000),
  })
  .describe("One heartbeat for all held attempts; 'accepted' at once, start only when extended");
export type HeartbeatRequest = z.infer<typeof HeartbeatRequest>;

export const HeartbeatAnswer = z.strictObject({
  attempts: z.array(AttemptRef.extend({ verdict: z.enum(["extended", "cancel", "superseded"]) })),
});
export type HeartbeatAnswer = z.infer<typeof HeartbeatAnswer>;

/** An Outcome, a failure without one, an attempt handed back unstarted, or the confirmation that a stopped container is gone. */
export const Report = z.union([
  z.strictObject({ failure: nullIsNone(Failure) }),
  z.strictObject({ released: z.literal(true) }),
  z.strictObject({ stopped: z.literal(true) }),
  nullIsNone(Outcome.extend({ files: z.record(z.string().max(1_000), nullIsNone(OutcomeFile)) })),
]);
export type Report = z.infer<typeof Report>;

export const ResultsRequest = nullIsNone(
  z.strictObject({
    instanceId: InstanceId,
    results: z.array(AttemptRef.extend({ outcome: Report })).max(200),
    lease: LeaseRequest.optional().describe("Ask for the next jobs in the same call"),
  }),
).describe("Results of ended attempts");
export type ResultsRequest = z.infer<typeof ResultsRequest>;

export const Accepted = AttemptRef.extend({
  accepted: z.boolean(),
  reason: z.enum(["superseded", "cancelled", "unknown"]).optional(),
});
export type Accepted = z.infer<typeof Accepted>;

export const ResultsAnswer = z.strictObject({
  accepted: z.array(Accepted),
  attempts: z.array(LeasedAttempt),
  commands: z.array(Command),
});
export type ResultsAnswer = z.infer<typeof ResultsAnswer>;
