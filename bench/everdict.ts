import type { HeartbeatAnswer, LeaseAnswer, ResultsAnswer } from "../contracts/runner-protocol.ts";
import { ControlPlane } from "../test/support/control-plane.ts";
import { OUTCOME, ProtocolRunner } from "../test/support/protocol-runner.ts";
import { BATCH, type Figures, JOBS, type Latency, latencyOf, SAMPLES, sleep, WORKERS } from "./measure.ts";

const HARNESS = { spec: { kind: "command" as const, command: "true" } };

/** A workspace, with runners of its own: what one measurement leaves parked must not take the jobs of the next. */
async function fleetOf(plane: ControlPlane, workspace: string, size: number, slots: number): Promise<ProtocolRunner[]> {
  await plane.client().call("create_workspace", { body: { id: workspace, name: workspace } });
  const client = plane.client(workspace);
  return Promise.all(
    Array.from({ length: size }, async () => {
      const { token } = await client.call("pair_workspace_runner", { body: { label: "bench" } });
      return new ProtocolRunner({ url: plane.url, token: token ?? "", slots });
    }),
  );
}

async function submit(plane: ControlPlane, workspace: string, count: number): Promise<void> {
  const client = plane.client(workspace);
  for (let i = 0; i < count; i += 50) {
    await Promise.all(
      Array.from({ length: Math.min(50, count - i) }, (_, k) =>
        client.call("submit_run", {
          body: { harness: HARNESS, case: { id: `c${i + k}`, task: "t" }, runtime: "self:ws" },
        }),
      ),
    );
  }
}

/**
 * Workers of the real protocol, each with `slots` jobs at a time: lease, accept, result; results bring the next jobs in the
 * same call.
 * @returns jobs leased and completed per second, and the JSON of one of them
 */
async function throughput(
  plane: ControlPlane,
  workspace: string,
  workers: number,
  slots: number,
): Promise<{ rate: number; job: string }> {
  const fleet = await fleetOf(plane, workspace, workers, slots);
  await submit(plane, workspace, JOBS);
  let done = 0;
  let job = "";
  const started = performance.now();
  await Promise.all(
    fleet.map(async (worker) => {
      const { instanceId } = worker;
      const lease = worker.request(0);
      let leased = (await worker.post<LeaseAnswer>("/runner/lease", lease))?.attempts ?? [];
      job ||= JSON.stringify(leased[0]?.job);
      while (leased.length > 0) {
        const held = leased.map(({ runId, epoch }) => ({ runId, epoch }));
        await worker.post<HeartbeatAnswer>("/runner/heartbeat", {
          instanceId,
          attempts: held.map((ref) => ({ ...ref, phase: "accepted" })),
        });
        const results = held.map((ref) => ({ ...ref, outcome: OUTCOME }));
        const answer = await worker.post<ResultsAnswer>("/runner/results", { instanceId, results, lease });
        done += answer?.accepted.filter(({ accepted }) => accepted).length ?? 0;
        leased = answer?.attempts ?? [];
      }
    }),
  );
  const rate = done / ((performance.now() - started) / 1_000);
  if (done !== JOBS) throw new Error(`${done} of ${JOBS} jobs were completed`);
  return { rate, job };
}

/** From the moment a run is sent until a parked poll holds it. */
async function wake(plane: ControlPlane, idle: number): Promise<Latency> {
  const workspace = `wake-${idle}`;
  const fleet = await fleetOf(plane, workspace, idle, 1);
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
  const client = plane.client(workspace);
  const samples: number[] = [];
  for (let i = 0; i < SAMPLES; i++) {
    const sent = performance.now();
    const { id } = await client.call("submit_run", {
      body: { harness: HARNESS, case: { id: `w${idle}-${i}`, task: "t" }, runtime: "self:ws" },
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

/** @returns the figures, and the JSON of the job that was leased: the peers are also measured with that */
export async function everdict(idle: readonly number[]): Promise<{ figures: Figures; job: string }> {
  const plane = await ControlPlane.start();
  try {
    const single = await throughput(plane, "single", WORKERS, 1);
    const { rate, job } = await throughput(plane, "batched", 1, BATCH);
    const latencies = new Map<number, Latency>();
    for (const count of idle) latencies.set(count, await wake(plane, count));
    const figures = {
      name: "everdict",
      durability: "answered after fsync of the object's and D1's SQLite",
      single: single.rate,
      batched: rate,
      sameWork: rate,
      wake: latencies,
    };
    return { figures, job };
  } finally {
    await plane.stop();
  }
}
