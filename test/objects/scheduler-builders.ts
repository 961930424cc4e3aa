import type { EnqueueEntry, Envelope, JudgedResult, TenantLimits } from "../../contracts/rpc.ts";
import type { LeaseRequest } from "../../contracts/runner-protocol.ts";

export const LIMITS: TenantLimits = { weight: 1, maxInFlight: null, queueDepth: 50_000 };
export const ENVELOPE: Envelope = { slots: 2, memoryBudgetMb: null, cpuBudget: null, version: "1.0.0" };

let counter = 0;

/** A run id that no other test has. */
export function freshRunId(): string {
  counter += 1;
  return `run_${Date.now().toString(32).padStart(16, "0")}${counter.toString(32).padStart(10, "0")}`;
}

/** An entry as the Worker hands it in; every part may be replaced. */
export function entryOf(parts: Partial<EnqueueEntry> = {}): EnqueueEntry {
  return {
    runId: freshRunId(),
    workspace: "acme",
    target: "self",
    pinnedVersion: null,
    batchId: null,
    priority: "interactive",
    ask: { cpu: { value: 1_000, declared: false }, memoryMb: { value: 1_024, declared: false }, gpu: 0 },
    runnerId: null,
    queueTimeoutSec: 0,
    retries: 0,
    job: {
      mode: "batch",
      image: null,
      program: "echo hi",
      env: {},
      secretEnv: {},
      resources: { cpu: null, memoryMb: null, gpu: null },
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
    jobHash: "aa",
    grading: { graders: [] },
    ...parts,
  };
}

/** A poll of a runner process. */
export function pollOf(parts: Partial<LeaseRequest> = {}): LeaseRequest {
  return {
    protocol: 1,
    instanceId: "i1",
    machineId: "m1",
    waitMs: 0,
    slots: { total: 4, free: 4 },
    labels: [],
    capabilities: [],
    os: "linux",
    arch: "x64",
    version: "0.1.0",
    ...parts,
  };
}

/** A good measurement of an attempt. */
export function measured(runId: string, epoch: number): JudgedResult {
  return {
    runId,
    epoch,
    verdict: {
      kind: "measured",
      result: { exitCode: 0, score: 1, pass: true, scores: [], durationMs: 5, stdoutTail: "", outputs: [] },
      stdout: "hi",
      stderr: "",
      node: "n1",
    },
  };
}
