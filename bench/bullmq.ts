import { Queue, Worker } from "bullmq";
import { OUTCOME } from "../test/support/protocol-runner.ts";
import { BATCH, type Figures, JOBS, type Latency, latencyOf, SAMPLES, sleep, WORKERS } from "./measure.ts";
import { startRedis } from "./services.ts";

type Connection = { host: string; port: number; maxRetriesPerRequest: null };

/** Jobs completed per second by `workers` workers of `concurrency` each. BullMQ itself has no batches; concurrency is its nearest. */
async function throughput(
  connection: Connection,
  name: string,
  workers: number,
  concurrency: number,
  job: object = {},
  result: object | null = null,
): Promise<number> {
  const queue = new Queue(name, { connection });
  for (let i = 0; i < JOBS; i += 500)
    await queue.addBulk(Array.from({ length: 500 }, (_, k) => ({ name: "j", data: { i: i + k, ...job } })));
  let done = 0;
  const started = performance.now();
  const fleet = Array.from(
    { length: workers },
    () =>
      new Worker(
        name,
        async () => {
          done++;
          return result;
        },
        { connection, concurrency },
      ),
  );
  for (const worker of fleet) worker.on("error", () => undefined);
  while (done < JOBS) await sleep(5);
  const rate = JOBS / ((performance.now() - started) / 1_000);
  await Promise.all(fleet.map((worker) => worker.close(true)));
  await queue.close();
  return rate;
}

async function wake(connection: Connection, idle: number): Promise<Latency> {
  const name = `wake-${idle}`;
  const queue = new Queue(name, { connection });
  let arrived: (at: number) => void = () => undefined;
  const fleet = Array.from(
    { length: idle },
    () => new Worker(name, async () => arrived(performance.now()), { connection }),
  );
  for (const worker of fleet) worker.on("error", () => undefined);
  await Promise.all(fleet.map((worker) => worker.waitUntilReady()));
  await sleep(1_000);
  const samples: number[] = [];
  for (let i = 0; i < SAMPLES; i++) {
    const sent = performance.now();
    const at = new Promise<number>((resolve) => {
      arrived = resolve;
    });
    await queue.add("j", { i });
    samples.push((await at) - sent);
    await sleep(10);
  }
  await Promise.all(fleet.map((worker) => worker.close(true)));
  await queue.close();
  return latencyOf(samples);
}

export async function bullmq(idle: readonly number[], job: string): Promise<Figures> {
  const redis = await startRedis("always");
  const connection: Connection = { host: "127.0.0.1", port: redis.port, maxRetriesPerRequest: null };
  try {
    const single = await throughput(connection, "single", WORKERS, 1);
    const batched = await throughput(connection, "batched", 1, BATCH);
    const sameWork = await throughput(connection, "same-work", 1, BATCH, JSON.parse(job), OUTCOME);
    const latencies = new Map<number, Latency>();
    for (const count of idle) latencies.set(count, await wake(connection, count));
    return {
      name: "BullMQ",
      durability: "Redis append-only file, appendfsync always",
      single,
      batched,
      sameWork,
      wake: latencies,
    };
  } finally {
    await redis.stop();
  }
}
