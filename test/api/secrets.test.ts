import { expect, test } from "vitest";
import { rotationKeys } from "./rotation.ts";
import { apiWith, CASE, ECHO, env, keyFor, NOMAD, POLL, workspace } from "./support.ts";

const RUN = {
  harness: { spec: { kind: "command", command: "true", env: { KEY: { secretRef: "API_KEY" } } } },
  case: CASE,
  runtime: "self:ws",
};

async function withRunner(role: "admin" = "admin") {
  const made = await workspace(role);
  const { token } = (await made.api.call("POST", "/workspace/runners", { label: "box" })).body;
  // Each poll is another machine: what one holds takes nothing from the next.
  let polls = 0;
  const poll = async () =>
    (
      await made.api.call(
        "POST",
        "/runner/lease",
        { ...POLL, instanceId: `i${polls++}` },
        { authorization: `Bearer ${token}` },
      )
    ).body;
  return { ...made, runnerToken: token, poll };
}

test("a secret reaches the job that names it, changed from the next dispatch on, and is never shown", async () => {
  const { api, poll } = await withRunner();
  expect((await api.call("PUT", "/secrets/API_KEY", { value: "first-value" })).status).toBe(204);
  await api.call("POST", "/runs", RUN);
  expect((await poll()).attempts[0].secrets).toEqual({ KEY: "first-value" });
  await api.call("POST", "/runs", RUN);
  await api.call("PUT", "/secrets/API_KEY", { value: "second-value" });
  expect((await poll()).attempts[0].secrets).toEqual({ KEY: "second-value" });
  const listed = await api.call("GET", "/secrets");
  expect(listed.body.items).toMatchObject([{ name: "API_KEY", use: "job", hosts: [], source: "vault", usedBy: [] }]);
  const everything = JSON.stringify([
    listed.body,
    (await api.call("GET", "/audit")).body,
    (await api.call("GET", "/runs")).body,
    (await api.call("GET", "/secrets/names")).body,
  ]);
  expect(everything).not.toContain("-value");
});

test("a stored secret is sealed: its row holds nothing readable, and is good in its place only", async () => {
  const { api, id } = await workspace();
  await api.call("PUT", "/secrets/ONE", { value: "canary-plain-text" });
  const row = await env.DB.prepare("select * from secrets where workspace = ? and name = 'ONE'")
    .bind(id)
    .first<{ sealed: string }>();
  expect(JSON.stringify(row)).not.toContain("canary");
  expect(atob(row?.sealed ?? "")).not.toContain("canary");
  const other = await withRunner();
  await other.api.call("PUT", "/secrets/API_KEY", { value: "x" });
  await env.DB.prepare("update secrets set sealed = ? where workspace = ? and name = 'API_KEY'")
    .bind(row?.sealed, other.id)
    .run();
  // Moved to another place the value does not open: the run is not even accepted with it.
  expect((await other.api.call("POST", "/runs", RUN)).status).toBe(503);
  await env.DB.prepare("delete from secrets where workspace = ?").bind(other.id).run();
});

test("a cluster secret is never injected into a job, by harness, case or registration, whoever asks", async () => {
  const { api, id } = await withRunner();
  await api.call("PUT", "/secrets/API_KEY", {
    value: "cluster-token-value",
    use: "cluster",
    hosts: ["nomad.acme.dev"],
  });
  const member = await keyFor(id, "member", "admin");
  const direct = await member.call("POST", "/runs", RUN);
  expect(direct.status).toBe(400);
  expect(direct.body.issues[0].message).toContain("use 'cluster'");
  const git = {
    ...CASE,
    env: {
      kind: "repo",
      source: { kind: "git", url: "https://git.example/x.git", ref: "main", authSecret: "API_KEY" },
    },
  };
  expect(
    (await member.call("POST", "/runs", { ...RUN, harness: { spec: { kind: "command", command: "true" } }, case: git }))
      .status,
  ).toBe(400);
  expect((await member.call("POST", "/harnesses", { ...ECHO, env: { KEY: { secretRef: "API_KEY" } } })).status).toBe(
    201,
  );
  expect((await member.call("POST", "/runs", { ...RUN, harness: { id: "echo" } })).status).toBe(400);
});

test("a secret whose use changes after the run was accepted is refused at dispatch", async () => {
  const { api, poll } = await withRunner();
  await api.call("PUT", "/secrets/API_KEY", { value: "job-value" });
  const { id } = (await api.call("POST", "/runs", RUN)).body;
  await api.call("PUT", "/secrets/API_KEY", { value: "now-for-a-cluster", use: "cluster", hosts: ["nomad.acme.dev"] });
  expect(await poll()).toBeUndefined();
  await expect
    .poll(async () => (await api.call("GET", `/runs/${id}`)).body.failure)
    .toMatchObject({ stage: "dispatch", class: "config", code: "SECRET_USE" });
});

test("a job secret is never sent to a cluster, nor a cluster secret to a host it does not list", async () => {
  const { api, id } = await workspace();
  const viewer = await keyFor(id, "viewer", "admin");
  const spec = { ...NOMAD, addr: "https://nomad.acme.dev" };
  await api.call("PUT", "/secrets/NOMAD_TOKEN", { value: "job-token-value", use: "job" });
  const asJob = await viewer.call("POST", "/runtimes/probe", spec);
  expect(asJob.status).toBe(200);
  expect(asJob.body).toMatchObject({
    reachable: false,
    reason: "credential",
    checks: expect.arrayContaining([expect.objectContaining({ name: "credential", ok: false })]),
  });
  await api.call("PUT", "/secrets/NOMAD_TOKEN", {
    value: "cluster-token-value",
    use: "cluster",
    hosts: ["other.acme.dev", "*.nomad.acme.dev"],
  });
  const elsewhere = await viewer.call("POST", "/runtimes/probe", spec);
  expect(elsewhere.body).toMatchObject({ reachable: false, reason: "credential" });
  expect(JSON.stringify([asJob.body, elsewhere.body])).not.toContain("token-value");
});

test("what a secret may be used for is said when it is stored, not guessed", async () => {
  const { api } = await workspace();
  expect((await api.call("PUT", "/secrets/A", { value: "v", use: "cluster" })).body.issues[0].path).toBe("hosts");
  expect((await api.call("PUT", "/secrets/A", { value: "v", hosts: ["x.dev"] })).body.issues[0].path).toBe("hosts");
  expect((await api.call("PUT", "/secrets/1A", { value: "v" })).status).toBe(400);
  expect((await api.call("PUT", "/secrets/A", { value: "x".repeat(17_000) })).status).toBe(400);
  expect((await api.call("DELETE", "/secrets/A")).status).toBe(404);
});

test("a Worker secret wins over the vault, and is usable by nothing until its use is declared", async () => {
  const { api, token } = await workspace();
  await api.call("PUT", "/secrets/API_KEY", { value: "from-the-vault" });
  const undeclared = apiWith(
    { EVERDICT_ENV: "dev", SECRET_API_KEY: "from-the-worker" },
    { authorization: `Bearer ${token}` },
  );
  expect((await undeclared.call("GET", "/secrets")).body.items).toMatchObject([
    { name: "API_KEY", use: null, source: "worker" },
  ]);
  expect((await undeclared.call("POST", "/runs", RUN)).status).toBe(400);
  const declared = apiWith(
    { EVERDICT_ENV: "dev", SECRET_API_KEY: "from-the-worker", SECRET_USE_API_KEY: "job" },
    { authorization: `Bearer ${token}` },
  );
  expect((await declared.call("POST", "/runs", RUN)).status).toBe(202);
  const runner = (await declared.call("POST", "/workspace/runners", { label: "box" })).body.token;
  const leased = await declared.call("POST", "/runner/lease", POLL, { authorization: `Bearer ${runner}` });
  expect(leased.body.attempts[0].secrets).toEqual({ KEY: "from-the-worker" });
});

test("without a vault key nothing can be stored, and the answer says which variable to set", async () => {
  const { token } = await workspace();
  const keyless = apiWith({ EVERDICT_ENV: "dev", EVERDICT_VAULT_KEYS: "" }, { authorization: `Bearer ${token}` });
  const answer = await keyless.call("PUT", "/secrets/A", { value: "v" });
  expect(answer.status).toBe(503);
  expect(answer.body.detail).toContain("EVERDICT_VAULT_KEYS");
  expect((await keyless.call("GET", "/secrets")).body.items).toEqual([]);
});

test("rotation re-seals under the new key, after which the old one may go", async () => {
  const { api, token, id } = await withRunner();
  await api.call("PUT", "/secrets/API_KEY", { value: "kept-through-rotation" });
  const both = apiWith({ EVERDICT_ENV: "dev", EVERDICT_VAULT_KEYS: rotationKeys.both });
  expect((await both.call("POST", "/vault/rotate")).body).toMatchObject({ keyId: "k2", resealed: expect.any(Number) });
  expect((await both.call("POST", "/vault/rotate")).body).toMatchObject({ resealed: 0 });
  expect(await env.DB.prepare("select key_id from secrets where workspace = ?").bind(id).first("key_id")).toBe("k2");
  const onlyNew = apiWith(
    { EVERDICT_ENV: "dev", EVERDICT_VAULT_KEYS: rotationKeys.onlyNew },
    { authorization: `Bearer ${token}` },
  );
  expect((await onlyNew.call("POST", "/runs", RUN)).status).toBe(202);
});
