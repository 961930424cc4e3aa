import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import type { LeasedAttempt } from "../../contracts/runner-protocol.ts";
import { attemptOf } from "./jobs.ts";
import { processesWith } from "./runner-process.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const Units = z.object({ units: z.array(z.looseObject({ name: z.string(), state: z.string() })) });

/** The local executor in a process of its own. */
class LocalServer {
  readonly child: ChildProcess;
  readonly #port: Promise<string>;

  constructor(stateDir: string) {
    const main = resolve(import.meta.dirname, "local-process.ts");
    this.child = spawn(process.execPath, [main, stateDir, "host"], { stdio: ["ignore", "pipe", "ignore"] });
    this.#port = new Promise((done) => this.child.stdout?.once("data", (data: Buffer) => done(data.toString().trim())));
  }

  async call(method: string, path: string, body?: unknown): Promise<{ status: number; json: unknown }> {
    const url = `http://127.0.0.1:${await this.#port}${path}`;
    const response = await fetch(url, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
    const text = await response.text();
    return { status: response.status, json: text === "" ? null : JSON.parse(text) };
  }

  async units(waitMs = 0): Promise<z.infer<typeof Units>["units"]> {
    return Units.parse((await this.call("GET", `/units?object=0a1b2c3d&waitMs=${waitMs}`)).json).units;
  }

  async until(state: string): Promise<z.infer<typeof Units>["units"][number]> {
    for (let tries = 0; tries < 40; tries++) {
      const found = (await this.units(1_000)).find((unit) => unit.state === state);
      if (found) return found;
    }
    throw new Error(`no unit became ${state}`);
  }

  async kill(): Promise<void> {
    const exited = new Promise((done) => this.child.once("exit", done));
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill("SIGKILL");
    await exited;
  }
}

function startBody(attempt: LeasedAttempt, secrets: Record<string, string> = {}): unknown {
  const { job, nonce, logToken, runId, epoch } = attempt;
  return { name: job.name, job, nonce, secrets, registryAuth: null, logToken, runId, epoch };
}

describe("the local executor", () => {
  let stateDir: string;
  let server: LocalServer;
  beforeEach(() => {
    stateDir = mkdtempSync(join(tmpdir(), "evd-local-"));
    server = new LocalServer(stateDir);
  });
  afterEach(async () => {
    await server.kill();
    rmSync(stateDir, { recursive: true, force: true });
  });

  test("starts once by name, tells the end, and forgets it when collected", async () => {
    const attempt = attemptOf("echo hi; sleep 0.3");
    expect((await server.call("POST", "/start", startBody(attempt))).status).toBe(200);
    expect((await server.call("POST", "/start", startBody(attempt))).status).toBe(200);
    const unit = await server.until("finished");
    expect(unit).toMatchObject({ runId: attempt.runId, epoch: 1, outcome: { exitCode: 0, stdout: "hi\n" } });
    expect((await server.call("DELETE", `/units/${attempt.job.name}`)).status).toBe(204);
    expect(await server.units()).toEqual([]);
  });

  test("stops a unit and tells that it is gone", async () => {
    const mark = `9${Date.now() % 100_000}`;
    const attempt = attemptOf(`sleep ${mark}`);
    await server.call("POST", "/start", startBody(attempt));
    await server.until("running");
    expect((await server.call("POST", "/stop", { name: attempt.job.name })).json).toEqual({ found: true });
    expect(await server.until("finished")).toMatchObject({ stopped: true });
    expect(processesWith(`sleep\0${mark}`)).toEqual([]);
    expect((await server.call("POST", "/stop", { name: "evd-none" })).json).toEqual({ found: false });
  });

  test("finds a running job again after a SIGKILL of its process, and its end with secrets masked", async () => {
    const attempt = attemptOf("sleep 2; echo $KEY survived");
    await server.call("POST", "/start", startBody(attempt, { KEY: "correct-horse" }));
    await server.until("running");
    await server.kill();
    server = new LocalServer(stateDir);
    const unit = await server.until("finished");
    expect(unit).toMatchObject({ runId: attempt.runId, outcome: { exitCode: 0, stdout: "*** survived\n" } });
  });

  test("keeps an end that was not collected over a SIGKILL", async () => {
    const attempt = attemptOf("exit 5");
    await server.call("POST", "/start", startBody(attempt));
    await server.until("finished");
    await server.kill();
    server = new LocalServer(stateDir);
    expect(await server.units()).toMatchObject([
      { name: attempt.job.name, state: "finished", outcome: { exitCode: 5 } },
    ]);
  });

  test("refuses what it cannot read", async () => {
    expect((await server.call("POST", "/start", { name: "x" })).status).toBe(400);
    expect((await server.call("GET", "/nothing")).status).toBe(404);
  });
});
