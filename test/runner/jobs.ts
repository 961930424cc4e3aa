import type { Job } from "../../contracts/job.ts";
import { attemptName, formatId } from "../../contracts/names.ts";
import type { LeasedAttempt } from "../../contracts/runner-protocol.ts";
import { type ProgramInput, renderProgram } from "../../worker/program/render.ts";
import { LOG_TOKEN } from "./fake-control-plane.ts";

const PROGRAM: ProgramInput = {
  task: "say hi",
  setup: [],
  command: "true",
  params: {},
  model: null,
  env: {},
  workDir: "work",
  source: { kind: "none" },
  timeoutSec: 60,
  graceSec: 1,
  graders: [],
  collect: [],
};

let count = 0;

export interface JobOptions {
  program?: Partial<ProgramInput>;
  job?: Partial<Job>;
  attempt?: Partial<LeasedAttempt>;
}

/** A granted attempt whose job is a real rendered program. */
export function attemptOf(command: string, options: JobOptions = {}): LeasedAttempt {
  const seed = Uint8Array.from({ length: 10 }, (_, index) => (process.pid >> index) ^ (count * 7 + index));
  const runId = formatId("run", Date.now() + count++, seed);
  const input = { ...PROGRAM, command, ...options.program };
  const job: Job = {
    name: attemptName("0a1b2c3d", runId, 1),
    mode: "batch",
    image: null,
    program: renderProgram(input),
    env: { EVD_RUN_ID: runId },
    secretEnv: {},
    resources: { cpu: null, memoryMb: null, gpu: null },
    pids: 256,
    network: "none",
    os: "linux",
    isolation: "container",
    git: null,
    ports: [],
    sidecars: [],
    imagePullSecret: null,
    timeoutSec: input.timeoutSec,
    graceSec: input.graceSec,
    needs: [],
    labels: { object: "0a1b2c3d", run: runId, epoch: "1" },
    ...options.job,
  };
  return {
    runId,
    epoch: 1,
    leaseMs: 120_000,
    deadlineMs: (input.timeoutSec + input.graceSec + 300) * 1_000,
    job,
    nonce: "0123456789abcdef0123456789abcdef",
    secrets: {},
    registryAuth: null,
    logToken: LOG_TOKEN,
    ...options.attempt,
  };
}
