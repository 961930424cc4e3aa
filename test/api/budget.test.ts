import { createExecutionContext } from "cloudflare:test";
import { expect, test } from "vitest";
import { EverdictError } from "../../contracts/errors.ts";
import { OPERATIONS } from "../../contracts/operations/index.ts";
import type { Operation } from "../../contracts/operations/operation.ts";
import type { Context } from "../../worker/context.ts";
import { sweep } from "../../worker/dispatch/sweep.ts";
import { contextOf } from "../../worker/http/app.ts";
import { callOperation } from "../../worker/http/call.ts";
import { getLimits } from "../../worker/services/identity.ts";
import { monthOf, resetsAt } from "../../worker/store/runs-budget.ts";
import { type Answer, type Api, CASE, DATASET, dev, ECHO, env, keyFor, workspace } from "./support.ts";

const RUN = {
  harness: { spec: { kind: "command", command: "echo hi" } },
  case: CASE,
  runtime: "self:ws",
};
const CARD = { dataset: { id: "smoke" }, harness: { id: "echo" }, runtime: "self:ws" };
const MONTH = monthOf(Date.now());
const RESETS = resetsAt(Date.now());

const budget = (id: string, runsBudget: number | null) => dev.call("PUT", `/workspaces/${id}/limits`, { runsBudget });
const limits = async (id: string) => (await dev.call("GET", `/workspaces/${id}/limits`)).body;
const used = async (id: string): Promise<number> => (await limits(id)).runsUsed;
const rowsOf = async (table: "runs" | "scorecards" | "audit", id: string) =>
  env.DB.prepare(`select count(*) as n from ${table} where workspace = ?`).bind(id).first<number>("n");

async function prepared(runsBudget: number | null) {
  const space = await workspace();
  await space.api.call("POST", "/harnesses", ECHO);
  await space.api.call("POST", "/datasets", DATASET);
  await budget(space.id, runsBudget);
  return space;
}

/** Cancels a scorecard and waits until its end is stored, so that it may be retried. */
async function ended(api: Api, card: string): Promise<void> {
  await api.call("POST", `/scorecards/${card}/cancel`);
  const stored = () => env.DB.prepare("select status from scorecards where id = ?").bind(card).first("status");
  await expect.poll(stored, { timeout: 10_000 }).toBe("cancelled");
}

/** What a key's request is handled with, at a time of the test's choice. */
async function contextAt(token: string, nowMs: number): Promise<Context> {
  const request = new Request("http://127.0.0.1:8787/", { headers: { authorization: `Bearer ${token}` } });
  const later = createExecutionContext();
  const ctx = await contextOf(env, request, "req_test", (promise) => later.waitUntil(promise), { name: "submit_run" });
  return { ...ctx, now: () => nowMs };
}

const callAt = async (token: string, nowMs: number, operation: Operation, body: object, key: string | null = null) =>
  callOperation(
    await contextAt(token, nowMs),
    operation,
    { params: {}, query: {}, body, bodyText: JSON.stringify(body) },
    key,
  );

const refusal = (id: string, figures: { budget: number; used: number; asked: number }): Partial<Answer> => ({
  status: 402,
  body: {
    type: "https://everdict.dev/problems/budget-exceeded",
    title: "Budget exceeded",
    status: 402,
    code: "BUDGET_EXCEEDED",
    instance: expect.stringMatching(/^req_/),
    detail:
      `workspace '${id}' has used ${figures.used} of its ${figures.budget} runs of ${MONTH}; ${figures.asked} more would go over. ` +
      `An operator raises it with PUT /workspaces/${id}/limits, or it begins anew on ${RESETS.slice(0, 10)}`,
    data: { ...figures, resetsAt: RESETS },
  },
});

test("without a budget runs are counted and none is refused", async () => {
  const { id, api } = await workspace();
  expect(await limits(id)).toEqual({
    weight: 1,
    maxInFlight: null,
    queueDepth: 50_000,
    runsBudget: null,
    runsUsed: 0,
  });
  // However often its attempts may be repeated, it is one run.
  for (const retries of [0, 1, 5]) expect((await api.call("POST", "/runs", { ...RUN, retries })).status).toBe(202);
  expect(await limits(id)).toMatchObject({ runsBudget: null, runsUsed: 3 });
});

test("the budget is set, kept when it is left out, and taken away by null; its bounds are told", async () => {
  const { id } = await workspace();
  const put = (body: object) => dev.call("PUT", `/workspaces/${id}/limits`, body);
  expect((await put({ runsBudget: 10_000_000 })).body).toMatchObject({ runsBudget: 10_000_000, runsUsed: 0 });
  expect(await put({ weight: 2 })).toMatchObject({
    status: 200,
    body: { weight: 2, queueDepth: 50_000, runsBudget: 10_000_000 },
  });
  expect(await limits(id)).toMatchObject({ weight: 2, runsBudget: 10_000_000 });
  expect((await put({ runsBudget: 0 })).body.runsBudget).toBe(0);
  expect((await put({ runsBudget: null })).body).toMatchObject({ weight: 1, runsBudget: null });
  for (const runsBudget of [-1, 1.5, 10_000_001, "5"])
    expect(await put({ runsBudget }), String(runsBudget)).toMatchObject({
      status: 400,
      body: { issues: [{ path: "runsBudget", message: "must be a whole number from 0 to 10000000" }] },
    });
  expect(await put({ runsUsed: 0 })).toMatchObject({ status: 400, body: { issues: [{ path: "runsUsed" }] } });
  expect(await limits(id)).toMatchObject({ runsBudget: null });
});

test("operators alone read and set it", async () => {
  const { id, api } = await workspace();
  for (const key of [api, await keyFor(id, "member", "admin"), await keyFor(id, "viewer", "read")])
    for (const [method, body] of [["GET"], ["PUT", { runsBudget: 5 }]] as const)
      expect(await key.call(method, `/workspaces/${id}/limits`, body), method).toMatchObject({
        status: 403,
        body: { code: "FORBIDDEN" },
      });
  expect((await dev.call("PUT", "/workspaces/no-such/limits", { runsBudget: 5 })).status).toBe(404);
  const { items } = (await api.call("GET", "/audit")).body;
  expect(items.filter(({ action }: { action: string }) => action === "workspace.limits")).toEqual([]);
});

test("a run that would go over is refused whole, with the figures, and another workspace is not touched", async () => {
  const { id, api } = await workspace();
  const other = await workspace();
  await budget(id, 2);
  await budget(other.id, 2);
  for (let i = 0; i < 2; i++) expect((await api.call("POST", "/runs", RUN)).status).toBe(202);
  const before = await rowsOf("audit", id);
  expect(await api.call("POST", "/runs", RUN)).toMatchObject(refusal(id, { budget: 2, used: 2, asked: 1 }));
  expect(await used(id)).toBe(2);
  expect(await rowsOf("runs", id)).toBe(2);
  expect(await rowsOf("audit", id)).toBe(before);
  expect((await api.call("GET", "/queue")).body.entries).toHaveLength(2);
  expect(await used(other.id)).toBe(0);
  expect((await other.api.call("POST", "/runs", RUN)).status).toBe(202);
  await budget(id, 3);
  expect((await api.call("POST", "/runs", RUN)).status).toBe(202);
  await budget(id, 1);
  expect(await api.call("POST", "/runs", RUN)).toMatchObject(refusal(id, { budget: 1, used: 3, asked: 1 }));
});

test("a budget of 0 takes nothing; a validation error comes before it", async () => {
  const { id, api } = await workspace();
  await budget(id, 0);
  expect(await api.call("POST", "/runs", RUN)).toMatchObject(refusal(id, { budget: 0, used: 0, asked: 1 }));
  expect((await api.call("POST", "/runs", { ...RUN, case: {} })).status).toBe(400);
});

test("over MCP the refusal is the same problem", async () => {
  const { id, api } = await workspace();
  await budget(id, 0);
  const client = await api.mcp();
  const answer = await client.callTool({ name: "submit_run", arguments: RUN });
  expect(answer).toMatchObject({
    isError: true,
    structuredContent: refusal(id, { budget: 0, used: 0, asked: 1 }).body,
  });
  await client.close();
});

test("a scorecard counts each case and trial, and is refused whole", async () => {
  const { id, api } = await prepared(9);
  expect((await api.call("POST", "/scorecards", { ...CARD, trials: 3 })).status).toBe(202);
  expect(await used(id)).toBe(6);
  const before = await rowsOf("audit", id);
  const over = await api.call("POST", "/scorecards", { ...CARD, trials: 2 });
  expect(over).toMatchObject(refusal(id, { budget: 9, used: 6, asked: 4 }));
  expect(await used(id)).toBe(6);
  expect([await rowsOf("scorecards", id), await rowsOf("runs", id), await rowsOf("audit", id)]).toEqual([1, 6, before]);
  expect((await api.call("POST", "/scorecards", CARD)).status).toBe(202);
  expect((await api.call("POST", "/runs", RUN)).status).toBe(202);
  expect(await used(id)).toBe(9);
});

test("each run of a scorecard's retry counts; one that would go over changes nothing", async () => {
  const { id, api } = await prepared(3);
  const { id: card } = (await api.call("POST", "/scorecards", CARD)).body;
  await ended(api, card);
  const before = (await api.call("GET", `/scorecards/${card}`)).body;
  const runs = (await api.call("GET", `/scorecards/${card}/runs`)).body;
  expect(await api.call("POST", `/scorecards/${card}/retry`)).toMatchObject(
    refusal(id, { budget: 3, used: 2, asked: 2 }),
  );
  expect((await api.call("GET", `/scorecards/${card}`)).body).toEqual(before);
  expect((await api.call("GET", `/scorecards/${card}/runs`)).body).toEqual(runs);
  expect([await used(id), await rowsOf("runs", id)]).toEqual([2, 2]);
  await budget(id, 4);
  const again = await api.call("POST", `/scorecards/${card}/retry`);
  expect(again).toMatchObject({ status: 202, body: { finishedAt: null, progress: { total: 2, cancelled: 0 } } });
  expect([await used(id), await rowsOf("runs", id)]).toEqual([4, 4]);
  const open = (await api.call("GET", `/scorecards/${card}/runs`)).body.items;
  expect(open.map(({ status }: { status: string }) => status)).toEqual(["queued", "queued"]);
});

test("of retries at the same moment one counts, the others are told", async () => {
  const { id, api } = await prepared(100);
  const { id: card } = (await api.call("POST", "/scorecards", CARD)).body;
  await ended(api, card);
  const answers = await Promise.all(Array.from({ length: 4 }, () => api.call("POST", `/scorecards/${card}/retry`)));
  expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409, 409]);
  expect([await used(id), await rowsOf("runs", id)]).toEqual([4, 4]);
});

test("submits at the same moment never go over together", async () => {
  const { id, api } = await prepared(11);
  const answers = await Promise.all([
    ...Array.from({ length: 10 }, () => api.call("POST", "/runs", RUN)),
    ...Array.from({ length: 5 }, () => api.call("POST", "/scorecards", { ...CARD, trials: 2 })),
  ]);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202, 402]));
  const accepted = answers.reduce((sum, { status }, index) => sum + (status === 202 ? (index < 10 ? 1 : 4) : 0), 0);
  expect(accepted).toBeGreaterThan(7);
  expect(accepted).toBeLessThanOrEqual(11);
  expect([await used(id), await rowsOf("runs", id)]).toEqual([accepted, accepted]);
});

test("a run that a full queue refuses gives its place back", async () => {
  const { id, api } = await workspace();
  await dev.call("PUT", `/workspaces/${id}/limits`, { queueDepth: 1, runsBudget: 2 });
  await api.call("POST", "/runs", RUN);
  for (let i = 0; i < 3; i++) expect((await api.call("POST", "/runs", RUN)).status).toBe(429);
  expect([await used(id), await rowsOf("runs", id)]).toEqual([1, 1]);
  await dev.call("PUT", `/workspaces/${id}/limits`, { queueDepth: 10 });
  expect((await api.call("POST", "/runs", RUN)).status).toBe(202);
  expect((await api.call("POST", "/runs", RUN)).status).toBe(402);
});

test("a repeat with the same Idempotency-Key counts once; a refusal holds no key", async () => {
  const { id, api } = await prepared(3);
  const key = { "idempotency-key": "once" };
  for (const [path, body] of [
    ["/runs", RUN],
    ["/scorecards", CARD],
  ] as const) {
    expect((await api.call("POST", path, body, key)).status).toBe(202);
    expect((await api.call("POST", path, body, key)).headers.get("idempotency-replayed")).toBe("true");
  }
  expect([await used(id), await rowsOf("runs", id)]).toEqual([3, 3]);
  const over = { "idempotency-key": "over" };
  expect((await api.call("POST", "/runs", RUN, over)).status).toBe(402);
  await budget(id, 4);
  expect((await api.call("POST", "/runs", RUN, over)).status).toBe(202);
});

test("a repeat after a crash finds what was stored and does not count it again", async () => {
  const { id, token } = await prepared(3);
  for (const [operation, body] of [
    [OPERATIONS.submit_run, RUN],
    [OPERATIONS.run_scorecard, CARD],
  ] as const) {
    const submit = async (ms: number) => callAt(token, Date.now() + ms, operation, body, "crashed");
    const first = await submit(0);
    // As if the process had died before the answer was kept.
    await env.DB.prepare("update idempotency set status = null, answer = null").run();
    expect(await submit(60_000)).toMatchObject({ status: 202, body: { id: (first.body as { id: string }).id } });
  }
  expect([await used(id), await rowsOf("runs", id)]).toEqual([3, 3]);
});

test("a scorecard that was cut off while it was stored gives its places back when it is swept", async () => {
  const { id, api } = await prepared(6);
  const { id: card } = (await api.call("POST", "/scorecards", { ...CARD, trials: 2 })).body;
  await api.call("POST", "/runs", RUN);
  await env.DB.prepare("update scorecards set complete = 0, acknowledged = 0, created_at = ? where id = ?")
    .bind(new Date(Date.now() - 11 * 60_000).toISOString(), card)
    .run();
  await sweep(env);
  await sweep(env);
  expect([await used(id), await rowsOf("scorecards", id), await rowsOf("runs", id)]).toEqual([1, 0, 1]);
});

test("a month ends with its last millisecond, UTC, and what is refused then is given back to its own", async () => {
  const { id, token } = await workspace();
  await budget(id, 1);
  const submit = (time: string) => callAt(token, Date.parse(time), OPERATIONS.submit_run, RUN);
  const runsUsed = async (time: string) =>
    (await getLimits(await contextAt(token, Date.parse(time)), { params: { id } })).runsUsed;
  await submit("2030-12-31T23:59:59.999Z");
  const over = await submit("2030-12-01T00:00:00.000Z").catch((error: unknown) => error);
  expect(over).toBeInstanceOf(EverdictError);
  expect(over).toMatchObject({
    code: "BUDGET_EXCEEDED",
    message: expect.stringMatching(/1 of its 1 runs of 2030-12; 1 more .* begins anew on 2031-01-01$/),
    data: { budget: 1, used: 1, asked: 1, resetsAt: "2031-01-01T00:00:00.000Z" },
  });
  await submit("2031-01-01T00:00:00.000Z");
  await expect(submit("2031-01-31T23:59:59.999Z")).rejects.toMatchObject({ code: "BUDGET_EXCEEDED" });
  await dev.call("PUT", `/workspaces/${id}/limits`, { queueDepth: 1 });
  await expect(submit("2031-02-01T00:00:00.000Z")).rejects.toMatchObject({ code: "RATE_LIMITED" });
  const months = ["2030-11-30T23:59:59.999Z", "2030-12-15T12:00:00.000Z", "2031-01-01T00:00:00.000Z"];
  expect(await Promise.all(months.map(runsUsed))).toEqual([0, 1, 1]);
  expect(await runsUsed("2031-02-01T00:00:00.000Z")).toBe(0);
});

test("the document says where it may be refused so", async () => {
  const { paths } = (await dev.call("GET", "/openapi.json")).body;
  for (const path of ["/runs", "/scorecards", "/scorecards/{id}/retry"])
    expect(JSON.stringify(paths[path].post.responses["402"])).toContain("#/components/schemas/Problem");
  expect(paths["/scorecards/preview"].post.responses["402"]).toBeUndefined();
  expect(paths["/runs"].get.responses["402"]).toBeUndefined();
});
