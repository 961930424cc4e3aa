import { describe, expect, test } from "vitest";
import type { BackendAttempt } from "../../../worker/backends/backend.ts";
import { attemptOf } from "../attempts.ts";
import { Lab, OWNER, SECRET, unitOf } from "./lab.ts";

const answer = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  ({ kind: "answer", answer: { status, body, headers } }) as const;

describe("one pass over a Nomad cluster", () => {
  test("N 18, N 38: it is the same two calls for one running job and for fifty, by ids and never by pages", async () => {
    const lab = new Lab();
    for (const node of lab.nomad.cluster.nodes.values())
      Object.assign(node, { cpuMhz: 1e9, memoryMb: 1e9, diskMb: 1e9 });
    const attempts: BackendAttempt[] = [];
    for (let n = 0; n < 50; n++) attempts.push(await lab.started());
    const pass = (count: number) =>
      lab.requestsOf(async () => {
        const units = attempts.slice(0, count).map((attempt) => unitOf(attempt));
        const sighting = await lab.backend.observe(units, { waitMs: 0 });
        expect(sighting.ok && sighting.units.every(({ state }) => state === "running")).toBe(true);
        expect(sighting.ok && sighting.listed).toHaveLength(50);
      });
    const lines = await pass(50);
    expect(lines).toHaveLength(2);
    // Pages of jobs/statuses can go round for ever: jobs are named, in the body of a POST.
    const statuses = lines.find((line) => line.includes("/jobs/statuses"));
    expect(statuses).toMatch(/^POST /);
    expect(statuses).not.toMatch(/per_page|next_token/);
    expect((await pass(1)).length).toBe(2);
  });

  test("N 38: a server without jobs/statuses is read by its filtered allocations, with the same news", async () => {
    const lab = new Lab({ version: "1.6.10" });
    const running = await lab.started();
    const ended = await lab.started();
    lab.end(ended);
    const waiting = await lab.started({ job: { resources: { cpu: null, memoryMb: 900_000, gpu: null } } });
    const units = [running, ended, waiting, attemptOf(OWNER)].map((attempt) => unitOf(attempt));
    const requests = await lab.requestsOf(async () => {
      const sighting = await lab.backend.observe(units, { waitMs: 0 });
      expect(sighting.ok && sighting.units.map(({ state }) => state)).toEqual([
        "running",
        "finished",
        "pending",
        "absent",
      ]);
    });
    const list = requests.find((line) => line.includes("/v1/allocations?"));
    // N 35: `prefix` of this list would mean allocation ids.
    expect(decodeURIComponent(list ?? "")).toContain(`JobID+matches+"^evd-${OWNER.object}-"`);
    expect(list).not.toContain("&prefix=");
  });

  test("an empty or partial listing ends nothing: what it lacks is asked for singly", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.nomad.faults.plan(/jobs\/statuses/, answer(200, []));
    expect((await lab.look(attempt)).state).toBe("running");
  });

  test("absent is only said when the server itself knows no such job", async () => {
    const lab = new Lab();
    const attempt = attemptOf(OWNER);
    const requests = await lab.requestsOf(async () => expect((await lab.look(attempt)).state).toBe("absent"));
    expect(requests.filter((line) => line.startsWith(`GET /v1/job/${attempt.job.name}`)).length).toBe(2);
  });

  test.each([
    ["5xx", answer(500, "rpc error")],
    ["no leader", answer(500, "No cluster leader")],
    ["429", answer(429, "slow down", { "retry-after": "9" })],
    ["403", answer(403, "Permission denied")],
    ["not JSON", answer(200, "<html>")],
    ["another shape", answer(200, { surprise: true })],
    ["refused", { kind: "drop" } as const],
    ["endless", { kind: "endless" } as const],
  ])("a listing that failed says nothing about any unit: %s", async (_name, fault) => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.nomad.faults.plan(/jobs\/statuses/, fault, 2);
    const sighting = await lab.backend.observe([unitOf(attempt)], { waitMs: 0 });
    expect(sighting).toMatchObject({ ok: false });
    lab.nomad.faults.clear();
    expect((await lab.look(attempt)).state).toBe("running");
    expect(lab.nomad.cluster.executions.get(attempt.job.name)).toBe(1);
  });

  test("ten minutes of 5xx neither end nor restart anything", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.nomad.faults.plan(/./, answer(503, "unavailable"), Number.POSITIVE_INFINITY);
    for (let minute = 0; minute < 10; minute++) {
      expect((await lab.backend.observe([unitOf(attempt)], { waitMs: 0 })).ok).toBe(false);
      lab.clock.advance(60_000);
    }
    lab.nomad.faults.clear();
    expect((await lab.look(attempt)).state).toBe("running");
  });

  test("one node that cannot be read hides no other unit", async () => {
    const lab = new Lab();
    const broken = await lab.started();
    const fine = await lab.started();
    lab.end(broken);
    lab.end(fine);
    lab.nomad.faults.plan(new RegExp(`fs/stat/${lab.allocation(broken).id}`), answer(500, "rpc error: EOF"), 9);
    const sighting = await lab.backend.observe([unitOf(broken), unitOf(fine)], { waitMs: 0 });
    expect(sighting.ok && sighting.units.map(({ state }) => state)).toEqual(["running", "finished"]);
  });

  test("N 24: a token that may not read files is the lane's fault, and the right is named", async () => {
    const lab = new Lab({ rights: ["list-jobs", "read-job", "submit-job"] });
    const attempt = await lab.started();
    lab.end(attempt);
    const sighting = await lab.backend.observe([unitOf(attempt)], { waitMs: 0 });
    expect(sighting).toMatchObject({ ok: false, error: { code: "UPSTREAM_MISCONFIGURED" } });
    expect(!sighting.ok && sighting.error.message).toContain("read-fs");
  });

  test("listed holds live jobs of this deployment and object only", async () => {
    const lab = new Lab();
    const mine = await lab.started();
    const over = await lab.started();
    lab.end(over);
    const foreign = attemptOf(OWNER);
    await lab.backendWith(SECRET, { deployment: "staging", object: OWNER.object }).start(foreign);
    const sighting = await lab.backend.observe([], { waitMs: 0 });
    expect(sighting).toEqual({ ok: true, units: [], listed: [mine.job.name] });
  });

  test("more ends than one pass reads are the news of the next one", async () => {
    const lab = new Lab();
    for (const node of lab.nomad.cluster.nodes.values())
      Object.assign(node, { cpuMhz: 1e9, memoryMb: 1e9, diskMb: 1e9, gcMaxAllocs: 1_000 });
    const attempts: BackendAttempt[] = [];
    for (let n = 0; n < 130; n++) attempts.push(await lab.started());
    for (const attempt of attempts) lab.end(attempt);
    const open = new Set(attempts);
    for (const expected of [100, 30]) {
      const sighting = await lab.backend.observe(
        [...open].map((attempt) => unitOf(attempt)),
        { waitMs: 0 },
      );
      const names = sighting.ok
        ? sighting.units.filter(({ state }) => state === "finished").map(({ name }) => name)
        : [];
      expect(names).toHaveLength(expected);
      for (const attempt of attempts) if (names.includes(attempt.job.name)) open.delete(attempt);
    }
  });
});

describe("waiting for news", () => {
  /** Past the time in which the start of a job is still told at once. */
  const settled = async (lab: Lab) => {
    const attempt = await lab.started();
    lab.clock.advance(60_000);
    return attempt;
  };

  test("N 36: with ids the server wakes for these jobs only, and an end is told at once", async () => {
    const lab = new Lab();
    const attempt = await settled(lab);
    const began = lab.clock.now();
    lab.clock.whileWaiting = () => lab.end(attempt);
    const sighting = await lab.backend.observe([unitOf(attempt)], { waitMs: 20_000 });
    expect(sighting.ok && sighting.units[0]?.state).toBe("finished");
    expect(lab.clock.now() - began).toBe(0);
  });

  test("N 37: a quiet cluster is asked once, with a wait inside the server from that end point's own index", async () => {
    const lab = new Lab();
    const attempt = await settled(lab);
    const requests = await lab.requestsOf(() => lab.backend.observe([unitOf(attempt)], { waitMs: 20_000 }));
    const lists = requests.filter((line) => line.includes("jobs/statuses"));
    expect(lists).toHaveLength(2);
    expect(lists[1]).toContain("wait=20000ms");
    expect(lists[1]).toContain(`index=${lab.nomad.cluster.index}`);
  });

  test("N 36: an old server wakes for every job of the region; it is asked at most once a second", async () => {
    const lab = new Lab({ version: "1.6.10" });
    const attempt = await settled(lab);
    const wake = (): void => {
      lab.nomad.cluster.bump();
      lab.clock.whileWaiting = wake;
    };
    lab.clock.whileWaiting = wake;
    const requests = await lab.requestsOf(() => lab.backend.observe([unitOf(attempt)], { waitMs: 5_000 }));
    expect(requests.filter((line) => line.includes("/v1/allocations")).length).toBeLessThanOrEqual(7);
  });

  test("the start of a new job is told within a second, whatever the wait", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    const began = lab.clock.now();
    await lab.backend.observe([unitOf(attempt)], { waitMs: 20_000 });
    expect(lab.clock.now() - began).toBe(1_000);
  });
});
