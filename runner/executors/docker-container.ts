import type { Job } from "../../contracts/job.ts";
import { SANDBOX_RUNTIMES } from "../probe/findings.ts";
import type { Assignment } from "./executor.ts";

/** Where the program finds its writable directory inside the container. */
export const CONTAINER_DIR = "/everdict";
export const OUTCOME_PATH = `${CONTAINER_DIR}/outcome`;

/** Labels of our containers; values are plain facts, no secret. */
export const LABEL = {
  machine: "evd.machine",
  instance: "evd.instance",
  name: "evd.name",
  object: "evd.object",
  run: "evd.run",
  epoch: "evd.epoch",
  nonce: "evd.nonce",
  deadlineMs: "evd.deadline-ms",
  graceSec: "evd.grace-sec",
  memoryMb: "evd.memory-mb",
} as const;

export interface Owner {
  machineId: string;
  instanceId: string;
}

function labelsOf(assignment: Assignment, owner: Owner): Record<string, string> {
  const { job } = assignment;
  return {
    [LABEL.machine]: owner.machineId,
    [LABEL.instance]: owner.instanceId,
    [LABEL.name]: job.name,
    [LABEL.object]: job.labels.object,
    [LABEL.run]: job.labels.run,
    [LABEL.epoch]: job.labels.epoch,
    [LABEL.nonce]: assignment.nonce,
    [LABEL.deadlineMs]: String(assignment.deadlineMs),
    [LABEL.graceSec]: String(job.graceSec),
    [LABEL.memoryMb]: String(job.resources.memoryMb ?? ""),
  };
}

function limitsOf(job: Job): Record<string, unknown> {
  const { memoryMb, cpu, gpu } = job.resources;
  const bytes = memoryMb === null ? null : memoryMb * 1024 * 1024;
  return {
    // Memory and swap together equal to memory: no swap.
    ...(bytes === null ? {} : { Memory: bytes, MemorySwap: bytes }),
    ...(cpu === null ? {} : { NanoCpus: cpu * 1_000_000 }),
    ...(gpu === null || gpu === 0 ? {} : { DeviceRequests: [{ Driver: "", Count: gpu, Capabilities: [["gpu"]] }] }),
    PidsLimit: job.pids,
  };
}

/**
 * The engine's document for a job's container. Secrets stand in its environment, which travels in the request body.
 * @param runtimes OCI runtimes the engine knows, for a job that asks for a sandbox
 */
export function containerOf(
  assignment: Assignment,
  owner: Owner,
  runtimes: readonly string[],
): Record<string, unknown> {
  const { job } = assignment;
  const sandbox = runtimes.find((runtime) => SANDBOX_RUNTIMES.includes(runtime));
  const env = {
    ...job.env,
    ...assignment.secrets,
    EVD_DIR: CONTAINER_DIR,
    EVD_NONCE_FILE: `${CONTAINER_DIR}/nonce`,
    EVD_OUTCOME_FILE: OUTCOME_PATH,
  };
  return {
    Image: job.image,
    Entrypoint: ["/bin/sh", `${CONTAINER_DIR}/program.sh`],
    Cmd: [],
    Env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
    Labels: labelsOf(assignment, owner),
    WorkingDir: CONTAINER_DIR,
    AttachStdout: true,
    AttachStderr: true,
    Tty: false,
    OpenStdin: false,
    NetworkDisabled: job.network === "none",
    HostConfig: {
      ...limitsOf(job),
      NetworkMode: job.network === "none" ? "none" : "bridge",
      SecurityOpt: ["no-new-privileges"],
      CapDrop: ["ALL"],
      RestartPolicy: { Name: "no" },
      // Output is read from the attached stream; the engine's own copy would fill its disk.
      LogConfig: { Type: "none", Config: {} },
      ...(job.isolation === "sandbox" && sandbox !== undefined ? { Runtime: sandbox } : {}),
    },
  };
}
