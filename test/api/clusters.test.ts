import { expect, test } from "vitest";
import { register } from "../support/fake-nomad/register.ts";
import { CREDENTIAL, fakeCluster, RUNTIME } from "./fake-cluster.ts";
import { type Api, apiWith, CASE, dev, ECHO, keyFor, workspace } from "./support.ts";

const cluster = fakeCluster(["node:write"]);

/** A workspace with a runtime on the fake, and its credential stored. */
async function registered(parts: Record<string, unknown> = {}): Promise<{ id: string; api: Api; token: string }> {
  const { id, api, token } = await workspace();
  expect((await api.call("PUT", "/secrets/NOMAD_TOKEN", CREDENTIAL)).status).toBe(204);
  expect((await api.call("POST", "/runtimes", { ...RUNTIME, ...parts })).status).toBe(201);
  return { id, api, token };
}

const INSPECT = "/runtimes/gpu/versions/latest/inspect";
const CONTROL = "/runtimes/gpu/versions/latest/control";

function addForeign(): void {
  const Job = {
    ID: "web",
    Type: "service",
    TaskGroups: [{ Name: "web", Tasks: [{ Name: "main", Driver: "docker" }], EphemeralDisk: { SizeMB: 300 } }],
  };
  expect(register(cluster.nomad.cluster, { Job: { ...Job, Namespace: "evals" } }, new Set(["evals"])).status).toBe(200);
}

test("whoever may see a runtime may look at its cluster, and 20 viewers cause one read", async () => {
  const { id } = await registered();
  const viewer = await keyFor(id, "viewer", "read");
  const answers = await Promise.all(Array.from({ length: 20 }, () => viewer.call("GET", INSPECT)));
  for (const { status, body } of answers) {
    expect(status).toBe(200);
    expect(body).toMatchObject({
      kind: "nomad",
      reachable: true,
      detail: "nomad 2.0.5",
      reason: null,
      cluster: { namespace: "evals" },
      units: { cpu: "MHz" },
      nodes: [expect.objectContaining({ name: "cli1", ready: true, cpu: { total: 8_000, used: 121 } })],
      nodesTotal: 1,
      workload: [],
      warnings: [],
    });
  }
  expect(cluster.nomad.requests.filter((line) => line.includes("/v1/agent/members"))).toHaveLength(1);
  expect(cluster.nomad.requests.filter((line) => line.includes("/v1/nodes"))).toHaveLength(1);
});

test("an unreachable cluster, an unknown credential and a missing secret are answers", async () => {
  const { api } = await registered();
  cluster.nomad.faults.plan(/./, { kind: "drop" }, Number.POSITIVE_INFINITY);
  expect((await api.call("GET", INSPECT)).body).toMatchObject({ reachable: false, reason: "connect", nodes: null });
  const { api: bare } = await workspace();
  await bare.call("POST", "/runtimes", RUNTIME);
  expect((await bare.call("GET", INSPECT)).body).toMatchObject({
    reachable: false,
    reason: "credential",
    detail: expect.stringContaining("NOMAD_TOKEN"),
  });
  expect((await bare.call("GET", "/runtimes/other/versions/latest/inspect")).status).toBe(404);
  expect((await bare.call("GET", "/runtimes/gpu/versions/9.9.9/inspect")).status).toBe(404);
});

test("what the object hands on is given back to it once it was read", async () => {
  const { token } = await registered();
  let disposed = 0;
  const answer = { kind: "nomad", reachable: false, detail: "d", [Symbol.dispose]: () => disposed++ };
  const scheduler = { idFromName: String, get: () => ({ inspect: async () => answer }) };
  const api = apiWith({ EVERDICT_ENV: "dev", SCHEDULER: scheduler }, { authorization: `Bearer ${token}` });
  expect((await api.call("GET", INSPECT)).body).toEqual({ kind: "nomad", reachable: false, detail: "d" });
  expect(disposed).toBe(1);
});

test("only an admin controls, and only what is ours unless the runtime says otherwise; each action is told", async () => {
  const { id, api } = await registered();
  addForeign();
  for (const [role, scope] of [
    ["viewer", "read"],
    ["member", "write"],
    ["admin", "write"],
  ] as const) {
    const other = await keyFor(id, role, scope);
    expect((await other.call("POST", CONTROL, { action: "reclaimIdle" })).status, role).toBe(403);
  }
  for (const body of [
    { action: "deleteEverything" },
    {},
    { action: "stopWorkload" },
    { action: "stopWorkload", workload: "../x" },
    { action: "stopWorkload", workload: "web", force: true },
    { action: "resizeWorkload", workload: "web", replicas: -1 },
    { action: "resizeWorkload", workload: "web", replicas: 1.5 },
  ])
    expect((await api.call("POST", CONTROL, body)).status, JSON.stringify(body)).toBe(400);
  expect(cluster.nomad.requests).toEqual([]);
  expect(await api.call("POST", CONTROL, { action: "stopWorkload", workload: "web" })).toMatchObject({
    status: 403,
    body: { code: "FORBIDDEN", detail: expect.stringContaining("externalControl: true") },
  });
  expect(await api.call("POST", CONTROL, { action: "cordonNode", node: "cli1" })).toMatchObject({ status: 403 });
  expect(await api.call("POST", CONTROL, { action: "purgeTerminal" })).toMatchObject({
    status: 400,
    body: { detail: expect.stringContaining("job_gc_threshold") },
  });
  expect(await api.call("POST", CONTROL, { action: "stopWorkload", workload: "nothing" })).toMatchObject({
    status: 404,
  });
  expect(await api.call("POST", CONTROL, { action: "reclaimIdle" })).toMatchObject({
    status: 200,
    body: { action: "reclaimIdle", affected: [], affectedTotal: 0 },
  });
  const actions = (await api.call("GET", "/audit")).body.items.map(({ action }: { action: string }) => action);
  expect(actions.slice(0, 2)).toEqual(["runtime.reclaimIdle", "runtime.stopWorkload"]);
});

test("a runtime that says so lets its admin act on what is not ours, and the next look is a new one", async () => {
  const { api } = await registered({ externalControl: true });
  addForeign();
  expect((await api.call("GET", INSPECT)).body.nodes[0]).toMatchObject({ schedulable: true });
  expect(await api.call("POST", CONTROL, { action: "cordonNode", node: "cli1" })).toMatchObject({
    status: 200,
    body: { affected: ["cli1"] },
  });
  const seen = (await api.call("GET", INSPECT)).body;
  expect(seen.nodes[0]).toMatchObject({ name: "cli1", schedulable: false });
  expect(seen.workload).toEqual([expect.objectContaining({ unit: "web", ours: false, role: "service" })]);
  expect((await api.call("POST", CONTROL, { action: "resizeWorkload", workload: "web", replicas: 2 })).status).toBe(
    200,
  );
  expect((await api.call("POST", CONTROL, { action: "stopWorkload", workload: "web" })).status).toBe(200);
  expect(cluster.nomad.cluster.jobs.get("web")).toMatchObject({ stop: true });
  const [last] = (await api.call("GET", "/audit")).body.items;
  expect(last).toMatchObject({ action: "runtime.stopWorkload", target: "gpu@1.0.0", detail: { workload: "web" } });
});

test("reclaim spares a live attempt, and stopping its unit is seen as an eviction", async () => {
  const { api } = await registered();
  await api.call("POST", "/harnesses", ECHO);
  const { id: run } = (
    await api.call("POST", "/runs", { harness: { id: "echo" }, case: CASE, runtime: "gpu", retries: 0 })
  ).body;
  const job = () => [...cluster.nomad.cluster.jobs.keys()].find((name) => name.includes(run.slice("run_".length)));
  await expect.poll(job, { timeout: 10_000 }).toBeDefined();
  expect((await api.call("POST", CONTROL, { action: "reclaimIdle" })).body.affected).toEqual([]);
  const { workload } = (await api.call("GET", INSPECT)).body;
  expect(workload[0]).toMatchObject({ unit: job(), ours: true, role: "job", node: "cli1" });
  await expect
    .poll(async () => (await api.call("GET", `/runs/${run}/placement`)).body, { timeout: 10_000 })
    .toMatchObject({ unit: job(), ranOn: "nomad:gpu@1.0.0" });
  expect((await api.call("POST", CONTROL, { action: "stopWorkload", workload: job() })).body.affected).toEqual([job()]);
  // Its kill timeout would take longer.
  const alloc = cluster.nomad.cluster.allocations.find(({ jobId }) => jobId === job());
  if (alloc) cluster.nomad.cluster.endTask(alloc, { exitCode: 143 });
  await expect
    .poll(async () => (await api.call("GET", `/runs/${run}`)).body, { timeout: 30_000 })
    .toMatchObject({
      status: "failed",
      failure: { class: "infra", code: "EVICTED", message: expect.stringMatching(/^key:\S+ had its unit .* stopped/) },
      provenance: { ranOn: "nomad:gpu@1.0.0" },
    });
});

test("of a shared runtime a workspace sees no other's units, and does not control it", async () => {
  const shared = { "x-everdict-workspace": "_shared" };
  expect((await dev.call("PUT", "/secrets/NOMAD_TOKEN", CREDENTIAL, shared)).status).toBe(204);
  const spec = { ...RUNTIME, id: "common" };
  expect((await dev.call("POST", "/runtimes", spec, shared)).status).toBe(201);
  const [one, two] = [await workspace(), await workspace()];
  const jobs = () => [...cluster.nomad.cluster.jobs.keys()];
  for (const { api } of [one, two]) {
    await api.call("POST", "/harnesses", ECHO);
    expect((await api.call("POST", "/runs", { harness: { id: "echo" }, case: CASE, runtime: "common" })).status).toBe(
      202,
    );
  }
  await expect.poll(() => jobs().length, { timeout: 10_000 }).toBe(2);
  const path = "/runtimes/common/versions/latest";
  const { body: all } = await dev.call("GET", `${path}/inspect`, undefined, shared);
  expect(all.workload).toHaveLength(2);
  expect(all.nodes[0].address).toBe("127.0.0.1");
  const { body: own } = await one.api.call("GET", `${path}/inspect`);
  const [run] = (await one.api.call("GET", "/runs")).body.items;
  expect(own.workload.map(({ unit }: { unit: string }) => unit)).toEqual([
    expect.stringContaining(run.id.slice("run_".length)),
  ]);
  expect(own.nodes[0].address).toBeNull();
  expect(own.warnings).toEqual([expect.stringContaining("only this workspace's own")]);
  expect(await one.api.call("POST", `${path}/control`, { action: "reclaimIdle" })).toMatchObject({ status: 403 });
  expect((await dev.call("POST", `${path}/control`, { action: "reclaimIdle" }, shared)).status).toBe(200);
  for (const { api } of [one, two]) {
    const [{ id }] = (await api.call("GET", "/runs")).body.items;
    await api.call("POST", `/runs/${id}/cancel`);
  }
});

test("another workspace's runtime is not there", async () => {
  await registered();
  const { api } = await workspace();
  expect((await api.call("GET", INSPECT)).status).toBe(404);
  expect((await api.call("POST", CONTROL, { action: "reclaimIdle" })).status).toBe(404);
});

test("a local runtime has no cluster: it says so, and takes no control", async () => {
  const { api } = await workspace();
  await api.call("POST", "/runtimes", { kind: "local", id: "here", version: "1.0.0" });
  const path = "/runtimes/here/versions/latest";
  expect((await api.call("GET", `${path}/inspect`)).body).toMatchObject({ kind: "local", reachable: false });
  expect((await api.call("POST", `${path}/control`, { action: "reclaimIdle" })).status).toBe(400);
});
