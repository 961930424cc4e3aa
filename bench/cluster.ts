import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureBuilt } from "../scripts/build.ts";
import { attemptOf, randomOwner, watched } from "../test/backends/attempts.ts";
import { fakeKubernetesTarget } from "../test/backends/fake-kubernetes-target.ts";
import { Lab } from "../test/backends/nomad/lab.ts";
import { clusterAddress, kubectl } from "../test/clusters/kubectl.ts";
import { kubernetesTarget } from "../test/clusters/kubernetes-target.ts";
import { ControlPlane, until } from "../test/support/control-plane.ts";
import type { Backend, BackendAttempt, BackendOwner } from "../worker/backends/backend.ts";
import { labelsOf } from "../worker/backends/k8s/labels.ts";
import { roleManifest } from "../worker/backends/k8s/rights.ts";
import { percentile, sleep } from "./measure.ts";

/*
 * What a cluster feels of the control plane, against fakes that count, and how long a case waits for a real one. Without
 * KUBECONFIG only the first part runs.
 */

const IN_FLIGHT = [1, 100, 1_000] as const;
/** A control plane that asks for each job by itself so often, for comparison. */
const NAIVE_SEC = 5;
/** A pass without news waits so long by the cluster's own mechanism. */
const QUIET_SEC = 20;
/** Between passes when there is always news. */
const BUSY_SEC = 1;
const SAMPLES = 10;
const CALL_MS = 60_000;

interface Cost {
  /** Requests of one pass that finds news, and of one that waits for it. */
  news: number;
  quiet: number;
}

async function costOf(
  backend: Backend,
  attempts: readonly BackendAttempt[],
  requests: () => number,
  waitMs: number,
): Promise<Cost> {
  const units = attempts.map((attempt) => watched(attempt));
  const pass = async (wait: number): Promise<number> => {
    const before = requests();
    const sighting = await backend.observe(units, { waitMs: wait });
    if (!sighting.ok || sighting.units.length !== units.length) throw new Error(JSON.stringify(sighting).slice(0, 500));
    return requests() - before;
  };
  return { news: await pass(0), quiet: await pass(waitMs) };
}

/** Jobs with a running pod each, put where the API reads them: no process has to run for them. */
async function kubernetesCost(count: number): Promise<Cost> {
  const target = fakeKubernetesTarget();
  const owner = randomOwner();
  const long = new Date(Date.now() - 3_600_000).toISOString();
  const attempts = Array.from({ length: count }, () => attemptOf(owner));
  for (const attempt of attempts) {
    const labels = labelsOf(owner, attempt);
    const { name } = attempt.job;
    const job = target.fake.store.add(
      "jobs",
      "evals",
      { metadata: { name, labels }, spec: {} },
      { startTime: long, active: 1 },
    );
    const pod = {
      metadata: { name: `${name}-x`, labels: { ...labels, "batch.kubernetes.io/controller-uid": job.uid } },
    };
    const running = { name: "main", state: { running: { startedAt: long } } };
    target.fake.store.add(
      "pods",
      "evals",
      { ...pod, spec: { nodeName: "node-a" } },
      {
        phase: "Running",
        startTime: long,
        conditions: [{ type: "Ready", status: "True" }],
        containerStatuses: [running],
      },
    );
  }
  const cost = await costOf(target.backend(owner), attempts, target.calls, 1_500);
  await target.close();
  return cost;
}

async function nomadCost(count: number): Promise<Cost> {
  const lab = new Lab();
  for (const node of lab.nomad.cluster.nodes.values()) Object.assign(node, { cpuMhz: 1e9, memoryMb: 1e9, diskMb: 1e9 });
  const attempts: BackendAttempt[] = [];
  for (let n = 0; n < count; n++) attempts.push(await lab.started());
  await lab.clock.wait(10_000);
  await lab.backend.observe(
    attempts.map((attempt) => watched(attempt)),
    { waitMs: 0 },
  );
  return costOf(lab.backend, attempts, () => lab.nomad.requests.length, QUIET_SEC * 1_000);
}

async function calls(): Promise<void> {
  console.log("calls to a cluster while jobs are in flight (counted at a fake that keeps the cluster's laws)");
  for (const [kind, measure] of [
    ["kubernetes", kubernetesCost],
    ["nomad", nomadCost],
  ] as const) {
    for (const count of IN_FLIGHT) {
      const { news, quiet } = await measure(count);
      const busy = (60 / BUSY_SEC) * news;
      const idle = (60 / QUIET_SEC) * quiet;
      const naive = (60 / NAIVE_SEC) * count;
      const ratios = `ratio to a read per job each ${NAIVE_SEC} s: ${(idle / naive).toFixed(4)} quiet, ${(busy / naive).toFixed(4)} busiest`;
      console.log(
        `  ${kind.padEnd(10)} ${String(count).padStart(5)} in flight   ${news} calls a pass with news, ${quiet} a quiet one; at most ${idle} to ${busy} a minute; ${ratios}`,
      );
    }
  }
}

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const began = performance.now();
  await work();
  return performance.now() - began;
};

/** Until the unit is seen to run, or has ended. */
async function seen(
  backend: Backend,
  owner: BackendOwner,
  image: string,
  command: string,
  state: "running" | "finished",
) {
  const attempt = attemptOf(owner, {
    image,
    program: { command },
    job: { resources: { cpu: 100, memoryMb: 64, gpu: null } },
  });
  const ms = await timed(async () => {
    const started = await backend.start(attempt);
    if (started.kind !== "started") throw new Error(JSON.stringify(started));
    for (const end = Date.now() + CALL_MS; Date.now() < end; ) {
      const sighting = await backend.observe([watched(attempt)], { waitMs: 5_000 });
      if (sighting.ok && sighting.units.some((unit) => unit.state === state || unit.state === "finished")) return;
    }
    throw new Error("it did not start in time");
  });
  await backend.stop([attempt.job.name]);
  return ms;
}

const figures = (name: string, samples: readonly number[], peer?: readonly number[]): void => {
  const p50 = percentile(samples, 0.5);
  const ratio = peer ? `   ratio ${(p50 / percentile(peer, 0.5)).toFixed(2)}` : "";
  console.log(`  ${name.padEnd(58)} p50 ${p50.toFixed(0)} ms, p90 ${percentile(samples, 0.9).toFixed(0)} ms${ratio}`);
};

async function latencies(): Promise<void> {
  console.log(`\nstart of a busybox case on a real Kubernetes, ${SAMPLES} one by one, beside a plain Job of kubectl`);
  const target = await kubernetesTarget();
  const owner = randomOwner();
  const backend = target.backend(owner);
  const here = (...args: string[]) => kubectl(["-n", target.namespace, ...args]);
  const plain: Record<"running" | "finished", number[]> = { running: [], finished: [] };
  const own: Record<"running" | "finished", number[]> = { running: [], finished: [] };
  const remove = (name: string) => here("delete", "job", name, "--wait=false");
  for (let n = 0; n < SAMPLES; n++) {
    own.running.push(await seen(backend, owner, target.image, "sleep 30", "running"));
    own.finished.push(await seen(backend, owner, target.image, "true", "finished"));
    plain.running.push(
      await timed(async () => {
        await here("create", "job", `up-${n}`, `--image=${target.image}`, "--", "/bin/sleep", "30");
        await here("wait", "--for=jsonpath={.status.ready}=1", `job/up-${n}`, "--timeout=60s");
      }),
    );
    await remove(`up-${n}`);
    plain.finished.push(
      await timed(async () => {
        await here("create", "job", `done-${n}`, `--image=${target.image}`, "--", "/bin/true");
        await here("wait", "--for=condition=complete", `job/done-${n}`, "--timeout=60s");
      }),
    );
    await remove(`done-${n}`);
  }
  figures("kubectl create job, wait until it is ready", plain.running);
  figures("backend: start until it is seen running", own.running, plain.running);
  figures("kubectl create job, wait until it is complete", plain.finished);
  figures("backend: start until its result is collected", own.finished, plain.finished);
  await wholeWay(target.image, plain);
  await target.close();
}

/** The same through the API of a running server, polled as a client would. */
async function wholeWay(image: string, plain: Record<"running" | "finished", number[]>): Promise<void> {
  const { server, ca } = await clusterAddress();
  const folder = await mkdtemp(join(tmpdir(), "everdict-bench-"));
  await writeFile(join(folder, "ca.crt"), ca ?? "");
  const namespace = `evd-bench-${Math.random().toString(36).slice(2, 8)}`;
  await kubectl(["create", "namespace", namespace]);
  await kubectl(["apply", "-f", "-"], roleManifest(namespace, { nodes: true }));
  const token = (await kubectl(["create", "token", "everdict", "-n", namespace, "--duration=1h"])).trim();
  const plane = await ControlPlane.start({ NODE_EXTRA_CA_CERTS: join(folder, "ca.crt") });
  try {
    const client = plane.client();
    const hosts = [new URL(server).host];
    await client.call("put_secret", { params: { name: "K8S_TOKEN" }, body: { value: token, use: "cluster", hosts } });
    await client.call("create_runtime", {
      body: { kind: "k8s", id: "pool", version: "1.0.0", server, authSecret: "K8S_TOKEN", image, namespace },
    });
    const submit = async (command: string, wanted: readonly string[]): Promise<number> => {
      let id = "";
      const ms = await timed(async () => {
        const run = await client.call("submit_run", {
          body: {
            harness: { spec: { kind: "command", command, resources: { cpu: 100, memoryMb: 64 } } },
            case: { id: "c", task: "-", graders: [{ kind: "exit-code" }] },
            runtime: "pool",
          },
        });
        id = run.id;
        await until(`it is ${wanted.join(" or ")}`, CALL_MS, async () =>
          wanted.includes((await client.call("get_run", { params: { id } })).status),
        );
      });
      if (!wanted.includes("succeeded")) await client.call("cancel_run", { params: { id } });
      return ms;
    };
    const own: Record<"running" | "finished", number[]> = { running: [], finished: [] };
    for (let n = 0; n < SAMPLES; n++) {
      own.running.push(await submit("sleep 30", ["running"]));
      own.finished.push(await submit("true", ["succeeded"]));
      await sleep(500);
    }
    figures("POST /runs until GET /runs/{id} says running", own.running, plain.running);
    figures("POST /runs until GET /runs/{id} says succeeded", own.finished, plain.finished);
  } finally {
    await plane.stop();
    await kubectl(["delete", "namespace", namespace, "--wait=false"]);
    await kubectl(["delete", "clusterrole,clusterrolebinding", `everdict-${namespace}`, "--ignore-not-found"]);
    await rm(folder, { recursive: true, force: true });
  }
}

// The timers of a fake that waits for nothing keep no process alive.
const alive = setInterval(() => undefined, 1_000);
await calls();
if (process.env.KUBECONFIG) {
  await ensureBuilt();
  await latencies();
} else console.log('\nlatencies skipped: KUBECONFIG is not set; eval "$(test/clusters/kubernetes/start)" sets it');
clearInterval(alive);
process.exit(0);
