import { availableParallelism, hostname } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openEngine } from "../../runner/engine.ts";
import { DockerEngine } from "../../runner/executors/docker-engine.ts";
import { ControlPlane, until } from "../support/control-plane.ts";

let plane: ControlPlane;
beforeAll(async () => {
  plane = await ControlPlane.start();
});
afterAll(() => plane?.stop());

/** What answers on this machine, asked as the server does. */
async function containerRuntime(): Promise<string | null> {
  const engine = openEngine(process.env);
  const facts = engine instanceof DockerEngine ? await engine.facts() : null;
  return facts !== null && "version" in facts ? `docker://${facts.version}` : null;
}

test("a local runtime shows this machine and what runs on it", async () => {
  const client = plane.client();
  await client.call("create_runtime", { body: { kind: "local", id: "here", version: "1.0.0" } });
  const look = () => client.call("inspect_runtime", { params: { id: "here", version: "latest" } });
  expect(await look()).toMatchObject({
    kind: "local",
    reachable: true,
    nodes: [
      {
        name: hostname(),
        ready: true,
        cpu: { total: availableParallelism() * 1_000 },
        containerRuntime: await containerRuntime(),
      },
    ],
    nodesTotal: 1,
    workload: [],
    warnings: [],
  });
  const { id } = await client.call("submit_run", {
    body: {
      harness: { spec: { kind: "command", command: "sleep 30" } },
      case: { id: "c1", task: "-", graders: [{ kind: "exit-code" }] },
      runtime: "here",
    },
  });
  const unit = await until("the unit is shown", 20_000, async () => (await look()).workload?.[0]);
  expect(unit).toMatchObject({ ours: true, role: "job", state: "running" });
  expect(unit.unit).toContain(id.slice("run_".length));
  await client.call("cancel_run", { params: { id } });
});
