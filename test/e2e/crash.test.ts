import { rm } from "node:fs/promises";
import { afterEach, expect, test } from "vitest";
import { ControlPlane, type RunnerProcess, startRunner, until } from "../support/control-plane.ts";

const CASES = 200;
/** Kills of the server in one batch; `CRASH_KILLS=500` for the long run. */
const KILLS = Number(process.env.CRASH_KILLS ?? "6");

let plane: ControlPlane | null = null;
const runners: (RunnerProcess & { folder: string })[] = [];

afterEach(async () => {
  await Promise.all(runners.map((runner) => runner.stop()));
  for (const { folder } of runners) await rm(folder, { recursive: true, force: true });
  runners.length = 0;
  await plane?.stop();
  plane = null;
});

async function scorecard(on: ControlPlane, command: string, cases: number, concurrency: number): Promise<string> {
  const client = on.client();
  await client.call("create_harness", { body: { kind: "command", id: "crash", version: "1.0.0", command } });
  await client.call("create_dataset", {
    body: {
      id: "crash",
      version: "1.0.0",
      cases: Array.from({ length: cases }, (_, i) => ({
        id: `c${i}`,
        task: `say ${i}`,
        expected: `say ${i}`,
        graders: [{ kind: "contains" as const }],
      })),
    },
  });
  return (
    await client.call("run_scorecard", {
      body: { dataset: { id: "crash" }, harness: { id: "crash" }, runtime: "self", concurrency, retries: 2 },
    })
  ).id;
}

async function runsOf(on: ControlPlane, id: string) {
  const out = [];
  for await (const run of on.client().all("list_scorecard_runs", { params: { id } })) out.push(run);
  return out;
}

test(`SIGKILL of the server ${KILLS} times during ${CASES} cases: each gets exactly one accepted result`, {
  timeout: 120_000 + KILLS * 15_000,
}, async () => {
  plane = await ControlPlane.start();
  const on = plane;
  for (let i = 0; i < 4; i++) runners.push(await startRunner(on));
  const id = await scorecard(on, "sleep 0.3; echo {{task}}", CASES, 16);
  for (let kill = 0; kill < KILLS; kill++) {
    await new Promise((resolve) => setTimeout(resolve, 200 + Math.random() * 1_200));
    await on.kill();
    await on.up();
  }
  const card = await until("the scorecard has ended", 90_000, async () => {
    const now = await on.client().call("get_scorecard", { params: { id } });
    return now.finishedAt === null ? null : now;
  });
  expect(card).toMatchObject({
    status: "succeeded",
    progress: { total: CASES, queued: 0, running: 0, succeeded: CASES, failed: 0, cancelled: 0 },
  });
  const runs = await runsOf(on, id);
  expect(new Set(runs.map((run) => run.caseId)).size).toBe(CASES);
  for (const run of runs) {
    expect(run.result?.pass, run.id).toBe(true);
    expect(
      run.attempts.filter(({ state }) => state === "succeeded"),
      run.id,
    ).toHaveLength(1);
    expect(run.attempts.at(-1)?.epoch).toBe(run.epoch);
  }
  const { lanes } = await on.client().call("get_queue");
  expect(lanes.every(({ slots, queued, drift }) => slots.inFlight === 0 && queued === 0 && drift === 0)).toBe(true);
});

test("the server ends cleanly on SIGTERM and goes on where it was", async () => {
  plane = await ControlPlane.start();
  const on = plane;
  const { id } = await on.client().call("submit_run", {
    body: {
      harness: { spec: { kind: "command", command: "echo hi" } },
      case: { id: "c", task: "t" },
      runtime: "self",
    },
  });
  await on.kill();
  await on.up();
  runners.push(await startRunner(on));
  const run = await until("the run has ended", 30_000, async () => {
    const now = await on.client().call("get_run", { params: { id } });
    return now.finishedAt === null ? null : now;
  });
  expect(run.status).toBe("succeeded");
});
