import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ControlPlane, startRunner, until } from "../support/control-plane.ts";

const run = promisify(execFile);
/** Values that must not be found anywhere in clear, plain or in base64. */
const CANARY = `canary-${randomUUID()}`;
const encoded = Buffer.from(CANARY).toString("base64").replace(/=+$/, "");

let plane: ControlPlane;
let runner: Awaited<ReturnType<typeof startRunner>>;

beforeAll(async () => {
  plane = await ControlPlane.start();
  runner = await startRunner(plane);
});
afterAll(async () => {
  await runner.stop();
  await rm(runner.folder, { recursive: true, force: true });
  await plane.stop();
});

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

test("a secret that a job uses and prints is in no log, answer, stored row or process list", async () => {
  const client = plane.client();
  await client.call("put_secret", { params: { name: "CANARY" }, body: { value: CANARY } });
  const command =
    'test -n "$KEY" && echo "plain $KEY"; printf %s "$KEY" | base64 -w0; echo; echo "err $KEY" >&2; printf %s "$KEY" > out.txt; test "${#KEY}" -eq 43; sleep 2';
  const { id } = await client.call("submit_run", {
    body: {
      harness: { spec: { kind: "command", command, env: { KEY: { secretRef: "CANARY" } } } },
      case: {
        id: "leak",
        task: "x",
        graders: [
          { kind: "exit-code" },
          { kind: "contains", value: "plain ***" },
          { kind: "contains", in: "file", path: "out.txt", value: "***" },
        ],
      },
      runtime: "self",
    },
  });
  await until("it runs", 20_000, async () => (await client.call("get_run", { params: { id } })).status === "running");
  const processes = (await run("ps", ["-eww", "-o", "args"])).stdout;
  const ended = await until("it has ended", 20_000, async () => {
    const now = await client.call("get_run", { params: { id } });
    return now.finishedAt === null ? null : now;
  });
  // The job had the value, and what it printed of it is masked.
  expect(ended.result?.scores.map(({ name, pass, detail }) => [name, pass, detail])).toEqual([
    ["exit-code", true, null],
    ["contains", true, null],
    ["contains-2", true, null],
  ]);
  const answers = JSON.stringify([
    ended,
    await client.call("get_run_logs", { params: { id } }),
    await client.call("list_secrets"),
    await client.call("list_audit"),
    await client.call("get_run_placement", { params: { id } }),
    await client.call("get_queue"),
    await (await fetch(`${plane.url}/runs/${id}/logs/stream`)).text(),
    await (await fetch(`${plane.url}/metrics`)).text(),
  ]);
  const places: [string, string][] = [
    ["process list", processes],
    ["answers of the API", answers],
    ["server output", plane.output],
    ["runner output", runner.output],
  ];
  for (const [where, text] of places) {
    expect(text.includes(CANARY), where).toBe(false);
    expect(text.includes(encoded), `${where}, base64`).toBe(false);
    expect(text.includes(runner.token), `${where}: runner token`).toBe(false);
  }
  for (const file of await filesBelow(plane.state)) {
    const bytes = await readFile(file);
    expect(bytes.includes(CANARY), file).toBe(false);
    expect(bytes.includes(runner.token), file).toBe(false);
  }
  for (const file of await filesBelow(join(runner.folder, "work")))
    expect((await readFile(file)).includes(CANARY), file).toBe(false);
});

test("a new version of a runtime counts from the next dispatch, and both share one set of slots", async () => {
  const client = plane.client();
  await client.call("create_runtime", { body: { kind: "local", id: "here", version: "1.0.0" } });
  const submit = (command: string, runtime: string) =>
    client.call("submit_run", {
      body: { harness: { spec: { kind: "command", command } }, case: { id: "c", task: "t" }, runtime },
    });
  const over = (id: string) =>
    until(`${id} has ended`, 30_000, async () => {
      const now = await client.call("get_run", { params: { id } });
      return now.finishedAt === null ? null : now;
    });
  const first = await over((await submit("true", "here")).id);
  expect(first).toMatchObject({
    status: "succeeded",
    runtime: { version: "1.0.0" },
    provenance: { ranOn: "local:here@1.0.0", attestation: "managed" },
  });
  // Four slots: the first four runs fill them whichever version they are pinned to.
  const fill = await Promise.all(
    ["here@1.0.0", "here", "here@1.0.0", "here"].map((target) => submit("sleep 6", target)),
  );
  await client.call("create_runtime", { body: { kind: "local", id: "here", version: "1.1.0" } });
  const later = await submit("true", "here");
  const waiting = await until(
    "it waits",
    5_000,
    async () => (await client.call("get_run", { params: { id: later.id } })).waiting,
  );
  expect(waiting.reason).toBe("slots");
  expect(await over(later.id)).toMatchObject({
    runtime: { version: "1.1.0" },
    provenance: { ranOn: "local:here@1.1.0" },
  });
  for (const { id } of fill) expect((await over(id)).status).toBe("succeeded");
});
