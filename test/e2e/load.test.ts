import { afterAll, beforeAll, expect, test } from "vitest";
import { ControlPlane, until } from "../support/control-plane.ts";
import { ProtocolRunner } from "../support/protocol-runner.ts";

let plane: ControlPlane;
const running: ProtocolRunner[] = [];

beforeAll(async () => {
  plane = await ControlPlane.start();
});
afterAll(async () => {
  await Promise.all(running.map((runner) => runner.stop()));
  await plane.stop();
});

const HARNESS = { spec: { kind: "command" as const, command: "echo hi" } };

async function runners(
  count: number,
  options: { slots?: number; workMs?: number; uneven?: boolean; memoryMb?: number } = {},
): Promise<ProtocolRunner[]> {
  const made: ProtocolRunner[] = [];
  for (let i = 0; i < count; i++) {
    const { token } = await plane.client().call("pair_runner", { body: { label: `r${i}` } });
    made.push(new ProtocolRunner({ url: plane.url, token: token ?? "", ...options }));
  }
  running.push(...made);
  return made;
}

const submit = (workspace: string, id: string, resources?: { memoryMb: number }) =>
  plane.client(workspace).call("submit_run", {
    body: { harness: HARNESS, case: { id, task: "t", ...(resources ? { resources } : {}) }, runtime: "self" },
  });

async function statuses(workspace: string): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for await (const run of plane.client(workspace).all("list_runs"))
    counts.set(run.status, (counts.get(run.status) ?? 0) + 1);
  return counts;
}

test("fifty parked runners and five clients that submit two thousand runs: none is lost, nothing answers 5xx", async () => {
  const fleet = (await runners(50)).map((runner) => runner.start());
  await plane.client().call("create_workspace", { body: { id: "load", name: "Load" } });
  const clients = Array.from({ length: 5 }, async (_, client) => {
    for (let i = 0; i < 400; i++) await submit("load", `c${client}-${i}`);
  });
  await Promise.all(clients);
  await until("all runs have ended", 90_000, async () => (await statuses("load")).get("succeeded") === 2_000);
  expect(fleet.reduce((sum, runner) => sum + runner.finished.length, 0)).toBe(2_000);
  expect(fleet.reduce((sum, runner) => sum + runner.serverErrors, 0)).toBe(0);
  expect(plane.output).not.toContain('"status":5');
  await Promise.all(fleet.map((runner) => runner.stop()));
  const { lanes } = await plane.client("load").call("get_queue", {});
  expect(lanes.every(({ slots, drift }) => slots.inFlight === 0 && drift === 0)).toBe(true);
});

test("a workspace that comes late with 20 runs is served its share, never behind another's 2 000", async () => {
  await plane.client().call("create_workspace", { body: { id: "big", name: "Big" } });
  await plane.client().call("create_workspace", { body: { id: "small", name: "Small" } });
  for (let i = 0; i < 2_000; i += 50)
    await Promise.all(Array.from({ length: 50 }, (_, k) => submit("big", `b${i + k}`)));
  const [runner] = await runners(1, { slots: 8, workMs: 20 });
  runner?.start();
  await until("the first of the big workspace have run", 30_000, async () => (runner?.finished.length ?? 0) > 50);
  const before = runner?.finished.length ?? 0;
  const small = new Set(
    (await Promise.all(Array.from({ length: 20 }, (_, i) => submit("small", `s${i}`)))).map(({ id }) => id),
  );
  await until("the small workspace is through", 30_000, async () => (await statuses("small")).get("succeeded") === 20);
  await runner?.stop();
  const after = runner?.finished.slice(before) ?? [];
  const lastSmall = after.findLastIndex(({ runId }) => small.has(runId));
  // Equal weights: of the 40 places after it came, about half are the small one's; 8 were in flight already.
  expect(lastSmall).toBeLessThan(40 + 8 * 3 + 10);
  const left: string[] = [];
  for await (const run of plane.client("big").all("list_runs", { query: { status: "queued" } })) left.push(run.id);
  for (let i = 0; i < left.length; i += 100) {
    await Promise.all(left.slice(i, i + 100).map((id) => plane.client("big").call("cancel_run", { params: { id } })));
  }
});

test("a heavy run is admitted though small ones keep arriving", async () => {
  await plane.client().call("create_workspace", { body: { id: "heavy", name: "Heavy" } });
  const [runner] = await runners(1, { slots: 16, memoryMb: 8_000, workMs: 500, uneven: true });
  runner?.start();
  const finished = (): number => runner?.finished.length ?? 0;
  let open = true;
  // Always more small ones than the machine has room for, however fast it is.
  const stream = (async () => {
    for (let sent = 0; open; ) {
      if (sent - finished() < 24) await submit("heavy", `small-${sent++}`, { memoryMb: 1_000 });
      else await new Promise((resolve) => setTimeout(resolve, 10));
    }
  })();
  try {
    await until("the machine is busy", 20_000, async () => finished() > 8);
    const heavy = await submit("heavy", "heavy", { memoryMb: 8_000 });
    // Between two polls of the machine another reason may be seen for a moment.
    await until("it waits for memory", 20_000, async () => {
      const { waiting } = await plane.client("heavy").call("get_run", { params: { id: heavy.id } });
      return waiting?.reason === "memory" || waiting?.reason === "reservation";
    });
    // The stated bound: 60 s, the longest limit still running (750 ms of work here), one pump.
    await until(
      "the heavy run is through",
      75_000,
      async () => (await plane.client("heavy").call("get_run", { params: { id: heavy.id } })).status === "succeeded",
    );
  } finally {
    open = false;
    await stream;
    await runner?.stop();
  }
});
