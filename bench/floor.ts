import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { ROOT } from "../scripts/environment.ts";
import { OUTCOME } from "../test/support/protocol-runner.ts";
import { BATCH, JOBS, type Latency, latencyOf, SAMPLES, sleep } from "./measure.ts";

const HOST = "127.0.0.1";

/** What the runtime alone leaves possible on this machine. */
export interface Floor {
  /** Jobs per second when their bodies are read and written, and nothing is stored. */
  batched: number;
  /** One row in D1, one in an object, and a parked poll that is answered. */
  wake: Latency;
}

/**
 * The runtime with the traffic of the lease protocol and none of its work: the same bodies, the same number of calls.
 * @param job JSON of a job as it is leased
 */
export async function floor(job: string): Promise<Floor> {
  const folder = await mkdtemp(join(tmpdir(), "everdict-floor-"));
  const path = join(folder, "worker.mjs");
  await build({
    entryPoints: [join(ROOT, "bench/floor-worker.ts")],
    outfile: path,
    bundle: true,
    format: "esm",
    external: ["cloudflare:*"],
    logLevel: "error",
  });
  const refs = Array.from({ length: BATCH }, (_, i) => ({ runId: `run_${String(i).padStart(26, "0")}`, epoch: 1 }));
  const attempts = refs.map((ref) => ({ ...ref, job: JSON.parse(job) }));
  const port = 61_000 + Math.floor(Math.random() * 4_000);
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: HOST,
      port: 0,
      cf: false,
      resourcePersistencePath: join(folder, "state"),
      workers: [
        {
          name: "floor",
          modulesRoot: folder,
          modules: [{ type: "ESModule", path }],
          compatibilityDate: "2026-11-01",
          d1Databases: { DB: "floor" },
          durableObjects: { PLACE: { className: "Place", useSQLite: true } },
          bindings: { ANSWER: JSON.stringify({ attempts }) },
          unsafeDirectSockets: [{ host: HOST, port }],
        },
      ],
    }),
  );
  try {
    await miniflare.ready;
    const post = async (to: string, body: unknown): Promise<string> =>
      (await fetch(`http://${HOST}:${port}${to}`, { method: "POST", body: JSON.stringify(body) })).text();
    await post("/schema", {});
    return { batched: await batched(post, refs), wake: await wake(post) };
  } finally {
    await miniflare.dispose();
    await rm(folder, { recursive: true, force: true });
  }
}

type Post = (to: string, body: unknown) => Promise<string>;

async function batched(post: Post, refs: readonly { runId: string; epoch: number }[]): Promise<number> {
  const results = refs.map((ref) => ({ ...ref, outcome: OUTCOME }));
  const round = async () => {
    JSON.parse(await post("/heartbeat", { attempts: refs.map((ref) => ({ ...ref, phase: "accepted" })) }));
    JSON.parse(await post("/results", { results }));
  };
  for (let warm = 0; warm < 10; warm++) await round();
  const rounds = JOBS / BATCH;
  const started = performance.now();
  for (let n = 0; n < rounds; n++) await round();
  return JOBS / ((performance.now() - started) / 1_000);
}

async function wake(post: Post): Promise<Latency> {
  const samples: number[] = [];
  for (let i = 0; i < SAMPLES; i++) {
    const poll = post("/poll", {});
    await sleep(10);
    const sent = performance.now();
    const submitted = post("/submit", { id: `w${i}` });
    await poll;
    samples.push(performance.now() - sent);
    await submitted;
  }
  return latencyOf(samples);
}
