import { expect, test } from "vitest";
import { sweep } from "../../worker/dispatch/sweep.ts";
import { CASE, dev, ECHO, env, NOMAD, workspace } from "./support.ts";

/* Runs that were stored and of which nobody knows whether their Scheduler has them. */

const RUN = { harness: { id: "echo" }, case: CASE, runtime: "self:ws" };

/** As if the process had died between storing the run and handing it over. */
async function unacknowledge(runId: string): Promise<void> {
  const old = new Date(Date.now() - 60_000).toISOString();
  await env.DB.prepare("update runs set acknowledged = 0, created_at = ? where id = ?").bind(old, runId).run();
}
const isAcknowledged = (runId: string) =>
  env.DB.prepare("select acknowledged from runs where id = ?").bind(runId).first("acknowledged");

async function prepared() {
  const space = await workspace();
  await space.api.call("POST", "/harnesses", ECHO);
  return space;
}

/** A run that is stored, and that no Scheduler was told of. */
async function storedOnly(workspaceId: string, from: string, target: string, object: string): Promise<string> {
  const id = `${from.slice(0, -4)}zzzz`;
  await env.DB.prepare(
    `insert into runs (id, workspace, status, target, object, harness_owner, harness_id, harness_version, case_id, case_body,
       trial, retries, priority, created_by, created_at)
     select ?, workspace, 'queued', ?, ?, harness_owner, harness_id, harness_version, case_id, case_body,
       trial, retries, priority, created_by, created_at from runs where id = ? and workspace = ?`,
  )
    .bind(id, target, object, from, workspaceId)
    .run();
  await unacknowledge(id);
  return id;
}

test("a run that its Scheduler never heard of is handed over by the sweep, once", async () => {
  const { api, id } = await prepared();
  const { id: first } = (await api.call("POST", "/runs", RUN)).body;
  const lost = await storedOnly(id, first, "self:ws", `runners:ws:${id}`);
  await sweep(env);
  await sweep(env);
  expect(await isAcknowledged(lost)).toBe(1);
  const { entries } = (await api.call("GET", "/queue")).body;
  expect(entries.map(({ runId }: { runId: string }) => runId).sort()).toEqual([first, lost].sort());
});

test("one that a full queue refuses is tried again until there is room", async () => {
  const { api, id } = await prepared();
  const limits = { weight: 1, maxInFlight: null, queueDepth: 1 };
  const { id: first } = (await api.call("POST", "/runs", RUN)).body;
  const lost = await storedOnly(id, first, "self:ws", `runners:ws:${id}`);
  expect((await dev.call("PUT", `/workspaces/${id}/limits`, limits)).status).toBe(200);
  await sweep(env);
  expect(await isAcknowledged(lost)).toBe(0);
  expect((await api.call("GET", `/runs/${lost}`)).body.status).toBe("queued");
  await api.call("POST", `/runs/${first}/cancel`);
  await sweep(env);
  expect(await isAcknowledged(lost)).toBe(1);
  expect((await api.call("GET", "/queue")).body.entries).toMatchObject([{ runId: lost }]);
});

test("one that can never be handed over ends, and says why", async () => {
  const { api, id } = await prepared();
  await api.call("POST", "/runtimes", { ...NOMAD, authSecret: undefined });
  const { id: first } = (await api.call("POST", "/runs", RUN)).body;
  const lost = await storedOnly(id, first, "gpu@9.9.9", `cluster:${id}:gpu`);
  await sweep(env);
  expect((await api.call("GET", `/runs/${lost}`)).body).toMatchObject({
    status: "failed",
    failure: { stage: "dispatch", class: "config", code: "NOT_FOUND", message: expect.stringContaining("9.9.9") },
  });
});
