import { expect, test } from "vitest";
import { CASE, DATASET, dev, ECHO, env, keyFor, NOMAD, workspace } from "./support.ts";

const RUN = { harness: { spec: { kind: "command", command: "echo hi" } }, case: CASE, runtime: "self:ws" };

test("a number that is not whole or out of range is answered with its whole range", async () => {
  const { api } = await workspace();
  for (const timeoutSec of [0, 86_401, 1.5, "60"]) {
    const answer = await api.call("POST", "/runs", { ...RUN, case: { ...CASE, timeoutSec } });
    expect(answer.body.issues).toEqual([
      { path: "case.timeoutSec", message: "must be a whole number of seconds from 1 to 86400" },
    ]);
  }
  expect((await api.call("GET", "/runs?limit=500")).body.issues).toEqual([
    { path: "limit", message: "must be a whole number from 1 to 200" },
  ]);
});

test("documents nested to exhaust a stack, and names that vanish, are refused", async () => {
  const { api } = await workspace();
  const deep = `${"[".repeat(3_000)}${"]".repeat(3_000)}`;
  const body = JSON.stringify({
    ...DATASET,
    cases: [{ ...CASE, graders: [{ kind: "json-match", path: "$", equals: 0 }] }],
  }).replace('"equals":0', `"equals":${deep}`);
  expect(await api.call("POST", "/datasets", body)).toMatchObject({
    status: 400,
    body: { issues: [{ message: expect.stringContaining("64 levels") }] },
  });
  expect(await api.call("POST", "/datasets", `${"[".repeat(200_000)}`)).toMatchObject({ status: 400 });
  const proto = JSON.stringify(ECHO).replace('"MODE"', '"__proto__"');
  expect((await api.call("POST", "/harnesses", proto)).body.issues).toMatchObject([{ path: "env.__proto__" }]);
  expect((await api.call("POST", "/harnesses", { ...ECHO, command: "echo a\0b" })).body.issues).toMatchObject([
    { path: "command" },
  ]);
});

test("a harness whose placeholder becomes code of another interpreter is registered with a warning", async () => {
  const { api } = await workspace();
  const nested = await api.call("POST", "/harnesses", { ...ECHO, command: 'sh -c "echo {{task}}"' });
  expect(nested.body.warnings).toEqual([expect.stringContaining("another interpreter")]);
  expect(
    (await api.call("POST", "/harnesses", { ...ECHO, version: "1.0.1", command: "sh -c 'echo \"$1\"' _ {{task}}" }))
      .body.warnings,
  ).toEqual([]);
});

test("a placeholder with spaces is refused with the way to write it, other braces are data", async () => {
  const { api } = await workspace();
  expect(
    (await api.call("POST", "/harnesses", { ...ECHO, command: "echo {{ task }}" })).body.issues[0].message,
  ).toContain("{{task}} without spaces");
  expect(
    (await api.call("POST", "/harnesses", { ...ECHO, command: "echo '{{ env \"HOME\" }}' {{task}}" })).status,
  ).toBe(201);
});

test("empty filters mean every case", async () => {
  const { api } = await workspace();
  await api.call("POST", "/harnesses", ECHO);
  await api.call("POST", "/datasets", DATASET);
  const request = {
    dataset: { id: "smoke", version: "latest" },
    harness: { id: "echo", version: "latest" },
    runtime: "self:ws",
    concurrency: 4,
    retries: 1,
    trials: 1,
  };
  const answer = await api.call("POST", "/scorecards", { ...request, cases: { ids: [], tags: [], limit: 100 } });
  expect(answer).toMatchObject({ status: 202, body: { progress: { total: 2 } } });
  expect((await api.call("POST", "/scorecards", { ...request, cases: { tags: ["smoke"] } })).body.progress.total).toBe(
    1,
  );
  expect(await api.call("POST", "/scorecards", { ...request, cases: { ids: ["nope"] } })).toMatchObject({
    status: 400,
    body: { issues: [{ path: "cases.ids" }] },
  });
});

test("an MCP tool takes a spec under its name or spread out, and refuses a mixture", async () => {
  const { api } = await workspace();
  const client = await api.mcp();
  const call = async (args: Record<string, unknown>) => client.callTool({ name: "create_harness", arguments: args });
  expect((await call({ spec: ECHO })).isError ?? false).toBe(false);
  expect((await call({ ...ECHO, version: "1.0.1" })).isError ?? false).toBe(false);
  expect((await call({ spec: { ...ECHO, version: "1.0.2" }, command: "true" })).isError).toBe(true);
});

test("a secret of the wrong use is told when the runtime is checked", async () => {
  const { api } = await workspace();
  await api.call("PUT", "/secrets/NOMAD_TOKEN", { value: "v" });
  expect((await api.call("POST", "/runtimes/validate", NOMAD)).body.warnings).toEqual([
    expect.stringContaining("authSecret needs one of use 'cluster'"),
  ]);
});

test("secrets of the wrong use are told when a harness or a dataset that names them is checked or registered", async () => {
  const { api } = await workspace();
  await api.call("PUT", "/secrets/CLUSTER", { value: "v", use: "cluster", hosts: ["a.dev"] });
  await api.call("PUT", "/secrets/MINE", { value: "v" });
  const env = { A: { secretRef: "CLUSTER" }, B: { secretRef: "MINE" }, C: { secretRef: "ABSENT" } };
  const source = { kind: "git", url: "https://a.dev/x", ref: "main", authSecret: "CLUSTER" };
  const dataset = { id: "cloned", version: "1.0.0", cases: [{ ...CASE, env: { kind: "repo", source } }] };
  const misused = (field: string) => `secret 'CLUSTER' has use 'cluster', but ${field} needs one of use 'job'`;
  for (const [path, spec, warnings] of [
    ["/harnesses", { ...ECHO, env }, ["secret 'ABSENT' is not stored yet", misused("env.A")]],
    ["/datasets", dataset, [misused("cases.0.env.source.authSecret")]],
  ] as const)
    for (const where of [`${path}/validate`, path])
      expect((await api.call("POST", where, spec)).body.warnings, where).toEqual(
        warnings.map((words) => expect.stringContaining(words)),
      );
  const service = { name: "web", image: "nginx:1", env: { K: { secretRef: "CLUSTER" } } };
  const topology = { kind: "service", id: "web", version: "1.0.0", services: [service] };
  const frontDoor = { service: "web", submit: "POST /", completion: "sync" };
  const checked = await api.call("POST", "/harnesses/validate", { ...topology, frontDoor });
  expect(checked.body.warnings).toContainEqual(expect.stringContaining(misused("services.0.env.K")));
});

test("an address that nobody dials is not said to need a relay", async () => {
  const { api } = await workspace();
  const checked = async (addr: string) =>
    (await api.call("POST", "/runtimes/validate", { ...NOMAD, authSecret: undefined, addr })).body;
  for (const addr of ["http://127.0.0.1:4646", "http://169.254.169.254", "http://localhost"]) {
    const { ok, reachability, warnings } = await checked(addr);
    expect([ok, reachability.verdict, reachability.command], addr).toEqual([true, "blocked", null]);
    expect(warnings, addr).toEqual([expect.stringContaining("a deployed control plane refuses this address")]);
    expect(warnings.join(), addr).not.toContain("relay");
  }
  expect((await checked("http://10.0.0.1:4646")).warnings).toEqual([expect.stringContaining("only through a relay")]);
});

test("an old runner is told to upgrade whatever the shape of what it sends", async () => {
  const { api } = await workspace();
  const { token } = (await api.call("POST", "/workspace/runners", { label: "old" })).body;
  expect(
    await api.call("POST", "/runner/lease", { protocol: 0, anything: [1] }, { authorization: `Bearer ${token}` }),
  ).toMatchObject({ status: 426, body: { data: { minProtocol: 1 } } });
});

test("equal requests at the same moment get the same answer", async () => {
  const { api } = await workspace();
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => api.call("POST", "/runs", RUN, { "idempotency-key": "twins" })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
  expect((await api.call("GET", "/runs")).body.items).toHaveLength(1);
});

test("a replayed pairing shows neither the token nor a broken command", async () => {
  const { api } = await workspace();
  const key = { "idempotency-key": "pair" };
  const first = await api.call("POST", "/workspace/runners", { label: "box" }, key);
  const again = await api.call("POST", "/workspace/runners", { label: "box" }, key);
  expect(again.body.command).toBe(first.body.command.replace(first.body.token, "<the token that was shown once>"));
});

test("a probe of another spec says nothing about the runtime that is registered under its name", async () => {
  const { api, id } = await workspace();
  await api.call("POST", "/runtimes", { ...NOMAD, authSecret: undefined });
  const viewer = await keyFor(id, "viewer", "write");
  await viewer.call("POST", "/runtimes/probe", { ...NOMAD, authSecret: undefined, addr: "http://127.0.0.1:9" });
  expect((await api.call("GET", "/runtimes")).body.items[0].health).toBeNull();
});

test("an object that works again after a sweep found it idle is known to the next sweep", async () => {
  const { api, id } = await workspace();
  const active = () =>
    env.DB.prepare("select count(*) as n from active_objects where name = ?").bind(`runners:ws:${id}`).first("n");
  const scheduler = env.SCHEDULER.getByName(`runners:ws:${id}`) as unknown as { sweep(): Promise<{ active: boolean }> };
  const { id: first } = (await api.call("POST", "/runs", RUN)).body;
  await expect.poll(active).toBe(1);
  await api.call("POST", `/runs/${first}/cancel`);
  // Idle, but still marked: only the object itself may unmark it.
  await expect.poll(async () => (await scheduler.sweep()).active).toBe(true);
  await api.call("POST", "/runs", RUN);
  await expect.poll(active).toBe(1);
});

test("any known version satisfies If-None-Match: *", async () => {
  expect((await dev.call("GET", "/me", undefined, { "if-none-match": "*" })).status).toBe(304);
});

test("a task too long for the argument it becomes is refused with the way out; from a file it may be longer", async () => {
  const { api } = await workspace();
  const long = { ...CASE, task: "x".repeat(103_000) };
  const refused = await api.call("POST", "/runs", {
    ...RUN,
    harness: { spec: { kind: "command", command: "echo {{task}}" } },
    case: long,
  });
  expect(refused).toMatchObject({
    status: 400,
    body: { issues: [{ path: "case.task", message: expect.stringContaining("EVD_TASK_FILE") }] },
  });
  expect(
    (
      await api.call("POST", "/runs", {
        ...RUN,
        harness: { spec: { kind: "command", command: 'wc -c "$EVD_TASK_FILE"' } },
        case: long,
      })
    ).status,
  ).toBe(202);
  await api.call("POST", "/harnesses", { ...ECHO });
  await api.call("POST", "/datasets", { ...DATASET, cases: [long] });
  expect(
    (await api.call("POST", "/scorecards", { dataset: { id: "smoke" }, harness: { id: "echo" }, runtime: "self:ws" }))
      .status,
  ).toBe(400);
});

test("files that cannot be unpacked are refused by name, with the rule", async () => {
  const { api } = await workspace();
  const tryFiles = async (files: Record<string, string>) =>
    (
      await api.call("POST", "/runs", {
        ...RUN,
        case: { ...CASE, env: { kind: "repo", source: { kind: "files", files } } },
      })
    ).body.issues?.[0];
  for (const name of ["/etc/x", "../x", ".", "a/.", "a//b"])
    expect((await tryFiles({ [name]: "1" })).message, name).toContain("relative path inside the work folder");
  expect((await tryFiles({ a: "1", "a/b": "2" })).message).toContain("'a' is a file");
  const git = { ...CASE, env: { kind: "repo", source: { kind: "git", url: "file:///etc", ref: "main" } } };
  expect((await api.call("POST", "/runs", { ...RUN, case: git })).status).toBe(400);
});

test("files, task, setup and command together are bounded by what travels inside a job", async () => {
  const { api } = await workspace();
  const env = { kind: "repo", source: { kind: "files", files: { a: "x".repeat(500_000) } } };
  const spec = { kind: "command", command: "true", setup: [`: ${"y".repeat(60_000)}`] };
  expect(await api.call("POST", "/runs", { ...RUN, harness: { spec }, case: { ...CASE, env } })).toMatchObject({
    status: 400,
    body: { issues: [{ path: "case.env", message: expect.stringContaining("git source") }] },
  });
});

test("a run that a full queue refuses says so", async () => {
  const { api, id } = await workspace();
  await dev.call("PUT", `/workspaces/${id}/limits`, { queueDepth: 1 });
  await api.call("POST", "/runs", RUN);
  expect((await api.call("POST", "/runs", RUN)).status).toBe(429);
  await api.call("POST", "/harnesses", ECHO);
  await api.call("POST", "/datasets", DATASET);
  const { id: card } = (
    await api.call("POST", "/scorecards", { dataset: { id: "smoke" }, harness: { id: "echo" }, runtime: "self:ws" })
  ).body;
  const waiting = async () =>
    (await api.call("GET", `/scorecards/${card}/runs`)).body.items.map(
      (run: { waiting: { reason: string; detail: string } | null }) => run.waiting?.detail ?? "",
    );
  await expect.poll(waiting, { timeout: 5_000 }).toEqual([expect.stringMatching(/1/), expect.stringMatching(/1/)]);
});

test("operators write what every workspace may use; nobody else does, and it runs nothing itself", async () => {
  const shared = { "x-everdict-workspace": "_shared" };
  const spec = { ...ECHO, id: `shared-${Date.now().toString(36)}` };
  expect((await dev.call("POST", "/harnesses", spec, shared)).body).toMatchObject({ owner: "_shared" });
  const { api } = await workspace();
  expect((await api.call("POST", "/harnesses", spec, shared)).status).toBe(403);
  expect((await api.call("GET", `/harnesses/${spec.id}/versions/latest`)).body.owner).toBe("_shared");
  expect((await api.call("POST", "/runs", { ...RUN, harness: { id: spec.id } })).status).toBe(202);
  expect((await api.call("POST", `/harnesses/${spec.id}/archive`)).status).toBe(404);
  expect((await dev.call("POST", "/runs", { ...RUN, harness: { id: spec.id } }, shared)).status).toBe(400);
});

test("a key that acts as the workspace sees and revokes itself, and no other", async () => {
  const { id, api } = await workspace();
  const key = await keyFor(id, "member", "write");
  const listed = (await key.call("GET", "/api-keys")).body.items;
  expect(listed).toHaveLength(1);
  const other = (await api.call("GET", "/api-keys")).body.items.find(
    (item: { id: string }) => item.id !== listed[0].id,
  );
  expect((await key.call("DELETE", `/api-keys/${other.id}`)).status).toBe(404);
  expect((await key.call("DELETE", `/api-keys/${listed[0].id}`)).status).toBe(204);
  expect((await key.call("GET", "/me")).status).toBe(401);
});

test("the lease protocol reads no body of a caller without a token of its form", async () => {
  for (const path of [
    "/runner/lease",
    "/runner/heartbeat",
    "/runner/results",
    "/runner/attempts/run_00000000000000000000000000/1/log?stream=stdout&offset=0",
  ]) {
    expect((await dev.call("POST", path, { nonsense: 1 }, { authorization: "Bearer ak_x" })).status, path).toBe(401);
  }
});
