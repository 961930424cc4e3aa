import { env } from "cloudflare:workers";
import { afterEach, expect, test } from "vitest";
import type { Inspection } from "../../contracts/inspection.ts";
import { Inspections } from "../../durable-objects/scheduler/inspections.ts";
import { resetScript, script } from "./dispatcher.ts";

afterEach(resetScript);

const REF = { owner: "acme", id: "gpu", version: "1.0.0", workspace: "acme" };
const seen = (detail: string): Inspection => ({
  kind: "nomad",
  reachable: true,
  detail,
  reason: null,
  cluster: null,
  units: { cpu: "MHz", memory: "MiB", disk: "MiB" },
  nodes: null,
  nodesTotal: null,
  capacity: null,
  workload: null,
  workloadTotal: null,
  stores: null,
  warnings: [],
  readAt: "2026-01-01T00:00:00.000Z",
});

test("20 viewers of a runtime cause one read", async () => {
  const asked: string[] = [];
  script.inspect = async (object, { version }) => {
    asked.push(`${object} ${version}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
    return seen(`reading ${asked.length}`);
  };
  const object = "cluster:acme:viewed";
  const looks = Array.from({ length: 20 }, () => env.SCHEDULER.getByName(object).inspect(object, REF));
  const details = new Set((await Promise.all(looks)).map(({ detail }) => detail));
  expect([...details]).toEqual(["reading 1"]);
  expect((await env.SCHEDULER.getByName(object).inspect(object, REF)).detail).toBe("reading 1");
  expect(asked).toEqual([`${object} 1.0.0`]);
  await env.SCHEDULER.getByName(object).inspect(object, { ...REF, version: "2.0.0" });
  await env.SCHEDULER.getByName(object).forgetInspections();
  expect((await env.SCHEDULER.getByName(object).inspect(object, REF)).detail).toBe("reading 3");
});

test("a reading is good for 5 s after it came; one that failed is asked for again", async () => {
  let now = 0;
  let reads = 0;
  let fails = false;
  const inspections = new Inspections(
    async () => {
      reads++;
      if (fails) throw new Error("the Dispatcher is away");
      return seen(`reading ${reads}`);
    },
    () => now,
  );
  await inspections.look(REF);
  now = 4_999;
  await inspections.look(REF);
  expect(reads).toBe(1);
  now = 5_000;
  expect((await inspections.look(REF)).detail).toBe("reading 2");
  fails = true;
  now = 20_000;
  await expect(inspections.look(REF)).rejects.toThrow("away");
  await expect(inspections.look(REF)).rejects.toThrow("away");
  expect(reads).toBe(4);
  fails = false;
  expect((await inspections.look(REF)).detail).toBe("reading 5");
});
