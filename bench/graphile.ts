import { Logger, makeWorkerUtils, type Runner, type RunnerOptions, run } from "graphile-worker";
import { OUTCOME } from "../test/support/protocol-runner.ts";
import { BATCH, type Figures, JOBS, type Latency, latencyOf, SAMPLES, sleep, WORKERS } from "./measure.ts";
import { startPostgres } from "./services.ts";

const logger = new Logger(() => () => undefined);

async function throughput(
  url: string,
  preset: RunnerOptions["preset"],
  concurrentJobs: number,
  job: string | null = null,
): Promise<number> {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  await utils.withPgClient(async (client) => {
    await client.query("create table if not exists results (job bigint primary key, outcome json not null)");
    await client.query(
      "select graphile_worker.add_job('j', coalesce($2::json, json_build_object('i', s.i))) from generate_series(1, $1::int) as s(i)",
      [JOBS, job],
    );
  });
  let done = 0;
  const started = performance.now();
  const runner = await run({
    connectionString: url,
    logger,
    noHandleSignals: true,
    pollInterval: 1_000,
    taskList: {
      j: async (_, helpers) => {
        // It keeps no results by itself; whoever needs them writes them.
        if (job !== null)
          await helpers.query("insert into results values ($1, $2)", [helpers.job.id, JSON.stringify(OUTCOME)]);
        done++;
      },
    },
    preset: { ...preset, worker: { ...preset?.worker, concurrentJobs } },
  });
  while (done < JOBS) await sleep(5);
  const rate = JOBS / ((performance.now() - started) / 1_000);
  await runner.stop();
  await utils.release();
  return rate;
}

async function wake(url: string, idle: number): Promise<Latency> {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  let arrived: (at: number) => void = () => undefined;
  // One runner listens for all its workers: more processes would only add listeners.
  const runner: Runner = await run({
    connectionString: url,
    logger,
    noHandleSignals: true,
    pollInterval: 60_000,
    taskList: { w: async () => arrived(performance.now()) },
    preset: { worker: { concurrentJobs: idle, maxPoolSize: 10 } },
  });
  await sleep(1_000);
  const samples: number[] = [];
  for (let i = 0; i < SAMPLES; i++) {
    const sent = performance.now();
    const at = new Promise<number>((resolve) => {
      arrived = resolve;
    });
    await utils.addJob("w", { i });
    samples.push((await at) - sent);
    await sleep(10);
  }
  await runner.stop();
  await utils.release();
  return latencyOf(samples);
}

export async function graphile(idle: readonly number[], job: string): Promise<Figures> {
  const postgres = await startPostgres();
  const url = `postgres://bench@127.0.0.1:${postgres.port}/postgres`;
  try {
    const single = await throughput(url, { worker: {} }, WORKERS);
    const batching = {
      worker: { localQueue: { size: BATCH }, completeJobBatchDelay: 0, failJobBatchDelay: 0, maxPoolSize: 10 },
    };
    const batched = await throughput(url, batching, BATCH);
    const sameWork = await throughput(url, batching, BATCH, job);
    const latencies = new Map<number, Latency>();
    for (const count of idle) latencies.set(count, await wake(url, count));
    return {
      name: "graphile-worker",
      durability: "PostgreSQL, fsync and synchronous_commit on",
      single,
      batched,
      sameWork,
      wake: latencies,
    };
  } finally {
    // Its pools close their last connections a moment after they say they have.
    await sleep(500);
    await postgres.stop();
  }
}
