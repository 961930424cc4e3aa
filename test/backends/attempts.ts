import type { Job } from "../../contracts/job.ts";
import { attemptName, formatId, type IdKind } from "../../contracts/names.ts";
import type { BackendAttempt, BackendOwner, WatchedUnit } from "../../worker/backends/backend.ts";
import { type ProgramInput, renderProgram } from "../../worker/program/render.ts";

export const randomId = (kind: IdKind): string =>
  formatId(kind, Date.now(), crypto.getRandomValues(new Uint8Array(10)));

const hex = (bytes: number): string =>
  [...crypto.getRandomValues(new Uint8Array(bytes))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** An owner nobody else has, so that suites on one cluster do not see each other. */
export const randomOwner = (): BackendOwner => ({ deployment: `test-${hex(3)}`, object: hex(4) });

export interface AttemptParts {
  runId?: string;
  epoch?: number;
  image?: string;
  program?: Partial<ProgramInput>;
  job?: Partial<Job>;
  secrets?: Record<string, string>;
  registryAuth?: BackendAttempt["registryAuth"];
  gitCredential?: string | null;
  nonce?: string;
}

const PROGRAM: ProgramInput = {
  task: "",
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

/** A granted attempt with a real program. */
export function attemptOf(owner: BackendOwner, parts: AttemptParts = {}): BackendAttempt {
  const runId = parts.runId ?? randomId("run");
  const epoch = parts.epoch ?? 1;
  const input = { ...PROGRAM, ...parts.program };
  const job: Job = {
    name: attemptName(owner.object, runId, epoch),
    labels: { object: owner.object, run: runId, epoch: String(epoch) },
    mode: "batch",
    image: parts.image ?? "everdict/busybox:1",
    program: renderProgram(input),
    env: { EVD_RUN_ID: runId },
    secretEnv: Object.fromEntries(Object.keys(parts.secrets ?? {}).map((name) => [name, name])),
    resources: { cpu: 20, memoryMb: 64, gpu: null },
    pids: 1_024,
    network: "bridge",
    os: "linux",
    isolation: "container",
    git: null,
    ports: [],
    sidecars: [],
    imagePullSecret: null,
    timeoutSec: input.timeoutSec,
    graceSec: input.graceSec,
    needs: [],
    ...parts.job,
  };
  return {
    runId,
    epoch,
    deadlineMs: (job.timeoutSec + job.graceSec + 300) * 1_000,
    job,
    nonce: parts.nonce ?? hex(16),
    secrets: parts.secrets ?? {},
    gitCredential: parts.gitCredential ?? null,
    registryAuth: parts.registryAuth ?? null,
    logToken: "",
  };
}

/** The same attempt as the Scheduler asks for it. */
export const watched = (attempt: BackendAttempt, stopping = false): WatchedUnit => ({
  runId: attempt.runId,
  epoch: attempt.epoch,
  name: attempt.job.name,
  nonce: attempt.nonce,
  stopping,
  job: { timeoutSec: attempt.job.timeoutSec, resources: attempt.job.resources, image: attempt.job.image },
});
