import { expect, test } from "vitest";
import { attemptJson, attemptOf, type ReadyAttempt } from "../../worker/dispatch/grants.ts";
import { entryOf } from "../objects/scheduler-builders.ts";

const program = "#!/bin/sh\nprintf '%s' \"$1\" | tr '\\n' ' ' # \u2028 😀 </script>\n";
const { program: _, ...facts } = entryOf().job;
const ready: ReadyAttempt = {
  runId: "run_1",
  epoch: 3,
  leaseMs: 120_000,
  deadlineMs: 370_000,
  nonce: "ab",
  secrets: { KEY: 'a "quoted" }value{' },
  registryAuth: null,
  logToken: "t",
  job: {
    name: "evd-x-1-3",
    ...facts,
    env: { EVD_RUN_ID: "run_1" },
    labels: { object: "x", run: "run_1", epoch: "3" },
  },
  programJson: JSON.stringify(program),
};

test("an attempt on the wire is what an executor in the control plane is started with", () => {
  expect(JSON.parse(attemptJson(ready))).toEqual(attemptOf(ready));
  expect(attemptOf(ready).job.program).toBe(program);
});
