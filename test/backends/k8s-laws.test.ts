import { readFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import * as z from "zod";
import { attemptName } from "../../contracts/names.ts";
import { K8sRuntime } from "../../contracts/runtime-spec.ts";
import { apiError } from "../../worker/backends/k8s/api-error.ts";
import { KubeEvent, KubeJob, Pod, timeOf } from "../../worker/backends/k8s/api-types.ts";
import { jobDocument, secretDocument } from "../../worker/backends/k8s/documents.ts";
import { foldUnit } from "../../worker/backends/k8s/fold.ts";
import { RIGHTS } from "../../worker/backends/k8s/rights.ts";
import { attemptOf, randomOwner, watched } from "./attempts.ts";
import { observeEnds } from "./conformance.ts";
import { type FakeTarget, fakeKubernetesTarget } from "./fake-kubernetes-target.ts";
import { endsOf, endsWell } from "./scenarios.ts";

/* Laws of Kubernetes by numbered fact, where no other test has them. */

let target: FakeTarget | undefined;
const owner = randomOwner();
afterEach(async () => {
  await target?.close();
  target = undefined;
});
const open = () => {
  target = fakeKubernetesTarget();
  return target;
};

const status = (code: number, reason: string, message: string, details?: unknown) =>
  JSON.stringify({ kind: "Status", status: "Failure", message, reason, code, details });
const refusal = (code: number, body: string, type = "application/json") =>
  apiError(RIGHTS.createJob, { status: code, headers: new Headers({ "content-type": type }), body: null }, body);

test("K 3: an unknown credential is 401 with a Status, and is told as that, never as a missing right", () => {
  expect(refusal(401, status(401, "Unauthorized", "Unauthorized"))).toMatchObject({
    code: "UPSTREAM_MISCONFIGURED",
    reason: "Unauthorized",
    message: expect.stringContaining("authSecret"),
  });
});

test("K 5: a path the API does not serve is 404 in plain text, and no absent object", () => {
  expect(refusal(404, "404 page not found\n", "text/plain")).toMatchObject({
    code: "UPSTREAM_MISCONFIGURED",
    reason: "NotServed",
  });
  expect(refusal(404, status(404, "NotFound", 'jobs.batch "x" not found', { kind: "jobs" }))).toMatchObject({
    code: "NOT_FOUND",
    reason: "NotFound",
  });
});

test("K 13: 400 and 422 both mean that the document is wrong", () => {
  for (const code of [400, 422])
    expect(refusal(code, status(code, code === 400 ? "BadRequest" : "Invalid", "quantities must match")).code).toBe(
      "BAD_REQUEST",
    );
});

test("K 15, K 20: names and label values of every attempt fit, whatever its number", () => {
  for (const epoch of [1, 999_999]) {
    const attempt = attemptOf({ deployment: "evd-0123456789ab", object: "01234567" }, { epoch });
    const document = jobDocument(attempt, k8sSpec(), { deployment: "evd-0123456789ab", object: "01234567" });
    const { metadata } = z
      .object({ metadata: z.object({ name: z.string(), labels: z.record(z.string(), z.string()) }) })
      .parse(document);
    expect(metadata.name).toMatch(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
    expect(metadata.name).toBe(attemptName("01234567", attempt.runId, epoch));
    for (const value of Object.values(metadata.labels))
      expect(value).toMatch(/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/);
  }
});

const k8sSpec = () =>
  K8sRuntime.parse({
    kind: "k8s",
    id: "pool",
    version: "1.0.0",
    image: "busybox:1.36",
    server: "https://k8s.example.com",
    authSecret: "K8S_TOKEN",
  });

test("K 17: what is too big for etcd is refused by us in our own words, before anything is sent", async () => {
  const { backend, fake } = open();
  const attempt = attemptOf(owner, { job: { program: `#${"x".repeat(1_100_000)}\n` } });
  expect(await backend(owner).start(attempt)).toMatchObject({
    kind: "failed",
    failure: { code: "JOB_TOO_LARGE", message: expect.stringContaining("bytes") },
  });
  expect(fake.requests).toEqual([]);
});

test("K 18: a program of any size travels as a file: no string of the Job is near the 128 KiB of one argument", () => {
  const attempt = attemptOf(owner, { job: { program: `#${"x".repeat(700_000)}\n` } });
  const longest = Math.max(
    ...[...JSON.stringify(jobDocument(attempt, k8sSpec(), owner)).matchAll(/"(.*?)"/g)].map(
      ([, text]) => text?.length ?? 0,
    ),
  );
  expect(longest).toBeLessThan(1_000);
  expect(JSON.stringify(secretDocument(attempt, owner)).length).toBeGreaterThan(700_000);
});

test("K 10, K 42, K 45: Secret, then Job, then the Secret's owner by the uid of the very Job; a repeat adopts", async () => {
  const { backend, fake } = open();
  const attempt = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend(owner).start(attempt);
  expect(fake.requests.map((line) => line.replace(/\/api.*namespaces\/evals/, ""))).toEqual([
    "POST /secrets",
    expect.stringMatching(/^POST \/jobs$/),
    `PATCH /secrets/${attempt.job.name}`,
  ]);
  const job = fake.store.get("jobs", "evals", attempt.job.name);
  expect(fake.store.get("secrets", "evals", attempt.job.name)?.owners).toEqual([
    { kind: "Job", name: attempt.job.name, uid: job?.uid },
  ]);
  expect(await backend(owner).start(attempt)).toMatchObject({ kind: "started", adopted: true });
  expect(fake.store.list("jobs", "evals")).toHaveLength(1);
});

test("K 22, K 46: of two lives of one name the pod of this Job counts, by the controller's uid", () => {
  const { job, pods, events } = recorded("04-02-exit-3");
  const [pod] = pods;
  if (!pod) throw new Error("no pod");
  const elder = {
    ...pod,
    metadata: {
      ...pod.metadata,
      name: "elder",
      labels: { ...pod.metadata.labels, "batch.kubernetes.io/controller-uid": "another" },
    },
  };
  const look = (left: Pod[]) =>
    foldUnit(
      unit,
      { job: { ...job, status: {} }, pods: left, events },
      { nowMs: timeOf(job.metadata.creationTimestamp) ?? 0, placementTimeoutSec: 0 },
    );
  expect(look([elder, pod])).toMatchObject({ kind: "ended", end: { pod: pod.metadata.name } });
  expect(look([elder])).toMatchObject({ kind: "alive" });
});

const Recorded = z.array(
  z.object({ recording: z.string(), job: KubeJob, pods: z.array(Pod), events: z.array(KubeEvent) }),
);
const RECORDED = Recorded.parse(
  JSON.parse(readFileSync(new URL("recordings/k8s-units.json", import.meta.url).pathname, "utf8")),
);
const unit = watched(attemptOf(randomOwner()));
function recorded(name: string) {
  const found = RECORDED.find(({ recording }) => recording === name);
  if (!found) throw new Error(`no recording ${name}`);
  return found;
}

test("K 23, K 26: a container's end is the end, while pod and Job still say that they run", () => {
  const { job, pods } = recorded("04-02-exit-3");
  const lagging = { ...job, status: { startTime: job.status.startTime } };
  for (const phase of ["Pending", "Running"]) {
    const behind = pods.map((pod) => ({ ...pod, status: { ...pod.status, phase } }));
    expect(
      foldUnit(unit, { job: lagging, pods: behind, events: null }, { nowMs: Date.now(), placementTimeoutSec: 0 }),
      phase,
    ).toMatchObject({ kind: "ended" });
  }
});

test("K 24: a Job that no controller has seen yet is pending, however long", () => {
  const { job } = recorded("04-01-succeeded");
  const fresh = { ...job, status: {} };
  const made = timeOf(job.metadata.creationTimestamp) ?? 0;
  expect(
    foldUnit(unit, { job: fresh, pods: [], events: [] }, { nowMs: made + 3_600_000, placementTimeoutSec: 0 }),
  ).toMatchObject({ kind: "alive", state: "pending" });
});

test("K 27, K 29: the deadline stands on the pod, which keeps its logs, and not on the Job, which would delete it", () => {
  const { spec } = z
    .object({ spec: z.looseObject({ template: z.object({ spec: z.looseObject({}) }) }) })
    .parse(jobDocument(attemptOf(owner), k8sSpec(), owner));
  expect(spec).not.toHaveProperty("activeDeadlineSeconds");
  expect(spec.template.spec).toHaveProperty("activeDeadlineSeconds");
});

test("K 40: a finished Job outlives every reader: a day, as we delete it ourselves once its result is kept", () => {
  expect(jobDocument(attemptOf(owner), k8sSpec(), owner)).toMatchObject({ spec: { ttlSecondsAfterFinished: 86_400 } });
});

test("K 50, K 51: a watch goes on from its listing, asks for bookmarks, and says when it is to end", async () => {
  const { backend, fake } = open();
  const attempt = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend(owner).start(attempt);
  const watches: URLSearchParams[] = [];
  fake.fault = ({ path }) => {
    const query = new URL(path, "http://fake").searchParams;
    if (query.has("watch")) watches.push(query);
    return null;
  };
  await observeEnds(backend(owner), [attempt], ({ state }) => state === "running");
  await new Promise((resolve) => setTimeout(resolve, 3_100));
  await backend(owner).observe([watched(attempt)], { waitMs: 1_500 });
  expect(watches.length).toBeGreaterThan(0);
  for (const query of watches) {
    expect(Number(query.get("resourceVersion"))).toBeGreaterThan(0);
    expect(query.get("allowWatchBookmarks")).toBe("true");
    expect(Number(query.get("timeoutSeconds"))).toBeGreaterThan(0);
  }
});

test("K 54, K 62: logs are read by their last lines and cut by us: limitBytes keeps the first ones, and 0 is refused", async () => {
  const { backend, fake } = open();
  const asked: URLSearchParams[] = [];
  fake.fault = ({ path }) => {
    if (path.includes("/log?")) asked.push(new URL(path, "http://fake").searchParams);
    return null;
  };
  const attempt = attemptOf(owner, {
    program: { command: "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; sleep 8" },
  });
  await backend(owner).start(attempt);
  await observeEnds(backend(owner), [attempt], ({ state }) => state === "running");
  await expect
    .poll(async () => (await backend(owner).logs(attempt.job.name, { tailBytes: 20 })).text, { timeout: 10_000 })
    .toContain("line 1999\n");
  expect((await backend(owner).logs(attempt.job.name, { tailBytes: 20 })).text.length).toBeLessThanOrEqual(20);
  await backend(owner).follow(attempt.job.name, null, (raw) => raw.length);
  expect(
    endsWell(endsOf((await observeEnds(backend(owner), [attempt])).get(attempt.job.name))).outcome.stdout,
  ).toContain("line 1999");
  expect(asked.length).toBeGreaterThan(2);
  for (const query of asked) {
    expect(query.has("limitBytes")).toBe(false);
    expect(query.has("stream")).toBe(false);
    expect(query.get("tailLines")).not.toBe("0");
  }
});

test("K 87: a unit that delivered its Outcome while its node was away counts, though its pod was marked for deletion", () => {
  const { job, pods } = recorded("04-01-succeeded");
  const compact = `__EVERDICT_RESULT__ ${unit.nonce} ${btoa("everdict 1\nexit 0\nms 5\ntimeout 0\nnode +4\nbox1\nout 2 +2\nhi\nerr 0 +0\n\n")}`;
  const back = pods.map((pod) => ({
    ...pod,
    metadata: { ...pod.metadata, deletionTimestamp: pod.metadata.creationTimestamp },
    status: {
      ...pod.status,
      containerStatuses: [
        { name: "main", state: { terminated: { exitCode: 0, reason: "Completed", message: compact } } },
      ],
    },
  }));
  const folded = foldUnit(unit, { job, pods: back, events: null }, { nowMs: Date.now(), placementTimeoutSec: 0 });
  expect(folded).toMatchObject({ kind: "ended", end: { compact: { exitCode: 0, stdout: "hi" } } });
});

test("K 90: an API server that goes away refuses connections, which says nothing about any unit", async () => {
  const { backend, fake } = open();
  const attempt = attemptOf(owner, { program: { command: "sleep 20" } });
  await backend(owner).start(attempt);
  fake.fault = () => ({ kind: "broken" });
  expect(await backend(owner).observe([watched(attempt)], { waitMs: 0 })).toMatchObject({
    ok: false,
    error: { code: "UPSTREAM_ERROR" },
  });
  fake.fault = () => null;
  await observeEnds(backend(owner), [attempt], ({ state }) => state === "running");
});
