import type { HeartbeatAnswer, LeaseAnswer, ResultsAnswer } from "../contracts/runner-protocol.ts";
import { ControlPlane } from "../test/support/control-plane.ts";
import { OUTCOME, ProtocolRunner } from "../test/support/protocol-runner.ts";
import { BATCH, type Figures, JOBS, type Latency, latencyOf, SAMPLES, sleep, WORKERS } from "./measure.ts";

const HARNESS = { spec: { kind: "command" as const, command: "true" } };

async function runner(plane: ControlPlane, slots: number): Promise<ProtocolRunner> {
  const { token } = await plane.client().call("pair_runner", { body: { label: "bench" } });
  return new ProtocolRunner({ url: plane.url, token: token ?? "", slots });
}

async function submit(plane: ControlPlane, workspace: string, count: number): Promise<void> {
  const client = plane.client(workspace);
  for (let i = 0; i < count; i += 50) {
    await Promise.all(
      Array.from({ length: Math.min(50, count - i) }, (_, k) =>
        client.call("submit_run", {
          body: { harness: HARNESS, case: { id: `c${i + k}`, task: "t" }, runtime: "self" },
        }),
      ),
    );
  }
}

/** One worker of the real protocol: lease, accept, result; each one job at a time. */
async function single(plane: ControlPlane): Promise<number> {
  await plane.client().call("create_workspace", { body: { id: "single", name: "single" } });
  await submit(plane, "single", JOBS);
  const fleet = await Promise.all(Array.from({ length: WORKERS }, () => runner(plane, 1)));
  const started = performance.now();
  for (const item of fleet) item.start();
  while (fleet.reduce((sum, item) => sum + item.finished.length, 0) < JOBS) await sleep(5);
  const seconds = (performance.now() - started) / 1_000;
  await Promise.all(fleet.map((item) => item.stop()));
  return JOBS / seconds;
}

/** One runner with many slots: results go in lists and bring the next jobs in the same call. */
async function batched(plane: ControlPlane): Promise<number> {
  await plane.client().call("create_workspace", { body: { id: "batched", name: "batched" } });
  await submit(plane, "batched", JOBS);
  const worker = await runner(plane, BATCH);
  const request = worker.request(1_000);
  const { instanceId } = worker;
  let done = 0;
  const started = performance.now();
  let leased = (await worker.post<LeaseAnswer>("/runner/lease", request))?.attempts ?? [];
  while (done < JOBS) {
    const held = leased.map(({ runId, epoch }) => ({ runId, epoch }));
    await worker.post<HeartbeatAnswer>("/runner/heartbeat", {
      instanceId,
      attempts: held.map((ref) => ({ ...ref, phase: "accepted" })),
    });
    const answer = await worker.post<ResultsAnswer>("/runner/results", {
      instanceId,
      results: held.map((ref) => ({ ...ref, outcome: OUTCOME })),
      lease: request,
    });
    done += answer?.accepted.filter(({ accepted }) => accepted).length ?? 0;
    leased = answer?.attempts ?? [];
    if (leased.length === 0 && done < JOBS)
      leased = (await worker.post<LeaseAnswer>("/runner/lease", request))?.attempts ?? [];
  }
  return JOBS / ((performance.now() - started) / 1_000);
}

/** From the moment a run is sent until a parked poll holds it. */
async function wake(plane: ControlPlane, idle: number): Promise<Latency> {
  const fleet = await Promise.all(Array.from({ length: idle }, () => runner(plane, 1)));
  const arrivals = new Map<string, (at: number) => void>();
  const early = new Map<string, number>();
  let open = true;
  const polls = fleet.map(async (worker) => {
    while (open) {
      const answer = await worker.post<LeaseAnswer>("/runner/lease", worker.request(20_000)).catch(() => null);
      for (const { runId, epoch } of answer?.attempts ?? []) {
        const at = performance.now();
        const arrived = arrivals.get(runId);
        if (arrived) arrived(at);
        else early.set(runId, at);
        // The last one may be cut off by the end of the measurement.
        await worker
          .post("/runner/results", { instanceId: worker.instanceId, results: [{ runId, epoch, outcome: OUTCOME }] })
          .catch(() => null);
      }
    }
  });
  await sleep(1_000);
  const client = plane.client();
  const samples: number[] = [];
  for (let i = 0; i < SAMPLES; i++) {
    const sent = performance.now();
    const { id } = await client.call("submit_run", {
      body: { harness: HARNESS, case: { id: `w${idle}-${i}`, task: "t" }, runtime: "self" },
    });
    const known = early.get(id);
    const at = known ?? (await new Promise<number>((resolve) => arrivals.set(id, resolve)));
    samples.push(at - sent);
    await sleep(10);
  }
  open = false;
  await Promise.all(fleet.map((worker) => worker.stop()));
  await Promise.all(polls);
  return latencyOf(samples);
}

export async function everdict(idle: readonly number[]): Promise<Figures> {
  const plane = await ControlPlane.start();
  try {
    const figures = {
      name: "everdict",
      durability: "answered after fsync of the object's and D1's SQLite",
      single: await single(plane),
      batched: await batched(plane),
    };
    const latencies = new Map<number, Latency>();
    for (const count of idle) latencies.set(count, await wake(plane, count));
    return { ...figures, wake: latencies };
  } finally {
    await plane.stop();
  }
}
