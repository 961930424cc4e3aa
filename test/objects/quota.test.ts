import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test } from "vitest";
import { freshRunId } from "./scheduler-builders.ts";

let workspaces = 0;
const quota = () => env.QUOTA.getByName(`quota-test-${++workspaces}`);
const refs = (count: number) => Array.from({ length: count }, () => ({ runId: freshRunId(), epoch: 1 }));

test("places are granted in order up to the limit, over all objects, and survive eviction", async () => {
  const stub = quota();
  const asked = refs(3);
  expect(await stub.acquire("one", 2, asked)).toEqual({ granted: asked.slice(0, 2), denied: asked.slice(2) });
  await evictDurableObject(stub);
  const more = refs(1);
  expect(await stub.acquire("two", 2, more)).toEqual({ granted: [], denied: more });
});

test("asking twice for the same attempt takes one place", async () => {
  const stub = quota();
  const asked = refs(1);
  await stub.acquire("one", 2, asked);
  expect((await stub.acquire("one", 2, asked)).granted).toEqual(asked);
  expect((await stub.acquire("one", 2, refs(1))).granted).toHaveLength(1);
});

test("a released place can be taken again, and a release of nothing frees nothing", async () => {
  const stub = quota();
  const asked = refs(1);
  await stub.acquire("one", 1, asked);
  await stub.release("one", refs(1));
  expect((await stub.acquire("two", 1, refs(1))).granted).toHaveLength(0);
  await stub.release("one", asked);
  expect((await stub.acquire("two", 1, refs(1))).granted).toHaveLength(1);
});

test("reconciling replaces what one object holds and leaves the others alone", async () => {
  const stub = quota();
  await stub.acquire("one", 3, refs(2));
  await stub.acquire("two", 3, refs(1));
  await stub.reconcile("one", []);
  expect((await stub.acquire("three", 3, refs(3))).granted).toHaveLength(2);
});

test("submits are limited by a token bucket that says how long to wait", async () => {
  const stub = quota();
  expect(await stub.takeSubmits(10, 1, 10)).toEqual({ waitSec: 0 });
  const { waitSec } = await stub.takeSubmits(5, 1, 10);
  expect(waitSec).toBeGreaterThanOrEqual(4);
  expect(waitSec).toBeLessThanOrEqual(5);
});

test("a submit larger than the burst passes when the bucket is full and pays afterwards", async () => {
  const stub = quota();
  expect(await stub.takeSubmits(100, 10, 20)).toEqual({ waitSec: 0 });
  expect((await stub.takeSubmits(1, 10, 20)).waitSec).toBeGreaterThanOrEqual(8);
});
