import { attemptName } from "../../contracts/names.ts";
import type { BackendAttempt, BackendOwner } from "./backend.ts";

/** What of a runtime the job that is tried dry takes over. */
export interface Sample {
  image: string;
  gpu: BackendAttempt["job"]["resources"]["gpu"];
  /** Default: that of the first attempt of a run that cannot be. */
  name?: string;
  deadlineMs?: number;
}

/** The job that a probe tries dry: nothing of it comes from a tenant. */
export function sampleAttempt(owner: BackendOwner, sample: Sample): BackendAttempt {
  const runId = `run_${"0".repeat(26)}`;
  return {
    runId,
    epoch: 1,
    deadlineMs: sample.deadlineMs ?? 60_000,
    nonce: "0".repeat(32),
    secrets: {},
    gitCredential: null,
    registryAuth: null,
    logToken: "",
    job: {
      name: sample.name ?? attemptName(owner.object, runId, 1),
      labels: { object: owner.object, run: runId, epoch: "1" },
      mode: "batch",
      image: sample.image,
      program: "exit 0\n",
      env: { EVD_RUN_ID: runId },
      secretEnv: {},
      resources: { cpu: null, memoryMb: null, gpu: sample.gpu },
      pids: 1_024,
      network: "bridge",
      os: "linux",
      isolation: "container",
      git: null,
      ports: [],
      sidecars: [],
      imagePullSecret: null,
      timeoutSec: 60,
      graceSec: 10,
      needs: [],
    },
  };
}
