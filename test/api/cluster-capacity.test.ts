import { expect, test } from "vitest";
import { CREDENTIAL, fakeCluster, RUNTIME } from "./fake-cluster.ts";
import { CASE, ECHO, workspace } from "./support.ts";

const cluster = fakeCluster();

test("a version with another maxConcurrent counts at once: more start, and above a lowered one nothing is killed", async () => {
  const { api } = await workspace();
  await api.call("PUT", "/secrets/NOMAD_TOKEN", CREDENTIAL);
  await api.call("POST", "/harnesses", ECHO);
  const version = async (name: string, maxConcurrent: number) =>
    expect((await api.call("POST", "/runtimes", { ...RUNTIME, version: name, maxConcurrent })).status).toBe(201);
  const submit = async (): Promise<string> =>
    (await api.call("POST", "/runs", { harness: { id: "echo" }, case: CASE, runtime: "gpu" })).body.id;
  const live = () => cluster.nomad.cluster.allocations.filter(({ clientStatus }) => clientStatus === "running");
  const endOne = () => {
    const [alloc] = live();
    if (alloc) cluster.nomad.cluster.endTask(alloc, { exitCode: 3 });
  };
  const quiet = () => new Promise((resolve) => setTimeout(resolve, 3_000));
  await version("1.0.0", 1);
  for (let n = 0; n < 3; n++) await submit();
  await expect.poll(() => live().length, { timeout: 10_000 }).toBe(1);
  await version("1.1.0", 3);
  await expect.poll(() => live().length, { timeout: 10_000 }).toBe(3);
  await version("1.2.0", 1);
  const late = await submit();
  await quiet();
  expect(live()).toHaveLength(3);
  expect((await api.call("GET", `/runs/${late}`)).body.waiting).toMatchObject({ reason: "slots", position: 1 });
  // Two ends bring what is in flight down to the new cap, which is full with the third.
  endOne();
  endOne();
  await quiet();
  expect(live()).toHaveLength(1);
  expect((await api.call("GET", `/runs/${late}`)).body.status).toBe("queued");
  endOne();
  await expect
    .poll(async () => (await api.call("GET", `/runs/${late}`)).body.status, { timeout: 15_000 })
    .toBe("running");
  expect(live()).toHaveLength(1);
});

test("a cluster that answers nothing but errors ends no run, and the lane says what is wrong", async () => {
  const { api } = await workspace();
  await api.call("PUT", "/secrets/NOMAD_TOKEN", CREDENTIAL);
  await api.call("POST", "/harnesses", ECHO);
  await api.call("POST", "/runtimes", RUNTIME);
  const { id } = (await api.call("POST", "/runs", { harness: { id: "echo" }, case: CASE, runtime: "gpu" })).body;
  await expect
    .poll(async () => (await api.call("GET", `/runs/${id}`)).body.status, { timeout: 10_000 })
    .toBe("running");
  cluster.nomad.faults.plan(/./, { kind: "answer", answer: { status: 503, body: "" } }, Number.POSITIVE_INFINITY);
  const lane = async () => (await api.call("GET", "/queue")).body.lanes[0]?.health;
  await expect.poll(async () => (await lane())?.state, { timeout: 30_000 }).toMatch(/degraded|open/);
  expect((await lane()).detail).toMatch(/503|failed/);
  expect((await api.call("GET", `/runs/${id}`)).body).toMatchObject({ status: "running", epoch: 1 });
  cluster.nomad.faults.clear();
  await expect.poll(async () => (await lane())?.state, { timeout: 60_000 }).toBe("ok");
  expect([...cluster.nomad.cluster.executions.values()]).toEqual([1]);
  await api.call("POST", `/runs/${id}/cancel`);
});
