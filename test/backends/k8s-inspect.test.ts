import { afterEach, expect, test } from "vitest";
import { ControlResult, Inspection } from "../../contracts/inspection.ts";
import type { ControlContext } from "../../worker/backends/backend.ts";
import { quantityOf } from "../../worker/backends/k8s/quantity.ts";
import { attemptOf, randomOwner } from "./attempts.ts";
import { observeEnds } from "./conformance.ts";
import { type FakeTarget, fakeKubernetesTarget } from "./fake-kubernetes-target.ts";

let target: FakeTarget;
const owner = randomOwner();
afterEach(() => target.close());

test.each([
  ["1930m", 1.93],
  ["4", 4],
  ["16384256Ki", 16_384_256 * 1_024],
  ["8Gi", 8 * 2 ** 30],
  ["1e3", 1_000],
  ["nonsense", 0],
])("quantity %s is %d", (text, value) => {
  target = fakeKubernetesTarget();
  expect(quantityOf(text)).toBeCloseTo(value, 6);
});

function addNodes(count: number): void {
  for (let n = 0; n < count; n++) {
    target.fake.store.add(
      "nodes",
      "",
      { metadata: { name: `n${n}` }, spec: n === 7 ? { unschedulable: true } : {} },
      {
        allocatable: { cpu: "1930m", memory: "8Gi", "ephemeral-storage": "10Gi", "nvidia.com/gpu": "2" },
        conditions: [{ type: "Ready", status: n === 3 ? "Unknown" : "True" }],
        addresses: [{ type: "InternalIP", address: `10.0.0.${n}` }],
        nodeInfo: { operatingSystem: "linux", architecture: "amd64", kubeletVersion: "v1.34.4" },
      },
    );
  }
}

const NOTHING_LIVE: ControlContext = { liveUnits: async () => new Set(), external: false };
const EXTERNAL: ControlContext = { ...NOTHING_LIVE, external: true };

test("500 nodes and 5 000 pods are looked at within the caps, by a bounded number of calls, and it says what it left out (K 52)", async () => {
  target = fakeKubernetesTarget();
  addNodes(499);
  for (let n = 0; n < 5_000; n++)
    target.fake.store.add("pods", "evals", { metadata: { name: `other-${n}` }, spec: {} }, { phase: "Running" });
  const backend = target.backendOf({}, owner);
  const attempt = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend.start(attempt);
  await observeEnds(backend, [attempt], ({ state }) => state === "running");
  const before = target.calls();
  const seen = await backend.inspect();
  expect(target.calls() - before).toBeLessThanOrEqual(5);
  expect(Inspection.parse(seen)).toEqual(seen);
  expect(seen).toMatchObject({
    reachable: true,
    reason: null,
    cluster: { version: "v1.34.4", namespace: "evals" },
    units: { cpu: "millicores", memory: "MiB", disk: "MiB" },
    nodesTotal: 500,
    workloadTotal: 5_001,
  });
  expect(seen.nodes).toHaveLength(30);
  expect(seen.nodes?.slice(0, 2).map(({ name, ready, schedulable }) => [name, ready, schedulable])).toEqual([
    ["n3", false, true],
    ["n7", true, false],
  ]);
  expect(seen.nodes?.find(({ name }) => name === "n10")).toMatchObject({
    cpu: { total: 1_930, used: null },
    memoryMb: { total: 8_192, used: null },
    gpu: { total: 2, used: 0 },
    address: "10.0.0.10",
  });
  expect(seen.capacity).toEqual({
    cpu: { total: 497 * 1_930, used: null },
    memoryMb: { total: 497 * 8_192, used: null },
    gpu: { total: 497 * 2, used: 0 },
  });
  expect(seen.workload).toHaveLength(100);
  expect(seen.workload?.[0]).toMatchObject({
    unit: attempt.job.name,
    ours: true,
    role: "job",
    state: "Running",
    node: "node-a",
  });
  expect(seen.workload?.filter(({ ours }) => ours)).toHaveLength(1);
  expect(seen.warnings).toEqual(
    expect.arrayContaining([
      expect.stringContaining("30 of 500"),
      expect.stringContaining("100 of 5001"),
      expect.stringContaining("no metrics API"),
    ]),
  );
});

test("K 80: the use of cpu and memory is told where a metrics API answers, and only there", async () => {
  target = fakeKubernetesTarget();
  addNodes(2);
  const usage = { cpu: "250m", memory: "1Gi" };
  target.fake.metrics = ["node-a", "n0", "n1"].map((name) => ({ metadata: { name }, usage }));
  target.fake.store.add(
    "pods",
    "evals",
    {
      metadata: { name: "trainer" },
      spec: { nodeName: "n1", containers: [{ resources: { limits: { "nvidia.com/gpu": 2 } } }] },
    },
    { phase: "Running" },
  );
  const seen = await target.backendOf({}, owner).inspect();
  expect(seen.nodes?.find(({ name }) => name === "n1")).toMatchObject({
    cpu: { total: 1_930, used: 250 },
    memoryMb: { total: 8_192, used: 1_024 },
    diskMb: { total: 10_240, used: null },
    gpu: { total: 2, used: 2 },
  });
  expect(seen.capacity).toMatchObject({ cpu: { used: 750 }, memoryMb: { used: 3_072 }, gpu: { total: 4, used: 2 } });
  expect(seen.warnings.join()).not.toContain("metrics");
});

test("a token that may not list nodes still sees the workload, and is told what is missing", async () => {
  target = fakeKubernetesTarget({ denied: new Set(["list nodes"]) });
  const seen = await target.backendOf({}, owner).inspect();
  expect(seen).toMatchObject({ reachable: true, nodes: null, capacity: null, workload: [], workloadTotal: 0 });
  expect(seen.warnings).toEqual([expect.stringContaining("list nodes")]);
});

test("a cluster that is not there, knows no such token or hangs is an answer", { timeout: 30_000 }, async () => {
  target = fakeKubernetesTarget();
  target.fake.fault = () => ({ kind: "broken" });
  expect(await target.backend(owner).inspect()).toMatchObject({ reachable: false, reason: "connect", nodes: null });
  expect(await target.backend(owner).probe()).toMatchObject({ reachable: false, reason: "connect" });
  target.fake.fault = () => null;
  expect(await target.stranger(owner).inspect()).toMatchObject({ reachable: false, reason: "auth" });
  target.fake.fault = ({ path }) => (path.includes("/nodes") ? { kind: "hangs" } : null);
  const started = Date.now();
  const seen = await target.backend(owner).inspect();
  expect(Date.now() - started).toBeLessThan(16_000);
  expect(seen).toMatchObject({ reachable: true, nodes: null, workload: [] });
});

const jobNames = () =>
  target.fake.store
    .list("jobs", "evals")
    .map(({ name }) => name)
    .sort();

test("purge deletes ended units of this owner that no live attempt waits for", async () => {
  target = fakeKubernetesTarget();
  const backend = target.backendOf({}, owner);
  const [done, unread] = [0, 1].map(() => attemptOf(owner, { program: { command: "true" } }));
  const running = attemptOf(owner, { program: { command: "sleep 20" } });
  const other = randomOwner();
  const foreign = attemptOf(other, { program: { command: "true" } });
  if (!done || !unread) throw new Error("two attempts");
  for (const attempt of [done, unread, running]) await backend.start(attempt);
  await target.backendOf({}, other).start(foreign);
  await observeEnds(target.backendOf({}, other), [foreign]);
  await observeEnds(backend, [done, unread]);
  const over = () => target.fake.store.list("jobs", "evals").filter(({ status }) => status.active === 0);
  while (over().length < 3) await new Promise((resolve) => setTimeout(resolve, 10));
  const live = async () => new Set([unread.job.name, running.job.name]);
  const result = await backend.control({ action: "purgeTerminal" }, { ...NOTHING_LIVE, liveUnits: live });
  expect(ControlResult.parse(result)).toMatchObject({ affected: [done.job.name], affectedTotal: 1 });
  expect(jobNames()).toEqual([unread, foreign, running].map(({ job }) => job.name).sort());
});

test("reclaim ends what runs for nobody, and spares what a live attempt needs", async () => {
  target = fakeKubernetesTarget();
  const backend = target.backendOf({}, owner);
  const [needed, idle] = [0, 1].map(() => attemptOf(owner, { program: { command: "sleep 20" } }));
  if (!needed || !idle) throw new Error("two attempts");
  for (const attempt of [needed, idle]) await backend.start(attempt);
  const live = async () => new Set([needed.job.name]);
  const result = await backend.control({ action: "reclaimIdle" }, { ...NOTHING_LIVE, liveUnits: live });
  expect(result).toMatchObject({ affected: [idle.job.name], affectedTotal: 1 });
  expect(jobNames()).toEqual([needed.job.name]);
});

test("a unit of ours is stopped by its name; one of others only where the runtime says so", async () => {
  target = fakeKubernetesTarget();
  const backend = target.backendOf({}, owner);
  const other = randomOwner();
  const [own, foreign] = [
    attemptOf(owner, { program: { command: "sleep 20" } }),
    attemptOf(other, { program: { command: "sleep 20" } }),
  ];
  await backend.start(own);
  await target.backendOf({}, other).start(foreign);
  target.fake.store.add("pods", "evals", { metadata: { name: "bare" }, spec: {} }, { phase: "Running" });
  const stop = (workload: string, context = NOTHING_LIVE) =>
    backend.control({ action: "stopWorkload", workload }, context);
  await expect(stop(foreign.job.name)).rejects.toMatchObject({
    code: "FORBIDDEN",
    message: expect.stringContaining("externalControl"),
  });
  await expect(stop("bare")).rejects.toMatchObject({ code: "NOT_FOUND" });
  await expect(stop("no-such-unit", EXTERNAL)).rejects.toMatchObject({ code: "NOT_FOUND" });
  expect(await stop(own.job.name)).toMatchObject({ affected: [own.job.name] });
  expect(jobNames()).toEqual([foreign.job.name]);
  await stop(foreign.job.name, EXTERNAL);
  expect(jobNames()).toEqual([]);
  expect(await stop("bare", EXTERNAL)).toMatchObject({ detail: expect.stringContaining("pod 'bare'") });
});

test("K 78: cordon keeps work off a node and is undone; nodes are not ours", async () => {
  target = fakeKubernetesTarget();
  const backend = target.backendOf({}, owner);
  const cordon = (node: string, cordoned: boolean, context = EXTERNAL) =>
    backend.control({ action: "cordonNode", node, cordoned }, context);
  await expect(cordon("node-a", true, NOTHING_LIVE)).rejects.toMatchObject({ code: "FORBIDDEN" });
  await cordon("node-a", true);
  expect((await backend.inspect()).nodes?.[0]).toMatchObject({ name: "node-a", schedulable: false });
  await cordon("node-a", false);
  expect((await backend.inspect()).nodes?.[0]).toMatchObject({ name: "node-a", schedulable: true });
  await expect(cordon("no-such-node", true)).rejects.toMatchObject({ code: "NOT_FOUND" });
});

test("K 77: a service is resized by its scale; a job has none", async () => {
  target = fakeKubernetesTarget();
  const backend = target.backendOf({}, owner);
  const job = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend.start(job);
  const service = target.fake.store.add("deployments", "evals", { metadata: { name: "web" }, spec: { replicas: 1 } });
  const resize = (workload: string, context = EXTERNAL) =>
    backend.control({ action: "resizeWorkload", workload, replicas: 3 }, context);
  await expect(resize("web", NOTHING_LIVE)).rejects.toMatchObject({ code: "FORBIDDEN" });
  await expect(resize(job.job.name)).rejects.toMatchObject({ code: "BAD_REQUEST" });
  await expect(resize("no-such-service")).rejects.toMatchObject({ code: "NOT_FOUND" });
  expect(await resize("web")).toMatchObject({ affected: ["web"], detail: expect.stringContaining("3 copies") });
  expect(service.body.spec).toMatchObject({ replicas: 3 });
});

test("without its right an action says which one is missing", async () => {
  target = fakeKubernetesTarget({ denied: new Set(["patch nodes", "patch deployments/scale", "delete pods"]) });
  const backend = target.backendOf({}, owner);
  for (const [request, right] of [
    [{ action: "cordonNode", node: "node-a", cordoned: true }, "patch nodes"],
    [{ action: "resizeWorkload", workload: "web", replicas: 1 }, "patch deployments/scale.apps"],
    [{ action: "stopWorkload", workload: "bare" }, "delete pods"],
  ] as const)
    await expect(backend.control(request, EXTERNAL)).rejects.toMatchObject({
      code: "UPSTREAM_MISCONFIGURED",
      message: expect.stringContaining(right),
    });
});
