import { describe, expect, test } from "vitest";
import { LeaseRequest, ResultsRequest } from "../../contracts/runner-protocol.ts";

const FAILURE = { stage: "run", class: "infra", code: "LOST", message: "gone", retryable: true };
const OUTCOME = {
  exitCode: 0,
  signal: null,
  durationMs: 1,
  timedOut: false,
  stdout: "",
  stderr: "",
  stdoutBytes: 0,
  stderrBytes: 0,
  graderExits: {},
  files: {},
  diff: null,
  node: "n",
};
const LEASE = {
  protocol: 1,
  instanceId: "i",
  machineId: "m",
  waitMs: 0,
  slots: { total: 1, free: 1 },
  labels: [],
  capabilities: [],
  os: "linux",
  arch: "x64",
  version: "1",
};

describe("null means none wherever a runner may leave something out", () => {
  const reported = (outcome: unknown, rest: object = {}) =>
    ResultsRequest.parse({ instanceId: "i", results: [{ runId: "run_1", epoch: 1, outcome }], ...rest });

  test("in a failure", () => {
    const { results } = reported({ failure: { ...FAILURE, placement: null, logTail: null } });
    expect(results[0]?.outcome).toStrictEqual({ failure: FAILURE });
  });

  test("in an outcome and its files", () => {
    const file = { bytes: 1, base64: "YQ==" };
    const sent = { ...OUTCOME, setupExitCode: null, setupStep: null, oomKilled: null, truncated: null };
    const { results } = reported({ ...sent, files: { f: { ...file, truncated: null } } });
    expect(results[0]?.outcome).toStrictEqual({ ...OUTCOME, files: { f: file } });
  });

  test("in a request for work, alone and beside results", () => {
    expect(LeaseRequest.parse({ ...LEASE, hostname: null })).toStrictEqual(LEASE);
    expect(reported({ released: true }, { lease: null })).not.toHaveProperty("lease");
    // A null that says something is kept.
    expect(LeaseRequest.parse({ ...LEASE, memoryMb: null })).toStrictEqual({ ...LEASE, memoryMb: null });
  });

  test("and nothing else becomes lax", () => {
    const refused = (value: unknown) => expect(ResultsRequest.safeParse(value).success).toBe(false);
    refused({ instanceId: "i", results: null });
    refused({
      instanceId: "i",
      results: [{ runId: "run_1", epoch: 1, outcome: { failure: { ...FAILURE, code: null } } }],
    });
    refused({
      instanceId: "i",
      results: [{ runId: "run_1", epoch: 1, outcome: { failure: { ...FAILURE, more: 1 } } }],
    });
  });
});
