import { expect, test } from "vitest";
import { CASE, DATASET, ECHO, NOMAD, POLL, workspace } from "./support.ts";

test("a runtime is registered, read, listed and refused when another content has its version", async () => {
  const { api, id } = await workspace();
  const created = await api.call("POST", "/runtimes", NOMAD);
  expect(created.status).toBe(201);
  expect(created.body).toMatchObject({ id: "gpu", version: "1.0.0", owner: id, warnings: expect.any(Array) });
  expect((await api.call("POST", "/runtimes", NOMAD)).status).toBe(200);
  const other = await api.call("POST", "/runtimes", { ...NOMAD, maxConcurrent: 3 });
  expect(other.status).toBe(409);
  expect(other.body).toMatchObject({ code: "CONFLICT", data: { nextVersion: "1.0.1" } });
  await api.call("POST", "/runtimes", { ...NOMAD, version: "1.0.10" });
  await api.call("POST", "/runtimes", { ...NOMAD, version: "1.0.9" });
  expect((await api.call("GET", "/runtimes/gpu/versions/latest")).body.version).toBe("1.0.10");
  const list = await api.call("GET", "/runtimes");
  expect(list.body).toMatchObject({
    nextCursor: null,
    items: [
      {
        id: "gpu",
        kind: "nomad",
        latest: "1.0.10",
        versions: ["1.0.0", "1.0.9", "1.0.10"],
        tags: { "1.0.0": ["gpu"] },
        health: null,
      },
    ],
  });
  expect(list.body.items[0].capabilities).toEqual(["docker", "git"]);
});

test("validate names what is missing and how the cluster would be reached", async () => {
  const { api } = await workspace();
  const answer = await api.call("POST", "/runtimes/validate", { ...NOMAD, addr: "https://10.0.0.7:4646" });
  expect(answer.status).toBe(200);
  expect(answer.body).toMatchObject({
    ok: true,
    errors: [],
    versionExists: false,
    missingSecrets: ["NOMAD_TOKEN"],
    reachability: { verdict: "relay", reasons: ["private-address"] },
  });
  expect(answer.body.receipt).toEqual(expect.any(String));
  const bad = await api.call("POST", "/runtimes/validate", { kind: "nomad", id: "x", versoin: "1.0.0" });
  expect(bad.status).toBe(200);
  expect(bad.body).toMatchObject({ ok: false, receipt: null });
  expect(bad.body.errors.map((issue: { path: string }) => issue.path)).toEqual(
    expect.arrayContaining(["versoin", "version", "addr", "image"]),
  );
});

test("a run is accepted with the shape of a Run and says why it waits", async () => {
  const { api } = await workspace();
  await api.call("POST", "/harnesses", ECHO);
  const accepted = await api.call("POST", "/runs", {
    harness: { id: "echo", version: "latest" },
    case: CASE,
    runtime: "self:ws",
  });
  expect(accepted.status).toBe(202);
  expect(accepted.body).toMatchObject({
    status: "queued",
    target: "self:ws",
    runtime: null,
    harness: { id: "echo", version: "1.0.0" },
    caseId: "c1",
    trial: 1,
    scorecardId: null,
    epoch: 0,
    result: null,
    failure: null,
    provenance: null,
    attempts: [],
  });
  const read = await api.call("GET", `/runs/${accepted.body.id}`);
  expect(read.body.waiting).toMatchObject({
    position: 1,
    reason: "no-runner",
    detail: expect.stringContaining("no runner"),
    etaSec: null,
  });
  const queue = await api.call("GET", "/queue");
  expect(queue.body.entries).toMatchObject([{ runId: accepted.body.id, target: "self:ws", position: 1 }]);
  const cancelled = await api.call("POST", `/runs/${accepted.body.id}/cancel`);
  expect(cancelled.status).toBe(202);
  expect(cancelled.body.status).toBe("cancelled");
  expect((await api.call("POST", `/runs/${accepted.body.id}/cancel`)).status).toBe(409);
});

test("a scorecard waits for its concurrency and is cancelled whole", async () => {
  const { api } = await workspace();
  await api.call("POST", "/harnesses", ECHO);
  await api.call("POST", "/datasets", DATASET);
  const accepted = await api.call("POST", "/scorecards", {
    dataset: { id: "smoke", version: "latest" },
    harness: { id: "echo", version: "latest" },
    runtime: "self:ws",
    concurrency: 1,
  });
  expect(accepted.status).toBe(202);
  expect(accepted.body).toMatchObject({
    status: "queued",
    targets: ["self:ws"],
    progress: { total: 2, queued: 2, running: 0, succeeded: 0, failed: 0, cancelled: 0 },
    summary: null,
  });
  const { id } = accepted.body;
  await expect
    .poll(async () =>
      (await api.call("GET", `/scorecards/${id}/runs`)).body.items.map(
        (run: { waiting: { reason: string } | null }) => run.waiting?.reason,
      ),
    )
    .toEqual(["no-runner", "concurrency"]);
  const cancelled = await api.call("POST", `/scorecards/${id}/cancel`);
  expect(cancelled.status).toBe(202);
  await expect.poll(async () => (await api.call("GET", `/scorecards/${id}`)).body.status).toBe("cancelled");
  await expect
    .poll(async () =>
      (await api.call("GET", `/scorecards/${id}/runs`)).body.items.map((run: { status: string }) => run.status),
    )
    .toEqual(["cancelled", "cancelled"]);
});

test("a scorecard's stream that is resumed after its end says the end again and closes", async () => {
  const { api } = await workspace();
  await api.call("POST", "/harnesses", ECHO);
  await api.call("POST", "/datasets", DATASET);
  const { id } = (
    await api.call("POST", "/scorecards", { dataset: { id: "smoke" }, harness: { id: "echo" }, runtime: "self:ws" })
  ).body;
  await api.call("POST", `/scorecards/${id}/cancel`);
  await expect.poll(async () => (await api.call("GET", `/scorecards/${id}`)).body.status).toBe("cancelled");
  const read = async (headers: Record<string, string>) =>
    (await api.call("GET", `/scorecards/${id}/stream`, undefined, headers)).body as string;
  const last = /id: (\d+)\nevent: end\n/.exec(await read({}))?.[1] ?? "";
  expect(last).not.toBe("");
  expect((await read({ "last-event-id": last })).match(/event: \w+/g)).toEqual(["event: end"]);
});

test("a revoked runner's output is taken no more, not even with the log token it still has", async () => {
  const { api } = await workspace();
  await api.call("POST", "/harnesses", ECHO);
  const pair = async () => (await api.call("POST", "/workspace/runners", { label: "box" })).body;
  const lease = async (token: string) =>
    (await api.call("POST", "/runner/lease", POLL, { authorization: `Bearer ${token}` })).body.attempts[0];
  const runner = await pair();
  const { id } = (await api.call("POST", "/runs", { harness: { id: "echo" }, case: CASE, runtime: "self:ws" })).body;
  const write = (attempt: { runId: string; epoch: number; logToken: string }, offset: number) =>
    api.call(
      "POST",
      `/runner/attempts/${attempt.runId}/${attempt.epoch}/log?stream=stdout&offset=${offset}`,
      "said\n",
      {
        authorization: `Bearer ${attempt.logToken}`,
        "content-type": "application/octet-stream",
      },
    );
  const attempt = await lease(runner.token);
  const accept = { instanceId: "i", attempts: [{ runId: id, epoch: 1, phase: "running" }] };
  await api.call("POST", "/runner/heartbeat", accept, { authorization: `Bearer ${runner.token}` });
  expect((await write(attempt, 0)).status).toBe(200);
  expect((await api.call("DELETE", `/workspace/runners/${runner.id}`)).status).toBe(204);
  expect(await write(attempt, 5)).toMatchObject({ status: 401, body: { detail: expect.stringContaining("revoked") } });
  expect((await api.call("GET", `/runs/${id}/logs?epoch=1`)).body.stdout ?? "").not.toContain("said\nsaid");
  // Whoever gets the run next writes again.
  const next = await lease((await pair()).token);
  expect(next.epoch).toBe(2);
  expect((await write(next, 0)).status).toBe(200);
});

test("an API key is shown once, acts in its workspace only, and a revoked one counts at once", async () => {
  const { api } = await workspace();
  const made = await api.call("POST", "/api-keys", { name: "ci", scope: "write", role: "member" });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({
    name: "ci",
    scope: "write",
    role: "member",
    personal: false,
    token: expect.stringMatching(/^ak_/),
  });
  expect(made.headers.get("cache-control")).toBe("no-store");
  const asKey = { authorization: `Bearer ${made.body.token}` };
  expect((await api.call("GET", "/me", undefined, asKey)).body.subject).toBe(`key:${made.body.id}`);
  expect((await api.call("DELETE", `/api-keys/${made.body.id}`)).status).toBe(204);
  expect((await api.call("GET", "/me", undefined, asKey)).status).toBe(401);
});

test("a repeat with the same Idempotency-Key gets the same answer, another body is refused", async () => {
  const { api } = await workspace();
  const key = { "idempotency-key": "k-1" };
  const body = { harness: { spec: { kind: "command", command: "echo hi" } }, case: CASE, runtime: "self:ws" };
  const first = await api.call("POST", "/runs", body, key);
  const again = await api.call("POST", "/runs", body, key);
  expect(again.body.id).toBe(first.body.id);
  expect(again.status).toBe(202);
  expect(again.headers.get("idempotency-replayed")).toBe("true");
  expect((await api.call("POST", "/runs", { ...body, retries: 2 }, key)).status).toBe(409);
  const runner = await api.call("POST", "/workspace/runners", { label: "box" }, { "idempotency-key": "k-2" });
  const replay = await api.call("POST", "/workspace/runners", { label: "box" }, { "idempotency-key": "k-2" });
  expect(runner.body.token).toMatch(/^rnr_w-/);
  expect(replay.body).toMatchObject({ id: runner.body.id, token: null });
  expect(JSON.stringify(replay.body)).not.toContain(runner.body.token);
});
