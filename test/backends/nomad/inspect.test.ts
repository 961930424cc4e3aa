import { describe, expect, test } from "vitest";
import { ControlResult, Inspection } from "../../../contracts/inspection.ts";
import type { ControlContext } from "../../../worker/backends/backend.ts";
import { LEAST_RIGHTS } from "../../support/fake-nomad/fake-nomad.ts";
import type { JobBody } from "../../support/fake-nomad/model.ts";
import { register } from "../../support/fake-nomad/register.ts";
import { Lab, OWNER, SECRET } from "./lab.ts";

const NOTHING_LIVE: ControlContext = { liveUnits: async () => new Set(), external: false };
const EXTERNAL: ControlContext = { ...NOTHING_LIVE, external: true };

/** A job of somebody else. */
function addForeign(lab: Lab, id: string, parts: Partial<JobBody> = {}): void {
  const Job = {
    ID: id,
    Name: id,
    Type: "service",
    Datacenters: ["*"],
    TaskGroups: [
      {
        Name: "web",
        Count: 1,
        Tasks: [{ Name: "main", Driver: "docker", Config: { image: "nginx:1" }, Resources: { CPU: 1, MemoryMB: 1 } }],
        EphemeralDisk: { SizeMB: 300 },
      },
    ],
    ...parts,
  };
  const answer = register(lab.nomad.cluster, { Job }, new Set(["default"]));
  if (answer.status !== 200) throw new Error(JSON.stringify(answer));
}

describe("a look at a Nomad cluster", () => {
  test("500 nodes and 5 000 allocations are looked at within the caps, and it says what it left out", async () => {
    const lab = new Lab();
    const { cluster } = lab.nomad;
    for (let n = 0; n < 499; n++) cluster.addNode(`n${n}`, { gpus: 2, eligible: n !== 7, alive: n !== 3 });
    const own = await lab.started();
    cluster.nodes.get("cli1")?.images.clear();
    for (let n = 0; n < 5_000; n++) {
      const alloc = structuredClone(lab.allocation(own));
      cluster.allocations.push({ ...alloc, id: cluster.newId(), jobId: `other-${n}`, node: `n${n % 400}` });
    }
    let seen: Inspection | undefined;
    const requests = await lab.requestsOf(async () => {
      seen = await lab.backend.inspect();
    });
    expect(Inspection.parse(seen)).toEqual(seen);
    // Members, nodes, two lists of allocations, one of jobs, and two small ones for each node that is shown.
    expect(requests.length).toBeLessThanOrEqual(5 + 60);
    expect(seen).toMatchObject({
      kind: "nomad",
      reachable: true,
      reason: null,
      detail: "nomad 2.0.5",
      cluster: { version: "2.0.5", namespace: "default" },
      units: { cpu: "MHz" },
      nodesTotal: 500,
    });
    expect(seen?.nodes).toHaveLength(30);
    expect(seen?.nodes?.slice(0, 2).map(({ name, ready, schedulable }) => [name, ready, schedulable])).toEqual([
      ["n3", false, true],
      ["n7", true, false],
    ]);
    expect(seen?.nodes?.find(({ name }) => name === "n10")).toMatchObject({
      os: "linux",
      arch: "amd64",
      kernel: "6.1.0-40-amd64",
      containerRuntime: "docker://20.10.24+dfsg1",
      agentVersion: "2.0.5",
      cpu: { total: 8_000, used: 121 },
      memoryMb: { total: 16_384, used: 512 },
      diskMb: { total: 100_000 },
      gpu: { total: 2, used: 0 },
    });
    // Use is measured on the nodes that are shown only, so that of the whole is not known.
    expect(seen?.capacity).toMatchObject({ cpu: { total: 498 * 8_000, used: null }, gpu: { total: 2 * 497 } });
    expect(seen?.workload).toHaveLength(100);
    expect(seen?.workload?.[0]).toMatchObject({
      unit: own.job.name,
      ours: true,
      role: "job",
      state: "running",
      node: "cli1",
    });
    expect(seen?.workload?.filter(({ ours }) => ours)).toHaveLength(1);
    expect(seen?.warnings).toEqual(
      expect.arrayContaining([expect.stringContaining("30 of 500"), expect.stringContaining("at least")]),
    );
    expect(JSON.stringify(seen)).not.toContain("own secret");
  });

  test("GPUs in use are those that allocations hold", async () => {
    const lab = new Lab({ spec: { gpu: 2 } });
    lab.nomad.cluster.nodes.clear();
    lab.nomad.cluster.addNode("g1", { gpus: 4 });
    await lab.started();
    const { nodes, capacity } = await lab.backend.inspect();
    expect(nodes?.[0]).toMatchObject({ gpu: { total: 4, used: 2 } });
    expect(capacity).toMatchObject({ gpu: { total: 4, used: 2 }, cpu: { used: 121 } });
  });

  test("a job that waits is shown without a node, and services as such", async () => {
    const lab = new Lab();
    const [node] = lab.nomad.cluster.nodes.values();
    if (!node) throw new Error("a node");
    node.eligible = false;
    const waiting = await lab.started();
    node.eligible = true;
    addForeign(lab, "web");
    const { workload } = await lab.backend.inspect();
    expect(workload).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ unit: waiting.job.name, ours: true }),
        expect.objectContaining({ unit: "web", ours: false, role: "service", node: "cli1" }),
      ]),
    );
  });

  test("N 26: the least-privilege token sees all of it; without node:read the nodes are missing and told", async () => {
    expect((await new Lab().backend.inspect()).warnings).toEqual([]);
    const lab = new Lab({ rights: LEAST_RIGHTS.filter((right) => right !== "node:read") });
    const seen = await lab.backend.inspect();
    expect(seen).toMatchObject({ reachable: true, nodes: null, capacity: null, workload: [] });
    expect(seen.warnings).toEqual([expect.stringContaining('node { policy = "read" }')]);
  });

  test("an unknown token, a closed port and a server that is none are answers", async () => {
    const lab = new Lab();
    const unknown = lab.backendWith("00000000-1111-4222-8333-444444444444");
    expect(await unknown.inspect()).toMatchObject({ reachable: false, reason: "auth", nodes: null, workload: null });
    lab.nomad.faults.plan(/./, { kind: "drop" }, Number.POSITIVE_INFINITY);
    expect(await lab.backend.inspect()).toMatchObject({ reachable: false, reason: "connect" });
    lab.nomad.faults.clear();
    lab.nomad.faults.plan(/members/, { kind: "answer", answer: { status: 200, body: "<html>" } });
    expect(await lab.backend.inspect()).toMatchObject({ reachable: false, reason: "api" });
  });
});

describe("control of a Nomad cluster", () => {
  test("a job of ours is stopped; one of others only where the runtime says so", async () => {
    const lab = new Lab();
    const own = await lab.started();
    addForeign(lab, "web");
    const stop = (workload: string, context = NOTHING_LIVE) =>
      lab.backend.control({ action: "stopWorkload", workload }, context);
    await expect(stop("web")).rejects.toMatchObject({
      code: "FORBIDDEN",
      message: expect.stringContaining("externalControl"),
    });
    await expect(stop("nothing", EXTERNAL)).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(ControlResult.parse(await stop(own.job.name))).toMatchObject({ affected: [own.job.name] });
    expect(lab.nomad.cluster.jobs.get(own.job.name)?.stop).toBe(true);
    await stop("web", EXTERNAL);
    expect(lab.nomad.cluster.jobs.get("web")?.stop).toBe(true);
  });

  test("a job of another object or deployment is not ours", async () => {
    const lab = new Lab();
    const own = await lab.started();
    for (const owner of [
      { ...OWNER, deployment: "staging" },
      { ...OWNER, object: "ffffffff" },
    ])
      await expect(
        lab.backendWith(SECRET, owner).control({ action: "stopWorkload", workload: own.job.name }, NOTHING_LIVE),
      ).rejects.toMatchObject({ code: "FORBIDDEN" });
    expect(lab.nomad.cluster.jobs.get(own.job.name)?.stop).toBe(false);
  });

  test("N 7, N 42: purge is not supported, and says what does it", async () => {
    const lab = new Lab();
    await expect(lab.backend.control({ action: "purgeTerminal" }, EXTERNAL)).rejects.toMatchObject({
      code: "BAD_REQUEST",
      message: expect.stringContaining("job_gc_threshold"),
    });
    expect(lab.nomad.requests).toEqual([]);
  });

  test("N 44: reclaim stops what runs for nobody and deletes the variables that ended jobs left", async () => {
    const lab = new Lab();
    const secret = { job: { secretEnv: { KEY: "API_KEY" } }, secrets: { KEY: "s3cret-value" } };
    const [needed, idle, over] = [await lab.started(secret), await lab.started(secret), await lab.started(secret)];
    lab.end(over);
    expect(lab.nomad.cluster.variables.size).toBe(3);
    const live = async () => new Set([needed.job.name]);
    const result = await lab.backend.control({ action: "reclaimIdle" }, { ...NOTHING_LIVE, liveUnits: live });
    expect(result).toMatchObject({ affected: [idle.job.name], affectedTotal: 1 });
    expect(lab.nomad.cluster.jobs.get(needed.job.name)?.stop).toBe(false);
    expect(lab.nomad.cluster.jobs.get(idle.job.name)?.stop).toBe(true);
    expect([...lab.nomad.cluster.variables.keys()]).toEqual([`nomad/jobs/${needed.job.name}`]);
  });

  test("cordon makes a node ineligible and back; it takes node:write and externalControl", async () => {
    const lab = new Lab({ rights: [...LEAST_RIGHTS, "node:write"] });
    const cordon = (node: string, cordoned: boolean, context = EXTERNAL) =>
      lab.backend.control({ action: "cordonNode", node, cordoned }, context);
    await expect(cordon("cli1", true, NOTHING_LIVE)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await cordon("cli1", true);
    expect((await lab.backend.inspect()).nodes?.[0]).toMatchObject({ schedulable: false, ready: true });
    await cordon("cli1", false);
    expect((await lab.backend.inspect()).nodes?.[0]).toMatchObject({ schedulable: true });
    await expect(cordon("no-such-node", true)).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(
      new Lab().backend.control({ action: "cordonNode", node: "cli1", cordoned: true }, EXTERNAL),
    ).rejects.toMatchObject({ code: "UPSTREAM_MISCONFIGURED", message: expect.stringContaining('policy = "write"') });
  });

  test("a service of one group is resized; a batch job has no copies, and two groups are not told apart", async () => {
    const lab = new Lab();
    const own = await lab.started();
    addForeign(lab, "web");
    const resize = (workload: string, context = EXTERNAL) =>
      lab.backend.control({ action: "resizeWorkload", workload, replicas: 3 }, context);
    await expect(resize("web", NOTHING_LIVE)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await expect(resize(own.job.name)).rejects.toMatchObject({
      code: "BAD_REQUEST",
      message: expect.stringContaining("batch"),
    });
    await expect(resize("nothing")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await resize("web")).toMatchObject({ affected: ["web"] });
    expect(lab.nomad.cluster.jobs.get("web")?.body.TaskGroups?.[0]).toMatchObject({ Count: 3 });
    lab.nomad.cluster.jobs.get("web")?.body.TaskGroups?.push({ Name: "second" });
    await expect(resize("web")).rejects.toMatchObject({ code: "BAD_REQUEST" });
  });
});
