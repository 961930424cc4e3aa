import { expect, test } from "vitest";
import { apiWith, CASE, DATASET, dev, ECHO, keyFor, NOMAD, workspace } from "./support.ts";

const RUN = { harness: { spec: { kind: "command", command: "echo hi" } }, case: CASE, runtime: "self:ws" };
type Issue = { path: string; message: string };

test("an unknown key is named with its path", async () => {
  const { api } = await workspace();
  const answer = await api.call("POST", "/runs", { ...RUN, case: { ...CASE, timeoutSecs: 5 } });
  expect(answer.status).toBe(400);
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  expect(answer.body).toMatchObject({
    code: "BAD_REQUEST",
    status: 400,
    type: "https://everdict.dev/problems/bad-request",
    issues: [{ path: "case.timeoutSecs" }],
  });
});

test("a number out of range is refused with the range", async () => {
  const { api } = await workspace();
  const answer = await api.call("POST", "/runs", { ...RUN, case: { ...CASE, timeoutSec: 90_000 } });
  expect(answer.status).toBe(400);
  expect(answer.body.issues).toMatchObject([{ path: "case.timeoutSec", message: expect.stringContaining("86400") }]);
});

test("an unknown target is a 404 that names it, and so are internal names and other workspaces' runtimes", async () => {
  const { api } = await workspace();
  const other = await workspace();
  await other.api.call("POST", "/runtimes", NOMAD);
  for (const target of [
    "gpux",
    "gpu",
    `rt:${other.id}:gpu@1.0.0`,
    `cluster:${other.id}:gpu`,
    "runners:ws:default",
    "self:rnr-00000000000000000000000000",
    "self:ws:nobody",
    "gpu@not-a-version",
    "../x",
  ]) {
    const answer = await api.call("POST", "/runs", { ...RUN, runtime: target });
    expect(answer.status, target).toBe(404);
    expect(answer.body, target).toMatchObject({ code: "NOT_FOUND", data: { runtime: target } });
    expect(answer.body.detail).toContain(target);
  }
});

test("another workspace's run, scorecard, runner and key do not exist", async () => {
  const one = await workspace();
  const two = await workspace();
  const run = (await one.api.call("POST", "/runs", RUN)).body.id;
  await one.api.call("POST", "/harnesses", ECHO);
  await one.api.call("POST", "/datasets", DATASET);
  const card = (
    await one.api.call("POST", "/scorecards", { dataset: { id: "smoke" }, harness: { id: "echo" }, runtime: "self:ws" })
  ).body.id;
  const runner = (await one.api.call("POST", "/workspace/runners", { label: "box" })).body.id;
  const key = (await one.api.call("POST", "/api-keys", { name: "k" })).body.id;
  const tries: [string, string][] = [
    ["GET", `/runs/${run}`],
    ["POST", `/runs/${run}/cancel`],
    ["GET", `/runs/${run}/logs`],
    ["GET", `/runs/${run}/logs/stream`],
    ["GET", `/runs/${run}/placement`],
    ["POST", `/queue/entries/${run}/promote`],
    ["DELETE", `/queue/entries/${run}`],
    ["GET", `/scorecards/${card}`],
    ["GET", `/scorecards/${card}/runs`],
    ["GET", `/scorecards/${card}/stream`],
    ["POST", `/scorecards/${card}/cancel`],
    ["POST", `/scorecards/${card}/retry`],
    ["GET", `/scorecards/compare?a=${card}&b=${card}`],
    ["DELETE", `/workspace/runners/${runner}`],
    ["DELETE", `/api-keys/${key}`],
    ["GET", "/harnesses/echo/versions/1.0.0"],
    ["GET", "/datasets/smoke/versions/latest"],
    ["GET", "/datasets/smoke/versions/1.0.0/cases"],
    ["POST", "/harnesses/echo/archive"],
  ];
  for (const [method, path] of tries) {
    const answer = await two.api.call(method, path);
    expect(answer.status, `${method} ${path}`).toBe(404);
    expect(answer.body.code).toBe("NOT_FOUND");
  }
  expect((await one.api.call("GET", `/runs/${run}`)).status).toBe(200);
});

test("declared cpu is refused on a Nomad runtime that does not say how fast a core is", async () => {
  const { api } = await workspace();
  const { cpuMhzPerCore: _, ...slow } = NOMAD;
  await api.call("POST", "/runtimes", slow);
  const answer = await api.call("POST", "/runs", {
    ...RUN,
    runtime: "gpu",
    case: { ...CASE, resources: { cpu: 2_000 } },
  });
  expect(answer.status).toBe(400);
  expect(answer.body.detail).toContain("cpuMhzPerCore");
});

test("an ask that could never fit the envelope is refused", async () => {
  const { api } = await workspace();
  await api.call("POST", "/runtimes", NOMAD);
  const answer = await api.call("POST", "/runs", {
    ...RUN,
    runtime: "gpu",
    case: { ...CASE, resources: { memoryMb: 70_000 } },
  });
  expect(answer.status).toBe(400);
  expect(answer.body).toMatchObject({ data: { asked: 70_000, budget: 65_536 } });
});

test("a missing capability is named with what the runtime has", async () => {
  const { api } = await workspace();
  await api.call("POST", "/runtimes", NOMAD);
  const answer = await api.call("POST", "/runs", { ...RUN, runtime: "gpu", case: { ...CASE, resources: { gpu: 1 } } });
  expect(answer.status).toBe(400);
  expect(answer.body.data).toEqual({ runtime: "gpu", need: ["gpu"], missing: ["gpu"], have: ["docker", "git"] });
});

test("values that look like credentials are refused in specs, and allowed in datasets", async () => {
  const { api } = await workspace();
  const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl";
  const pem = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----";
  const cases: [string, unknown, string][] = [
    ["/runtimes", { ...NOMAD, description: jwt }, "description"],
    ["/runtimes", { ...NOMAD, addr: "https://user:pass@nomad.acme.dev" }, "addr"],
    ["/runtimes", { ...NOMAD, authSecret: "a1b2c3d4-e5f6-4a7b-8c9d-0e1f2a3b4c5d" }, "authSecret"],
    ["/runtimes", { ...NOMAD, constraints: [{ attribute: "x", value: pem }] }, "constraints.0.value"],
    ["/harnesses", { ...ECHO, env: { TOKEN: jwt } }, "env.TOKEN"],
    ["/harnesses", { ...ECHO, env: { DSN: "postgres://u:p@db/x" } }, "env.DSN"],
  ];
  for (const [path, body, where] of cases) {
    const answer = await api.call("POST", path, body);
    expect(answer.status, where).toBe(400);
    expect(answer.body.issues.map((issue: Issue) => issue.path)).toContain(where);
  }
  expect(
    (await api.call("POST", "/datasets", { ...DATASET, cases: [{ ...CASE, task: `find the leak: ${jwt}` }] })).status,
  ).toBe(201);
});

test("a placeholder that no quoting makes safe is refused with the fix", async () => {
  const { api } = await workspace();
  for (const command of ["echo '{{task}}'", "echo `cat {{task}}`", "cat <<EOF\n{{task}}\nEOF", "echo {{tusk}}"]) {
    const answer = await api.call("POST", "/harnesses", { ...ECHO, command });
    expect(answer.status, command).toBe(400);
    expect(answer.body.issues[0]).toMatchObject({ path: "command" });
    const anonymous = await api.call("POST", "/runs", { ...RUN, harness: { spec: { kind: "command", command } } });
    expect(anonymous.body.issues[0]).toMatchObject({ path: "harness.spec.command" });
  }
  expect((await api.call("POST", "/harnesses", { ...ECHO, command: 'run {{task}} "say {{task}}"' })).status).toBe(201);
});

test("what is no JSON, not JSON by name, or too large is refused each in its own way", async () => {
  const { api } = await workspace();
  expect(await api.call("POST", "/runs", "{not json")).toMatchObject({ status: 400, body: { code: "BAD_REQUEST" } });
  expect(await api.call("POST", "/runs", JSON.stringify(RUN), { "content-type": "text/plain" })).toMatchObject({
    status: 415,
    body: { code: "UNSUPPORTED_MEDIA_TYPE" },
  });
  expect(await api.call("POST", "/api-keys", { name: "x".repeat(2 * 1024 * 1024) })).toMatchObject({
    status: 413,
    body: { code: "PAYLOAD_TOO_LARGE" },
  });
  expect(await api.call("POST", "/runs")).toMatchObject({ status: 400 });
});

test("files beyond what travels inside a job are refused with the way out", async () => {
  const { api } = await workspace();
  const env = { kind: "repo", source: { kind: "files", files: { a: "x".repeat(300_000), b: "y".repeat(300_000) } } };
  const answer = await api.call("POST", "/runs", { ...RUN, case: { ...CASE, env } });
  expect(answer.status).toBe(400);
  expect(answer.body.issues[0].message).toContain("git source");
});

test("a cursor of another list, a broken one and a bad limit are refused", async () => {
  const { api } = await workspace();
  for (const id of ["a", "b", "c"]) await api.call("POST", "/harnesses", { ...ECHO, id });
  const page = await api.call("GET", "/harnesses?limit=1");
  expect(page.body.items).toHaveLength(1);
  const { nextCursor } = page.body;
  expect((await api.call("GET", `/harnesses?limit=1&cursor=${nextCursor}`)).body.items[0].id).toBe("b");
  for (const path of [
    `/runs?cursor=${nextCursor}`,
    "/harnesses?cursor=nonsense",
    `/harnesses?cursor=${nextCursor.slice(0, -1)}${nextCursor.endsWith("x") ? "y" : "x"}`,
    "/harnesses?limit=0",
    "/harnesses?limit=1e3",
    "/harnesses?limit=1&limit=2",
    "/harnesses?page=2",
  ]) {
    expect((await api.call("GET", path)).status, path).toBe(400);
  }
});

test("a list is walked to its end without losing or repeating an item", async () => {
  const { api } = await workspace();
  const ids = ["e", "a", "d", "c", "b"];
  for (const id of ids) await api.call("POST", "/harnesses", { ...ECHO, id });
  const seen: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: { body: { items: { id: string }[]; nextCursor: string | null } } = await api.call(
      "GET",
      `/harnesses?limit=2${cursor ? `&cursor=${cursor}` : ""}`,
    );
    seen.push(...page.body.items.map(({ id }) => id));
    cursor = page.body.nextCursor;
  }
  expect(seen).toEqual(["a", "b", "c", "d", "e"]);
});

test("regular expressions that need backtracking are refused at registration", async () => {
  const { api } = await workspace();
  const answer = await api.call("POST", "/datasets", {
    ...DATASET,
    cases: [{ ...CASE, graders: [{ kind: "regex", pattern: "(a)\\1" }] }],
  });
  expect(answer.status).toBe(400);
  expect(answer.body.issues[0].path).toBe("cases.0.graders.0.pattern");
});

test("a service harness is registered and a run of it refused in words", async () => {
  const { api } = await workspace();
  const spec = {
    kind: "service",
    id: "shop",
    version: "1.0.0",
    services: [{ name: "web", image: "nginx:1" }],
    frontDoor: { service: "web", submit: "POST /", completion: "sync" },
  };
  expect((await api.call("POST", "/harnesses", spec)).status).toBe(201);
  const answer = await api.call("POST", "/runs", { ...RUN, harness: { id: "shop" } });
  expect(answer.status).toBe(400);
  expect(answer.body.detail).toContain("topology");
});

test("without a target and without own compute the answer says how to name one; two different ones are refused", async () => {
  const { api } = await workspace();
  const { runtime: _, ...bare } = RUN;
  expect(await api.call("POST", "/runs", bare)).toMatchObject({ status: 400, body: { issues: [{ path: "runtime" }] } });
  expect((await api.call("POST", "/runs", { ...RUN, case: { ...CASE, placement: { target: "self" } } })).status).toBe(
    400,
  );
  const own = apiWith({ EVERDICT_ENV: "dev", EVERDICT_COMPUTE: "docker" });
  expect((await own.call("POST", "/runs", bare)).body.target).toBe("self:ws");
});

test("deployments whose compute settings contradict each other answer nothing but the names of the settings", async () => {
  const broken = apiWith({ EVERDICT_ENV: "dev", EVERDICT_COMPUTE: "docker", EVERDICT_SANDBOX_DRIVER: "nomad" });
  for (const path of ["/me", "/healthz"]) {
    const answer = await broken.call("GET", path);
    expect(answer.status).toBe(503);
    expect(answer.body.detail).toMatch(/EVERDICT_COMPUTE.*EVERDICT_SANDBOX_DRIVER/);
  }
});

test("roles and scopes: each refusal says what is needed", async () => {
  const { id } = await workspace();
  const viewer = await keyFor(id, "viewer", "admin");
  const reader = await keyFor(id, "admin", "read");
  const member = await keyFor(id, "member", "admin");
  const tries: [Awaited<ReturnType<typeof keyFor>>, string, string, unknown, number][] = [
    [viewer, "POST", "/runs", RUN, 403],
    [viewer, "POST", "/runtimes", NOMAD, 201],
    [viewer, "POST", "/harnesses", ECHO, 201],
    [viewer, "POST", "/datasets", DATASET, 403],
    [viewer, "GET", "/secrets/names", undefined, 200],
    [viewer, "GET", "/secrets", undefined, 403],
    [reader, "GET", "/runs", undefined, 200],
    [reader, "POST", "/runs", RUN, 403],
    [reader, "POST", "/runtimes", NOMAD, 403],
    [member, "POST", "/datasets", DATASET, 201],
    [member, "POST", "/runs", RUN, 202],
    [member, "PUT", "/secrets/X", { value: "v" }, 403],
    [member, "GET", "/audit", undefined, 403],
    [member, "POST", "/workspace/runners", { label: "x" }, 403],
    [member, "POST", "/workspaces", { id: "nope", name: "n" }, 403],
    [member, "PUT", "/workspaces/default/limits", {}, 403],
    [member, "POST", "/api-keys", { name: "k", role: "admin" }, 403],
    [member, "POST", "/vault/rotate", undefined, 403],
  ];
  for (const [api, method, path, body, status] of tries) {
    const answer = await api.call(method, path, body);
    expect(answer.status, `${method} ${path}`).toBe(status);
    if (status === 403) expect(answer.body.code).toBe("FORBIDDEN");
  }
});

test("a member cancels own runs only; an admin anyone's", async () => {
  const { id, api } = await workspace();
  const one = await keyFor(id, "member", "write");
  const two = await keyFor(id, "member", "write");
  const { id: run } = (await one.call("POST", "/runs", RUN)).body;
  expect((await two.call("POST", `/runs/${run}/cancel`)).status).toBe(403);
  expect((await two.call("DELETE", `/queue/entries/${run}`)).status).toBe(403);
  expect((await one.call("POST", `/queue/entries/${run}/promote`)).status).toBe(403);
  expect((await api.call("POST", `/queue/entries/${run}/promote`)).status).toBe(200);
  expect((await api.call("POST", `/runs/${run}/cancel`)).status).toBe(202);
});

test("an entry that does not wait says why, and advises only what can be done", async () => {
  const { api } = await workspace();
  const { id: run } = (await api.call("POST", "/runs", RUN)).body;
  expect((await api.call("DELETE", `/queue/entries/${run}`)).status).toBe(204);
  const again = await api.call("DELETE", `/queue/entries/${run}`);
  expect(again).toMatchObject({ status: 409, body: { data: { status: "cancelled" } } });
  expect(again.body.detail).toBe(`run '${run}' has ended: cancelled; there is nothing to cancel`);
  const moved = await api.call("POST", `/queue/entries/${run}/promote`);
  expect(moved.body.detail).toBe(`run '${run}' has ended: cancelled; there is nothing to move`);
});

test("the development server refuses rebound hosts and foreign origins", async () => {
  const rebound = await dev.fetch(new Request("http://evil.example/me", { headers: { host: "evil.example" } }));
  expect(rebound.status).toBe(403);
  expect((await dev.call("GET", "/me", undefined, { origin: "https://evil.example" })).status).toBe(403);
  expect((await dev.call("GET", "/me", undefined, { origin: "http://localhost:8787" })).status).toBe(200);
});

test("nothing is open in production without a credential", async () => {
  const production = apiWith({});
  for (const path of ["/me", "/runs", "/runtimes", "/openapi.json", "/healthz"]) {
    const open = path === "/openapi.json" || path === "/healthz";
    expect((await production.call("GET", path)).status, path).toBe(open ? 200 : 401);
  }
  expect(
    (
      await production.call(
        "POST",
        "/mcp",
        { jsonrpc: "2.0", id: 1, method: "tools/list" },
        { accept: "application/json, text/event-stream" },
      )
    ).status,
  ).toBe(401);
  expect((await production.call("GET", "/metrics")).status).toBe(401);
});
