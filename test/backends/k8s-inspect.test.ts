import { afterEach, expect, test } from "vitest";
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

test("500 nodes and 5 000 pods are looked at within the caps, by a bounded number of calls, and it says what it left out", async () => {
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
  expect(seen).toMatchObject({
    reachable: true,
    reason: null,
    cluster: { version: "v1.34.4", namespace: "evals" },
    nodesTotal: 500,
  });
  expect(seen.nodes).toHaveLength(30);
  expect(seen.nodes?.slice(0, 2).map(({ name, ready, schedulable }) => [name, ready, schedulable])).toEqual([
    ["n3", false, true],
    ["n7", true, false],
  ]);
  expect(seen.nodes?.find(({ name }) => name === "n10")).toMatchObject({
    cpu: { total: 1_930, used: null },
    memoryMb: { total: 8_192 },
    gpu: { total: 2 },
    address: "10.0.0.10",
  });
  expect(seen.capacity).toEqual({ cpuUnit: "millicores", cpu: 497 * 1_930, memoryMb: 497 * 8_192, gpu: 497 * 2 });
  expect(seen.workload).toHaveLength(100);
  expect(seen.workload?.[0]).toMatchObject({ ours: true, role: "job", state: "Running", node: "node-a" });
  expect(seen.warnings).toEqual([expect.stringContaining("30 of 500"), expect.stringContaining("100 of at least")]);
});

test("a token that may not list nodes still sees the workload, and is told what is missing", async () => {
  target = fakeKubernetesTarget({ denied: new Set(["list nodes"]) });
  const seen = await target.backendOf({}, owner).inspect();
  expect(seen).toMatchObject({ reachable: true, nodes: null, capacity: null, workload: [] });
  expect(seen.warnings).toEqual([expect.stringContaining("list nodes")]);
});

test("purge deletes finished units of this owner only, cordon keeps work off a node and is undone", async () => {
  target = fakeKubernetesTarget();
  const backend = target.backendOf({}, owner);
  const done = attemptOf(owner, { program: { command: "true" } });
  const running = attemptOf(owner, { program: { command: "sleep 20" } });
  const other = randomOwner();
  const foreign = attemptOf(other, { program: { command: "true" } });
  await backend.start(done);
  await backend.start(running);
  await target.backendOf({}, other).start(foreign);
  await observeEnds(target.backendOf({}, other), [foreign]);
  await observeEnds(backend, [done]);
  const over = () => target.fake.store.list("jobs", "evals").filter(({ status }) => status.active === 0);
  while (over().length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(await backend.purgeTerminal()).toBe(1);
  expect(
    target.fake.store
      .list("jobs", "evals")
      .map(({ name }) => name)
      .sort(),
  ).toEqual([foreign.job.name, running.job.name].sort());
  await backend.cordonNode("node-a", true);
  expect((await backend.inspect()).nodes?.[0]).toMatchObject({ name: "node-a", schedulable: false });
  await backend.cordonNode("node-a", false);
  expect((await backend.inspect()).nodes?.[0]).toMatchObject({ name: "node-a", schedulable: true });
  await expect(backend.cordonNode("no-such-node", true)).rejects.toMatchObject({ code: "NOT_FOUND" });
});
