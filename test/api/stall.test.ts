import { expect, test } from "vitest";
import { OUTCOME } from "../support/protocol-runner.ts";
import { type Api, apiWith, CASE, env, POLL, workspace } from "./support.ts";

/** D1 as it is when it stalls: every call hangs. */
function stalledDatabase(): D1Database {
  const never = () => new Promise<never>(() => undefined);
  const statement: Record<string, unknown> = { all: never, first: never, run: never, raw: never };
  statement.bind = () => statement;
  // SAFETY: only these members are used by the store.
  return {
    withSession: () => ({ prepare: () => statement, batch: never }),
    prepare: () => statement,
    batch: never,
  } as unknown as D1Database;
}

const lease = { ...POLL, slots: { total: 4, free: 4 } };
type Leased = { runId: string; epoch: number; secrets: Record<string, string> };

test("while D1 stalls, leases are kept, work without secrets goes on, and work with secrets waits and says so", {
  timeout: 30_000,
}, async () => {
  const { api } = await workspace();
  const { token } = (await api.call("POST", "/workspace/runners", { label: "box" })).body;
  const bearer = { authorization: `Bearer ${token}` };
  const stalled: Api = apiWith({ EVERDICT_ENV: "dev", DB: stalledDatabase() }, bearer);
  await api.call("PUT", "/secrets/API_KEY", { value: "needed-value" });
  const submit = async (env: Record<string, unknown>) =>
    (
      await api.call("POST", "/runs", {
        harness: { spec: { kind: "command", command: "true", env } },
        case: CASE,
        runtime: "self:ws",
      })
    ).body.id;
  const before = await submit({});
  const held: Leased = (await stalled.call("POST", "/runner/lease", lease)).body.attempts[0];
  expect(held).toMatchObject({ runId: before, epoch: 1 });
  const withSecret = await submit({ KEY: { secretRef: "API_KEY" } });
  const without = await submit({});

  const beat = async (ref: Leased, phase: string) =>
    (
      await stalled.call("POST", "/runner/heartbeat", {
        instanceId: "i",
        attempts: [{ runId: ref.runId, epoch: ref.epoch, phase }],
      })
    ).body.attempts[0].verdict;
  expect(await beat(held, "accepted")).toBe("extended");
  const answer = (await stalled.call("POST", "/runner/lease", { ...lease, slots: { total: 4, free: 3 } })).body
    .attempts as Leased[];
  expect(answer.map(({ runId }) => runId)).toEqual([without]);
  expect((await api.call("GET", `/runs/${withSecret}`)).body.waiting).toMatchObject({ reason: "secrets-unavailable" });
  expect(await beat(held, "running")).toBe("extended");
  const results = await stalled.call("POST", "/runner/results", {
    instanceId: "i",
    results: [{ runId: held.runId, epoch: held.epoch, outcome: OUTCOME }],
  });
  expect(results.body.accepted).toEqual([{ runId: held.runId, epoch: 1, accepted: true }]);
  // Reads that need the store say so, and are neither empty nor absent.
  const read = await apiWith({ EVERDICT_ENV: "dev", DB: stalledDatabase() }).call("GET", "/healthz");
  expect(read.status).toBe(200);

  // The store is back: the job that waited for its secret gets it, and was not charged for the wait.
  const later = async () =>
    (await api.call("POST", "/runner/lease", { ...lease, waitMs: 8_000, slots: { total: 4, free: 2 } }, bearer)).body
      ?.attempts as Leased[] | undefined;
  const [given] = (await later()) ?? [];
  expect(given).toMatchObject({ runId: withSecret, secrets: { KEY: "needed-value" } });
  expect(await env.DB.prepare("select count(*) as n from runs where id = ?").bind(withSecret).first("n")).toBe(1);
});
