import { afterEach, expect, test } from "vitest";
import { attemptOf, randomOwner, watched } from "./attempts.ts";
import { observeEnds } from "./conformance.ts";
import { type FakeTarget, fakeKubernetesTarget } from "./fake-kubernetes-target.ts";
import { endsOf, endsWell } from "./scenarios.ts";

let target: FakeTarget;
const owner = randomOwner();
const open = (options: Parameters<typeof fakeKubernetesTarget>[0] = {}) => {
  target = fakeKubernetesTarget(options);
  return target.backend(owner);
};
afterEach(() => target.close());

const FAIRNESS = {
  status: 429,
  body: "Too many requests, please try again\n",
  headers: { "retry-after": "7", "content-type": "text/plain" },
};
const FROZEN = { status: 504, body: '{"metadata":{},"status":"Failure"}', headers: { "content-type": "text/plain" } };

test.each([
  ["429 of fairness (K 79)", FAIRNESS, { code: "RATE_LIMITED", retryAfterSec: 7 }],
  ["500", { status: 500, body: "" }, { code: "UPSTREAM_ERROR", retryAfterSec: null }],
  [
    "503 with Retry-After",
    { status: 503, body: "", headers: { "retry-after": "30" } },
    { code: "UPSTREAM_ERROR", retryAfterSec: 30 },
  ],
  ["504 of a frozen etcd (K 91)", FROZEN, { code: "UPSTREAM_TIMEOUT" }],
  ["401", { status: 401, body: "" }, { code: "UPSTREAM_MISCONFIGURED" }],
  [
    "a redirect",
    { status: 302, body: "", headers: { location: "https://elsewhere.example.com" } },
    { code: "UPSTREAM_MISCONFIGURED" },
  ],
  ["a page of HTML", { status: 200, body: "<html></html>" }, { code: "UPSTREAM_MISCONFIGURED" }],
  ["an object that is no list", { status: 200, body: "{}" }, { code: "UPSTREAM_MISCONFIGURED" }],
  [
    "410 of an exact listing (K 48)",
    { status: 410, body: '{"kind":"Status","message":"too old","reason":"Expired"}' },
    { code: "UPSTREAM_ERROR" },
  ],
])("a listing that answers %s says nothing about any unit", async (_, answer, error) => {
  const backend = open();
  const attempt = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend.start(attempt);
  target.fake.fault = ({ path }) => (path.includes("/pods?") ? { kind: "answer", ...answer } : null);
  const sighting = await backend.observe([watched(attempt)], { waitMs: 0 });
  expect(sighting).toMatchObject({ ok: false, error });
});

test("a listing that breaks between two pages is no listing", async () => {
  const backend = open();
  const attempt = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend.start(attempt);
  const api = target.fake.api;
  const list = api.list.bind(api);
  api.list = (resource, namespace, call) => {
    call.query.set("limit", "1");
    return list(resource, namespace, call);
  };
  await backend.start(attemptOf(owner, { program: { command: "sleep 20" } }));
  const whole = await backend.observe([watched(attempt)], { waitMs: 0 });
  expect(whole.ok && whole.listed).toHaveLength(2);
  target.fake.fault = ({ path }) => (path.includes("continue=") ? { kind: "broken" } : null);
  expect(await backend.observe([watched(attempt)], { waitMs: 0 })).toMatchObject({ ok: false });
});

test("a stale listing without the Job does not make a unit absent: the read by name decides", async () => {
  const backend = open();
  const attempt = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend.start(attempt);
  const empty = { kind: "answer", status: 200, body: '{"metadata":{"resourceVersion":"1"},"items":[]}' } as const;
  target.fake.fault = ({ path }) => (path.includes("labelSelector") ? empty : null);
  const stale = await backend.observe([watched(attempt)], { waitMs: 0 });
  expect(stale).toMatchObject({ ok: true, units: [{ state: "pending" }] });
  target.fake.fault = ({ path }) =>
    path.includes("labelSelector") ? empty : { kind: "answer", status: 500, body: "" };
  expect(await backend.observe([watched(attempt)], { waitMs: 0 })).toMatchObject({ ok: true, units: [] });
});

test("a watch that is too old comes as 200 with an ERROR event and only means to list again (K 47)", async () => {
  const backend = open({ speed: 1_000 });
  const attempt = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend.start(attempt);
  await observeEnds(backend, [attempt], ({ state }) => state === "running");
  target.fake.store.oldest = Number.MAX_SAFE_INTEGER;
  const sighting = await backend.observe([watched(attempt)], { waitMs: 15_000 });
  expect(sighting).toMatchObject({ ok: true, units: [{ state: "running" }] });
  expect(target.fake.requests.slice(-3)).toEqual([
    "GET /api/v1/namespaces/evals/pods",
    "GET /apis/batch/v1/namespaces/evals/jobs",
    "GET /api/v1/namespaces/evals/pods",
  ]);
});

test("an end is told by the watch, long before the wait is over", async () => {
  const backend = open({ speed: 1_000 });
  const attempt = attemptOf(owner, { program: { command: "sleep 2" } });
  await backend.start(attempt);
  // Without a wait: on the fake's fast clock a running unit is old news at once.
  await expect
    .poll(() => backend.observe([watched(attempt)], { waitMs: 0 }), { timeout: 30_000 })
    .toMatchObject({ ok: true, units: [{ state: "running" }] });
  const sighting = await backend.observe([watched(attempt)], { waitMs: 20_000 });
  expect(sighting).toMatchObject({ ok: true, units: [{ state: "finished" }] });
});

test("whatever answer of a start is lost, one Job comes of it and none is lost", async () => {
  const backend = open();
  let seed = 1;
  const chance = (): number => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const kinds = ["lost-answer", "broken"] as const;
  for (let n = 0; n < 100; n++) {
    const attempt = attemptOf(owner, {
      program: { command: "true" },
      job: { resources: { cpu: 900_000, memoryMb: 64, gpu: null } },
    });
    target.fake.fault = ({ method }) =>
      method !== "GET" && chance() < 0.4 ? { kind: kinds[chance() < 0.5 ? 0 : 1] ?? "broken" } : null;
    let result = await backend.start(attempt);
    for (let tries = 0; result.kind !== "started" && tries < 50; tries++) result = await backend.start(attempt);
    expect(result).toMatchObject({ kind: "started", externalId: attempt.job.name });
  }
  target.fake.fault = () => null;
  const jobs = target.fake.store.list("jobs", "evals");
  expect(jobs).toHaveLength(100);
  expect(new Set(jobs.map(({ labels }) => labels["everdict.dev/run"])).size).toBe(100);
});

test("a result whose log cannot be read is not lost: it comes when the node answers again (K 61)", async () => {
  const backend = open();
  const attempt = attemptOf(owner, {
    program: { command: "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done" },
  });
  await backend.start(attempt);
  target.fake.fault = ({ path }) =>
    path.includes("/log") ? { kind: "answer", status: 500, body: "connection refused" } : null;
  const ended = () => target.fake.store.list("jobs", "evals").some(({ status }) => status.active === 0);
  while (!ended()) await new Promise((resolve) => setTimeout(resolve, 20));
  const sighting = await backend.observe([watched(attempt)], { waitMs: 0 });
  expect(sighting).toMatchObject({
    ok: true,
    units: [{ state: "running", detail: expect.stringContaining("cannot be read yet") }],
  });
  target.fake.fault = () => null;
  const end = endsWell(endsOf((await observeEnds(backend, [attempt])).get(attempt.job.name)));
  expect(end.partial).toBe(false);
  expect(end.outcome.stdout).toContain("line 1999");
});

test("a result whose log is gone for good is its compact Outcome, and says what is missing", async () => {
  const backend = open();
  const attempt = attemptOf(owner, {
    program: { command: "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; exit 3" },
  });
  await backend.start(attempt);
  const gone = '{"kind":"Status","message":"pods \\"x\\" not found","reason":"NotFound"}';
  target.fake.fault = ({ path }) => (path.includes("/log") ? { kind: "answer", status: 404, body: gone } : null);
  const end = endsWell(endsOf((await observeEnds(backend, [attempt])).get(attempt.job.name)));
  expect(end).toMatchObject({ partial: true, outcome: { exitCode: 3, stdout: "", truncated: ["stdout"] } });
});

test("a Secret without a Job and a Job that nobody asks for go with the sweep, younger and other ones stay", async () => {
  const backend = open({ speed: 5_000 });
  const orphan = attemptOf(owner);
  target.fake.fault = ({ method, path }) => (method === "POST" && path.includes("/jobs") ? { kind: "broken" } : null);
  expect(await backend.start(orphan)).toMatchObject({ kind: "unknown" });
  target.fake.fault = () => null;
  const forgotten = attemptOf(owner, { program: { command: "true" } });
  const wanted = attemptOf(owner, { program: { command: "true" } });
  for (const attempt of [forgotten, wanted]) await backend.start(attempt);
  await observeEnds(backend, [forgotten, wanted]);
  const names = (resource: string) =>
    target.fake.store
      .list(resource, "evals")
      .map(({ name }) => name)
      .sort();
  expect(names("secrets")).toHaveLength(3);
  while (names("secrets").length > 1) {
    await backend.observe([watched(wanted)], { waitMs: 0, sweep: true });
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  expect(names("secrets")).toEqual([wanted.job.name]);
  expect(names("jobs")).toEqual([wanted.job.name]);
});

test("a full quota on Jobs is a pause, a namespace that ends or is absent a failure, a missing right a fault (K 67, 69)", async () => {
  const backend = open();
  const quota =
    '{"kind":"Status","message":"jobs.batch \\"x\\" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=3, limited: count/jobs.batch=3","reason":"Forbidden","code":403}';
  target.fake.fault = ({ method, path }) =>
    method === "POST" && path.includes("/jobs") ? { kind: "answer", status: 403, body: quota } : null;
  expect(await backend.start(attemptOf(owner))).toMatchObject({
    kind: "unknown",
    error: { code: "RATE_LIMITED", retryAfterSec: 15 },
  });
  target.fake.fault = () => null;
  target.fake.denied.add("create jobs");
  expect(await backend.start(attemptOf(owner))).toMatchObject({
    kind: "unknown",
    error: { code: "UPSTREAM_MISCONFIGURED", message: expect.stringContaining("create jobs.batch") },
  });
  target.fake.denied.clear();
  target.fake.api.terminating.add("evals");
  expect(await backend.start(attemptOf(owner))).toMatchObject({
    kind: "failed",
    failure: { code: "NAMESPACE_TERMINATING", class: "config" },
  });
  target.fake.api.terminating.clear();
  const namespace = target.fake.store.get("namespaces", "", "evals");
  if (namespace) target.fake.store.remove(namespace);
  expect(await backend.start(attemptOf(owner))).toMatchObject({
    kind: "failed",
    failure: { code: "NAMESPACE_MISSING", class: "config" },
  });
  const making = target.backendOf({ createNamespace: true }, owner);
  expect(await making.start(attemptOf(owner))).toMatchObject({ kind: "started" });
});

test("a policy's refusal is told in its words and leaves no Secret behind (K 68)", async () => {
  const backend = open();
  const refusal =
    '{"kind":"Status","message":"jobs.batch \\"v1\\" is forbidden: ValidatingAdmissionPolicy \'rec\' with binding \'rec\' denied request: images must come from docker.io/rec","reason":"Invalid","code":422}';
  target.fake.fault = ({ method, path }) =>
    method === "POST" && path.includes("/jobs") ? { kind: "answer", status: 422, body: refusal } : null;
  expect(await backend.start(attemptOf(owner))).toMatchObject({
    kind: "failed",
    failure: {
      code: "ADMISSION_DENIED",
      class: "config",
      message: expect.stringContaining("images must come from docker.io/rec"),
    },
  });
  expect(target.fake.store.list("secrets", "evals")).toEqual([]);
});

test("a quota on pods shows only in events, waits in words, and heals (K 63, 64)", async () => {
  const backend = open({ podQuota: 1 });
  const first = attemptOf(owner, { program: { command: "sleep 2" } });
  const second = attemptOf(owner, { program: { command: "true" } });
  await backend.start(first);
  await observeEnds(backend, [first], ({ state }) => state === "running");
  await backend.start(second);
  const words = await observeEnds(backend, [second], ({ detail }) => detail?.includes("exceeded quota") === true);
  expect(words.get(second.job.name)).toMatchObject({ state: "pending" });
  const ends = await observeEnds(backend, [first, second]);
  expect([...ends.values()].map(({ end }) => end?.kind)).toEqual(["outcome", "outcome"]);
});

test("an unplaced unit waits in the scheduler's own words until placementTimeoutSec", async () => {
  const waiting = open();
  const attempt = attemptOf(owner, { job: { resources: { cpu: 900_000, memoryMb: 64, gpu: null } } });
  await waiting.start(attempt);
  const seen = await observeEnds(waiting, [attempt], ({ detail }) => detail?.includes("Insufficient cpu") === true);
  expect(seen.get(attempt.job.name)?.state).toBe("pending");
  const limited = target.backendOf({ placementTimeoutSec: 20 }, owner);
  const end = endsOf((await observeEnds(limited, [attempt])).get(attempt.job.name));
  expect(end).toMatchObject({ kind: "failure", failure: { code: "UNSCHEDULABLE_CPU", retryable: true } });
});

test("a plain DELETE would orphan the pod: ours always says Background and names the uid (K 44)", async () => {
  const backend = open();
  const attempt = attemptOf(owner, { program: { command: "sleep 30" } });
  await backend.start(attempt);
  await observeEnds(backend, [attempt], ({ state }) => state === "running");
  let sent = "";
  const api = target.fake.api;
  const remove = api.delete.bind(api);
  api.delete = (resource, namespace, name, call) => {
    if (resource === "jobs") sent = call.body;
    return remove(resource, namespace, name, call);
  };
  await backend.stop([attempt.job.name]);
  expect(JSON.parse(sent)).toMatchObject({
    propagationPolicy: "Background",
    preconditions: { uid: expect.any(String) },
  });
});
