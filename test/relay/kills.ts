import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { certificateAuthority } from "../support/certificates.ts";
import { ControlPlane, until } from "../support/control-plane.ts";
import { FakeKubernetes } from "../support/fake-kubernetes/fake-kubernetes.ts";
import { serveFakeKubernetes } from "../support/fake-kubernetes/server.ts";
import { kubeconfig } from "../support/kubeconfig.ts";
import { type RelayProcess, startRelay } from "../support/relay-lab.ts";

const TOKEN = "a-token";

/** A cluster that cases run on meanwhile. */
export interface KillTarget {
  /** For the relay's machine. */
  kubeconfig: string;
  namespace: string;
  /** Where each execution leaves its run's id; null where programs run out of sight. */
  note: string | null;
  /** Id of the run of each execution. */
  executions(): Promise<string[]>;
  /** Pods that still run. */
  running(): Promise<number>;
  close(): Promise<void>;
}

/** The fake, whose programs are processes of this machine. */
export async function fakeKillTarget(): Promise<KillTarget> {
  const folder = await mkdtemp(join(tmpdir(), "everdict-kills-"));
  const authority = await certificateAuthority();
  const fake = new FakeKubernetes({
    namespace: "evals",
    token: TOKEN,
    speed: 1,
    cpuMillis: 100_000,
    memoryMib: 100_000,
  });
  const tls = { ...(await authority.server()), ca: authority.ca };
  const server = await serveFakeKubernetes({ fake, token: TOKEN, tls });
  return {
    kubeconfig: kubeconfig({ server: server.address, ca: authority.ca, user: { token: TOKEN } }),
    namespace: "evals",
    note: join(folder, "executed"),
    executions: async () => (await readFile(join(folder, "executed"), "utf8")).trim().split("\n"),
    running: async () => fake.store.list("pods", "evals", {}).filter(({ status }) => status.phase === "Running").length,
    async close() {
      await server.close();
      fake.dispose();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export interface KillPlan {
  cases: number;
  kills: number;
  slots: number;
  timeoutMs: number;
}

/** Kills a relay many times while a scorecard runs through it. */
export function relayKills(open: () => Promise<KillTarget>, { cases, kills, slots, timeoutMs }: KillPlan): void {
  let target: KillTarget;
  let plane: ControlPlane;
  let relay: RelayProcess;

  beforeAll(async () => {
    target = await open();
    plane = await ControlPlane.start();
    relay = await startRelay(plane, "office", ["--allow-context", "prod"], {}, undefined, (folder) =>
      writeFile(join(folder, "kubeconfig"), target.kubeconfig),
    );
  }, 120_000);
  afterAll(async () => {
    await relay?.stop();
    await plane?.stop();
    await target?.close();
  });

  test(`a relay is killed ${kills} times while ${cases} cases run: none is lost, none is executed twice, and waiting says why`, {
    timeout: timeoutMs,
  }, async () => {
    const client = plane.client();
    await client.call("create_runtime", {
      body: {
        kind: "k8s",
        id: "pool",
        version: "1.0.0",
        image: "everdict/busybox:1",
        namespace: target.namespace,
        relay: "office",
        context: "prod",
        maxConcurrent: slots,
      },
    });
    const leave = target.note === null ? "true" : `echo "$EVD_RUN_ID" >> ${target.note}`;
    await client.call("create_harness", {
      body: {
        kind: "command",
        id: "slow",
        version: "1.0.0",
        command: `${leave}; sleep 3; echo done {{task}}`,
        resources: { cpu: 50, memoryMb: 32 },
      },
    });
    await client.call("create_dataset", {
      body: {
        id: "many",
        version: "1.0.0",
        cases: Array.from({ length: cases }, (_, n) => ({
          id: `c${n}`,
          task: `t${n}`,
          graders: [{ kind: "contains" as const, value: `done t${n}` }],
          timeoutSec: 120,
        })),
      },
    });
    const { id } = await client.call("run_scorecard", {
      body: { dataset: { id: "many" }, harness: { id: "slow" }, runtime: "pool", concurrency: cases, retries: 0 },
    });
    const reasons = new Map<string, string>();
    const look = async (): Promise<void> => {
      const { entries } = await client.call("get_queue");
      for (const { waiting } of entries) reasons.set(waiting.reason, waiting.detail);
    };
    for (let kill = 0; kill < kills; kill++) {
      await new Promise((resolve) => setTimeout(resolve, 500 + Math.random() * 1_500));
      await relay.kill();
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 2_000));
      await look();
      await relay.up();
    }
    const card = await until("the scorecard has ended", 300_000, async () => {
      const now = await client.call("get_scorecard", { params: { id } });
      return now.finishedAt === null ? null : now;
    });
    const failures: unknown[] = [];
    for await (const run of client.all("list_scorecard_runs", { params: { id } }))
      if (run.failure) failures.push({ failure: run.failure, attempts: run.attempts });
    expect(failures).toEqual([]);
    expect(card).toMatchObject({
      progress: { succeeded: cases, failed: 0 },
      summary: { passRate: 1, measured: cases },
    });
    expect(reasons.get("relay-offline")).toMatch(/^relay 'office' is offline, last seen 20\d\d-/);
    const executed = await target.executions();
    expect(new Set(executed).size).toBe(cases);
    expect(executed).toHaveLength(cases);
    for await (const run of client.all("list_scorecard_runs", { params: { id } })) {
      const states = run.attempts.map(({ state }) => state);
      expect(
        states.filter((state) => state !== "released"),
        run.id,
      ).toEqual(["succeeded"]);
    }
    // What is finished and was not collected is swept, or deleted by the cluster itself after a day.
    await until("no pod runs any more", 20_000, async () => (await target.running()) === 0);
    const { lanes } = await client.call("get_queue");
    expect(lanes.find(({ target }) => target === "pool")).toMatchObject({
      slots: { inFlight: 0 },
      health: { state: "ok" },
    });
  });
}
