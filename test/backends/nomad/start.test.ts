import { describe, expect, test } from "vitest";
import { LEAST_RIGHTS } from "../../support/fake-nomad/fake-nomad.ts";
import { attemptOf } from "../attempts.ts";
import { Lab, OWNER, SECRET } from "./lab.ts";

const answer = (status: number, body: string, headers: Record<string, string> = {}) =>
  ({ kind: "answer", answer: { status, body, headers } }) as const;

describe("start on Nomad", () => {
  test("N 6, N 7: a register whose answer was lost is adopted after the 500 'job already exists'", async () => {
    const lab = new Lab();
    const attempt = attemptOf(OWNER);
    lab.nomad.faults.plan(/^POST \/v1\/jobs\?/, { kind: "lost-answer" });
    expect(await lab.backend.start(attempt)).toMatchObject({ kind: "unknown", error: { code: "UPSTREAM_ERROR" } });
    expect(await lab.backend.start(attempt)).toEqual({
      kind: "started",
      externalId: attempt.job.name,
      node: null,
      adopted: true,
    });
    expect(lab.nomad.cluster.executions.get(attempt.job.name)).toBe(1);
  });

  test("N 8: an ended or stopped job is adopted and never runs again", async () => {
    const lab = new Lab();
    const ended = await lab.started();
    lab.end(ended);
    const stopped = await lab.started();
    await lab.backend.stop([stopped.job.name]);
    for (const attempt of [ended, stopped]) {
      expect(await lab.backend.start(attempt)).toMatchObject({ kind: "started", adopted: true });
      expect(lab.nomad.cluster.executions.get(attempt.job.name)).toBe(1);
    }
  });

  test("every register enforces the index 0: nothing else is ever sent", async () => {
    const lab = new Lab();
    const bodies: unknown[] = [];
    const handle = lab.nomad.handle.bind(lab.nomad);
    lab.nomad.handle = (method, path, secret, body) => {
      if (method === "POST" && path.startsWith("/v1/jobs?")) bodies.push(JSON.parse(body ?? ""));
      return handle(method, path, secret, body);
    };
    const attempt = await lab.started();
    await lab.backend.start(attempt);
    expect(bodies).toHaveLength(2);
    for (const body of bodies) expect(body).toMatchObject({ EnforceIndex: true, JobModifyIndex: 0 });
  });

  test("a job of that name that is not this attempt's is a conflict and stays as it is", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    const other = lab.backendWith(SECRET, { deployment: "staging", object: OWNER.object });
    expect(await other.start(attempt)).toMatchObject({ kind: "failed", failure: { code: "NAME_CONFLICT" } });
    expect(lab.nomad.cluster.jobs.get(attempt.job.name)?.version).toBe(0);
  });

  test("a hundred starts with trouble at random points make one job each, and lose none", async () => {
    const lab = new Lab();
    for (const node of lab.nomad.cluster.nodes.values())
      Object.assign(node, { cpuMhz: 1e9, memoryMb: 1e9, diskMb: 1e9 });
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed % below;
    };
    for (let turn = 0; turn < 100; turn++) {
      const attempt = attemptOf(OWNER, turn % 2 === 0 ? {} : { secrets: { KEY: "value" } });
      const kinds = ["drop", "lost-answer"] as const;
      const targets = [/^POST \/v1\/jobs\?/, /^PUT \/v1\/var/, /^GET \/v1\/job\//];
      for (let fault = 0; fault < 3; fault++) {
        const match = targets[random(targets.length)];
        if (match) lab.nomad.faults.plan(match, { kind: kinds[random(2)] ?? "drop" });
      }
      let result = await lab.backend.start(attempt);
      for (let again = 0; result.kind === "unknown" && again < 10; again++) result = await lab.backend.start(attempt);
      lab.nomad.faults.clear();
      expect(result.kind).toBe("started");
      expect(lab.nomad.cluster.of(attempt.job.name)).toHaveLength(1);
      expect(lab.nomad.cluster.executions.get(attempt.job.name)).toBe(1);
    }
  });

  test("N 43: the variable is there before the job, so a job with secrets starts at once", async () => {
    const lab = new Lab();
    const requests = await lab.requestsOf(() => lab.started({ secrets: { KEY: "v" } }));
    expect(requests.map((line) => line.split("?")[0]?.replace(/evd-\S+/, "<job>"))).toEqual([
      "PUT /v1/var/nomad/jobs/<job>",
      "POST /v1/jobs",
    ]);
  });

  test("N 25: without the right to write variables a job with secrets is refused by name, one without them starts", async () => {
    const lab = new Lab({ rights: LEAST_RIGHTS.filter((right) => !right.startsWith("variables")) });
    const refused = await lab.backend.start(attemptOf(OWNER, { secrets: { KEY: "v" } }));
    expect(refused).toMatchObject({ kind: "failed", failure: { code: "VARIABLES_DENIED", class: "config" } });
    expect(refused.kind === "failed" && refused.failure.message).toContain('path "nomad/jobs/*"');
    expect(lab.nomad.cluster.jobs.size).toBe(0);
    await lab.started();
  });

  test("N 15: one 403 right after a server start is not final", async () => {
    const lab = new Lab();
    lab.nomad.faults.plan(/^POST \/v1\/jobs\?/, answer(403, "Permission denied"));
    await lab.started();
  });

  test("a token that is refused twice ends no attempt: the lane shows the missing right", async () => {
    const lab = new Lab({ rights: ["read-job"] });
    const result = await lab.backend.start(attemptOf(OWNER));
    expect(result).toMatchObject({ kind: "unknown", error: { code: "UPSTREAM_MISCONFIGURED" } });
    expect(result.kind === "unknown" && result.error.message).toContain("submit-job");
  });

  test("N 6: a job that Nomad finds invalid ends its attempt, with Nomad's words", async () => {
    const lab = new Lab();
    const words = "1 error occurred:\n\t* Task group main validation failed: 1 error occurred:\n\t* bad constraint\n\n";
    lab.nomad.faults.plan(/^POST \/v1\/jobs\?/, answer(500, words));
    const result = await lab.backend.start(attemptOf(OWNER));
    expect(result).toMatchObject({
      kind: "failed",
      failure: { code: "JOB_REFUSED", class: "config", stage: "dispatch" },
    });
    expect(result.kind === "failed" && result.failure.message).toContain("bad constraint");
  });

  test("N 23: a namespace that is not there is the runtime's fault, and named", async () => {
    const lab = new Lab({ spec: { namespace: "nowhere" } });
    const result = await lab.backend.start(attemptOf(OWNER));
    expect(result).toMatchObject({ kind: "unknown", error: { code: "UPSTREAM_MISCONFIGURED" } });
    expect(result.kind === "unknown" && result.error.message).toContain("'nowhere' does not exist");
  });

  test.each([
    [answer(429, "too many", { "retry-after": "17" }), "RATE_LIMITED", 17],
    [answer(500, "No cluster leader"), "UPSTREAM_ERROR", null],
    [answer(503, "upstream connect error <html>secret</html>"), "UPSTREAM_ERROR", null],
    [{ kind: "drop" }, "UPSTREAM_ERROR", null],
  ] as const)("trouble of the server leaves the attempt unknown: %j", async (fault, code, retryAfterSec) => {
    const lab = new Lab();
    lab.nomad.faults.plan(/^POST/, fault);
    const result = await lab.backend.start(attemptOf(OWNER));
    expect(result).toMatchObject({ kind: "unknown", error: { code, retryAfterSec } });
    expect(JSON.stringify(result)).not.toContain("secret");
  });

  test("start never rejects, even when it is the backend's own fault", async () => {
    const lab = new Lab();
    lab.nomad.handle = () => Promise.reject(new RangeError("boom"));
    expect(await lab.backend.start(attemptOf(OWNER))).toMatchObject({ kind: "unknown" });
  });
});
