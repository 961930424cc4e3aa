import { expect, test } from "vitest";
import { CASE, DATASET, dev, ECHO, NOMAD, POLL, workspace } from "./support.ts";

async function prepared() {
  const space = await workspace();
  const { api } = space;
  await api.call("POST", "/harnesses", ECHO);
  await api.call("POST", "/datasets", DATASET);
  return space;
}
const PAIR = { dataset: { id: "smoke" }, harness: { id: "echo" } };

test("the grid has a short row for each run, page after page, and only its own scorecard's", async () => {
  const { api } = await prepared();
  await api.call("POST", "/workspace/runners", { label: "box" });
  const { id } = (await api.call("POST", "/scorecards", { ...PAIR, runtime: "self:ws", trials: 2 })).body;
  const first = (await api.call("GET", `/scorecards/${id}/grid?limit=3`)).body;
  const rest = (await api.call("GET", `/scorecards/${id}/grid?limit=3&cursor=${encodeURIComponent(first.nextCursor)}`))
    .body;
  expect(rest.nextCursor).toBeNull();
  const rows = [...first.items, ...rest.items];
  expect(rows.map(({ caseId, trial }) => `${caseId}/${trial}`)).toEqual(["c1/1", "c2/1", "c1/2", "c2/2"]);
  expect(rows[0]).toEqual({
    runId: expect.stringMatching(/^run_/),
    caseId: "c1",
    trial: 1,
    status: "queued",
    score: null,
    pass: null,
    durationMs: null,
    attempts: 0,
    failure: null,
  });
  const other = await workspace();
  expect((await other.api.call("GET", `/scorecards/${id}/grid`)).status).toBe(404);
});

test("the history counts this workspace's runs minute by minute, those that have not ended too", async () => {
  const { api } = await prepared();
  await api.call("POST", "/workspace/runners", { label: "box" });
  const { id } = (await api.call("POST", "/scorecards", { ...PAIR, runtime: "self:ws", concurrency: 1 })).body;
  await expect.poll(async () => (await api.call("GET", "/queue")).body.entries.length).toBe(1);
  const { status, body } = await api.call("GET", "/queue/history?minutes=5");
  expect(status).toBe(200);
  expect(body).toMatchObject({ stepSec: 60, complete: true });
  expect(body.targets).toEqual([
    { target: "self:ws", waiting: [0, 0, 0, 0, 0, 2], inFlight: [0, 0, 0, 0, 0, 0], memoryMb: [0, 0, 0, 0, 0, 0] },
  ]);
  await api.call("POST", `/scorecards/${id}/cancel`);
  const other = await workspace("viewer", "read");
  expect((await other.api.call("GET", "/queue/history")).body.targets).toEqual([]);
  expect((await other.api.call("GET", "/queue/history?minutes=9999")).status).toBe(400);
});

test("the history counts the memory that running cases declared, of runs and of scorecards", async () => {
  const { api } = await workspace();
  await api.call("POST", "/harnesses", ECHO);
  const { token } = (await api.call("POST", "/workspace/runners", { label: "box" })).body;
  const big = { ...CASE, resources: { memoryMb: 512 } };
  await api.call("POST", "/datasets", { id: "big", version: "1.0.0", cases: [big, { ...CASE, id: "undeclared" }] });
  await api.call("POST", "/runs", { harness: { id: "echo" }, case: big, runtime: "self:ws" });
  await api.call("POST", "/scorecards", { dataset: { id: "big" }, harness: { id: "echo" }, runtime: "self:ws" });
  await expect.poll(async () => (await api.call("GET", "/queue")).body.entries.length).toBe(3);
  const bearer = { authorization: `Bearer ${token}` };
  const asked = { ...POLL, slots: { total: 3, free: 3 } };
  const leased = (await api.call("POST", "/runner/lease", asked, bearer)).body.attempts;
  const attempts = leased.map((attempt: { runId: string; epoch: number }) => ({
    runId: attempt.runId,
    epoch: attempt.epoch,
    phase: "running",
  }));
  expect(attempts).toHaveLength(3);
  await api.call("POST", "/runner/heartbeat", { instanceId: "i", attempts }, bearer);
  const { targets } = (await api.call("GET", "/queue/history?minutes=5")).body;
  expect(targets).toMatchObject([{ target: "self:ws" }]);
  expect(targets[0].inFlight.at(-1)).toBe(3);
  expect(targets[0].memoryMb.at(-1)).toBe(1_024);
});

test("a preview says what would run, what it needs and which targets have that", async () => {
  const { api } = await prepared();
  await api.call("POST", "/datasets", {
    id: "mixed",
    version: "1.0.0",
    cases: [CASE, { ...CASE, id: "big", resources: { gpu: 1, memoryMb: 90_000 }, placement: { target: "gpu" } }],
  });
  await api.call("POST", "/runtimes", { ...NOMAD, authSecret: undefined });
  await api.call("POST", "/runtimes", { ...NOMAD, id: "accelerated", authSecret: undefined, gpu: 1 });
  await api.call("POST", "/workspace/runners", { label: "box" });
  const { status, body } = await api.call("POST", "/scorecards/preview", {
    dataset: { id: "mixed" },
    harness: { id: "echo" },
    trials: 3,
  });
  expect(status).toBe(200);
  expect(body).toMatchObject({ cases: 2, runs: 6, needs: ["gpu"], problems: [], default: null, placed: ["gpu"] });
  const byTarget = Object.fromEntries(body.targets.map((choice: { target: string }) => [choice.target, choice]));
  expect(byTarget.gpu).toMatchObject({ ok: false, missing: ["gpu"], reason: "needs gpu", group: "runtime" });
  // It has GPUs, and could never hold the larger case.
  expect(byTarget.accelerated).toMatchObject({ ok: false, missing: [], slots: { total: 20, inFlight: 0 }, queued: 0 });
  expect(byTarget.accelerated.reason).toContain("90000 MB");
  expect(byTarget["self:ws"]).toMatchObject({ ok: false, online: false, reason: "no machine has ever connected" });

  const one = await api.call("POST", "/scorecards/preview", {
    dataset: { id: "mixed" },
    harness: { id: "echo" },
    cases: { ids: ["c1"] },
  });
  expect(one.body).toMatchObject({ cases: 1, runs: 1, needs: [] });
  expect(one.body.targets.find((choice: { target: string }) => choice.target === "gpu")).toMatchObject({
    ok: true,
    reason: null,
  });
});

test("a preview tells what would be refused wherever it runs, and refuses what it cannot read", async () => {
  const { api } = await prepared();
  await api.call("POST", "/harnesses", { ...ECHO, id: "keyed", env: { KEY: { secretRef: "ABSENT" } } });
  const told = await api.call("POST", "/scorecards/preview", {
    dataset: { id: "smoke" },
    harness: { id: "keyed" },
    trials: 100,
  });
  expect(told.status).toBe(200);
  expect(told.body.problems.map(({ path }: { path: string }) => path)).toEqual(["harness.env.KEY"]);
  expect((await api.call("POST", "/scorecards/preview", { ...PAIR, dataset: { id: "none" } })).status).toBe(404);
  expect((await api.call("POST", "/scorecards/preview", { ...PAIR, cases: { ids: ["nope"] } })).status).toBe(400);
  const viewer = await workspace("viewer", "read");
  expect((await viewer.api.call("POST", "/scorecards/preview", PAIR)).status).toBe(403);
  expect((await dev.call("POST", "/scorecards/preview", { ...PAIR, runtime: "gpu" })).status).toBe(400);
});
