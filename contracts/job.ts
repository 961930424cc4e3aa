import * as z from "zod";
import { CapabilityList, Os } from "./capabilities.ts";
import { EnvName, ImageRef, SecretName } from "./names.ts";
import { whole } from "./numbers.ts";

export const RESULT_MARK = "__EVERDICT_RESULT__";
/** Bytes of stdout and of stderr that an Outcome keeps, counted from the end. */
export const OUTCOME_STREAM_BYTES = 64 * 1024;
/** Largest Outcome line; bigger parts are cut and say so. */
export const OUTCOME_MAX_BYTES = 256 * 1024;
/** Largest compact Outcome: a Kubernetes termination message holds 4 096 bytes. */
export const COMPACT_OUTCOME_BYTES = 4_000;

const millicores = whole(1, 1_024_000, "millicores");
const megabytes = whole(4, 16_777_216, "MiB");
const gpus = whole(0, 64);

export const Resources = z
  .strictObject({
    cpu: millicores.optional().describe("CPU in millicores; 1000 is one core"),
    memoryMb: megabytes.optional().describe("Memory in MiB"),
    gpu: gpus.optional().describe("Number of GPUs"),
  })
  .describe("What one job asks for");
export type Resources = z.infer<typeof Resources>;

export const Sidecar = z
  .strictObject({
    name: z.string().max(63),
    image: ImageRef,
    env: z.record(EnvName, z.string().max(32_768)),
    ports: z.array(z.strictObject({ name: z.string().max(15), port: whole(1, 65_535) })).max(20),
    resources: Resources,
  })
  .describe("A container that lives beside the main one");

/** A Job before it is granted: everything but what only the grant knows (name, epoch, run id, nonce). */
export const JobTemplate = z
  .strictObject({
    mode: z.enum(["batch", "service"]),
    image: ImageRef.nullable().describe("Container image; null runs on the host executor"),
    program: z.string().max(786_432).describe("POSIX sh program; every tenant byte in it is base64"),
    env: z.record(EnvName, z.string().max(32_768)).describe("EVD_* facts only"),
    secretEnv: z
      .record(EnvName, SecretName)
      .describe("Environment variable to secret name; values come with the grant"),
    resources: z.strictObject({ cpu: millicores.nullable(), memoryMb: megabytes.nullable(), gpu: gpus.nullable() }),
    pids: whole(16, 65_536),
    network: z.enum(["bridge", "none"]),
    os: Os,
    isolation: z.enum(["container", "sandbox"]),
    git: z
      .strictObject({ url: z.string().max(2_000), ref: z.string().max(300), authSecret: SecretName.optional() })
      .nullable(),
    ports: z.array(z.strictObject({ name: z.string().max(15), port: whole(1, 65_535) })).max(20),
    sidecars: z.array(Sidecar).max(10),
    imagePullSecret: SecretName.nullable().describe("Name of a registry secret {host, username, password}"),
    timeoutSec: whole(1, 86_400, "seconds").describe("Seconds for setup and agent together"),
    graceSec: whole(0, 300, "seconds").describe("Seconds between TERM and KILL"),
    needs: CapabilityList,
  })
  .describe("A Job as stored in its Scheduler object");
export type JobTemplate = z.infer<typeof JobTemplate>;

/** A Job without its program, which is read by nobody between the lane that wrote it and the executor that runs it. */
export type JobFacts = Omit<JobTemplate, "program">;

export const Job = JobTemplate.extend({
  name: z.string().max(63).describe("External name of this attempt"),
  labels: z.strictObject({ object: z.string().max(63), run: z.string().max(63), epoch: z.string().max(10) }),
}).describe("The narrow waist: what every backend and executor runs");
export type Job = z.infer<typeof Job>;

export const OutcomeFile = z.strictObject({
  bytes: z.number().int().min(0).describe("Size of the whole file"),
  base64: z.string().max(349_528).describe("Content, perhaps cut"),
  truncated: z.boolean().optional().describe("The content was cut"),
});

/** What the program reports; the executors hand it on unread. */
export const Outcome = z
  .strictObject({
    exitCode: whole(0, 255).nullable().describe("Exit status of the agent's command; null when setup failed before it"),
    signal: whole(1, 64).nullable().describe("Signal that ended the agent"),
    durationMs: z.number().int().min(0).describe("Setup and agent together"),
    timedOut: z.boolean().describe("The watchdog ended it"),
    setupExitCode: whole(0, 255).optional().describe("Exit status of the setup step that failed"),
    setupStep: z.string().max(500).optional().describe("The setup step that failed"),
    stdout: z.string().max(262_144).describe("Last 64 KiB of standard output; invalid UTF-8 replaced"),
    stderr: z.string().max(262_144).describe("Last 64 KiB of standard error; invalid UTF-8 replaced"),
    stdoutBytes: z.number().int().min(0),
    stderrBytes: z.number().int().min(0),
    graderExits: z.record(z.string().max(200), whole(0, 255)).describe("Exit status of each command grader by name"),
    files: z
      .record(z.string().max(1_000), OutcomeFile)
      .describe("Files that graders named; absent when the program found none there"),
    diff: z.string().max(262_144).nullable().describe("git diff of the work tree, for a git source"),
    node: z.string().max(253).describe("Machine it ran on"),
    oomKilled: z.boolean().optional().describe("The engine or cluster said that memory ran out"),
    truncated: z.array(z.string().max(1_000)).max(100).optional().describe("Parts that were cut to fit"),
  })
  .describe("What became of one Job, by its own program");
export type Outcome = z.infer<typeof Outcome>;
