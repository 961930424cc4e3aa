import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, test } from "vitest";
import type { Observation } from "../../contracts/rpc.ts";
import { resetScript } from "./dispatcher.ts";
import { ENVELOPE, entryOf, LIMITS } from "./scheduler-builders.ts";

afterEach(resetScript);

const METRIC = "everdict_cluster_reasons_unknown_total";

test("reasons of a cluster that nobody knows are counted once each, and whose logs are watched is told to the Dispatcher", async () => {
  const object = "cluster:acme:odd";
  const stub = env.SCHEDULER.getByName(object);
  const [odd, plain] = [entryOf({ target: "odd" }), entryOf({ target: "odd" })];
  await stub.enqueue(object, ENVELOPE, LIMITS, [odd, plain]);
  await expect.poll(() => stub.liveUnits(), { timeout: 5_000 }).toHaveLength(2);
  const units = await stub.liveUnits();
  await stub.follow(odd.runId);
  const failed = (runId: string, code: string): Observation["units"][number] => ({
    runId,
    epoch: 1,
    name: units.find((name) => name.includes(runId.slice(4))) ?? "",
    state: "finished",
    node: "n1",
    detail: null,
    verdict: {
      kind: "failed",
      failure: { stage: "install", class: "infra", code, message: "QuantumFluctuation", retryable: false },
      stdout: "",
      stderr: "",
      node: "n1",
      durationMs: null,
    },
  });
  const observation: Observation = {
    ok: true,
    error: null,
    units: [failed(odd.runId, "CLUSTER_REASON_UNKNOWN"), failed(plain.runId, "IMAGE_NOT_FOUND")],
    listed: [],
  };
  await expect
    .poll(async () => (await stub.views([odd.runId, plain.runId])).map(({ status }) => status), { timeout: 5_000 })
    .toEqual(["running", "running"].map(() => expect.stringMatching(/dispatching|running/)));
  expect(await stub.observed(observation)).toEqual({ followed: [odd.runId] });
  await stub.observed(observation);
  expect((await stub.gauges())[METRIC]).toBe(1);
  await evictDurableObject(stub);
  expect((await env.SCHEDULER.getByName(object).gauges())[METRIC]).toBe(1);
});
