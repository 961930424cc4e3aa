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
