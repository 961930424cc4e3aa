import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import { attemptOf } from "./jobs.ts";
import { processesWith, RunnerWorld } from "./runner-process.ts";

// Real processes on a machine that may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let world: RunnerWorld;
beforeEach(async () => {
  world = new RunnerWorld();
  await world.control.start();
});
afterEach(() => world.end());

const reported = (...refs: AttemptRef[]): Promise<void> =>
  world.control.until("reports", () => refs.every((ref) => world.control.reportOf(ref) !== null));
const running = (ref: AttemptRef): Promise<void> =>
  world.control.until("running", () => world.control.logs.has(`${ref.runId}/${ref.epoch}/stdout`));

describe("a runner", () => {
  test("confirms a grant before it starts, runs it, and reports the Outcome", async () => {
    await world.runner();
    const attempt = attemptOf("echo hi");
    world.control.enqueue(attempt);
    await reported(attempt);
    expect(world.control.reportOf(attempt)).toMatchObject({ exitCode: 0, stdout: "hi\n" });
    expect(world.control.attempts.get(`${attempt.runId}/1`)?.phases[0]).toBe("accepted");
    expect(world.leftovers()).toEqual([]);
  });

  test("does not start a grant that was withdrawn while it confirmed it", async () => {
    await world.end();
    world = new RunnerWorld({ acceptMs: 0 });
    await world.control.start();
    let blocked = true;
    world.control.fault = (path) => (blocked && path === "/runner/heartbeat" ? { status: 503 } : undefined);
    await world.runner();
    const attempt = attemptOf("echo started");
    world.control.enqueue(attempt);
    await world.control.until(
      "withdrawn",
      () => world.control.attempts.get(`${attempt.runId}/1`)?.state === "withdrawn",
    );
    blocked = false;
    await world.control.until("an acknowledgement", () => world.control.results.length > 0);
    expect(world.control.results[0]).toMatchObject({ report: { stopped: true } });
  });

  test("runs as many jobs as it has slots, and takes the next with its results", async () => {
    await world.runner(["--max-concurrent", "2"]);
    const attempts = Array.from({ length: 6 }, (_, index) => attemptOf(`sleep 0.2; echo ${index}`));
    world.control.enqueue(...attempts);
    await reported(...attempts);
    expect(Math.max(...world.control.leases.map((lease) => lease.slots.free))).toBe(2);
    expect(world.control.results.filter((result) => result.accepted)).toHaveLength(6);
    expect(world.control.results.some((result) => "released" in result.report)).toBe(false);
  });

  test.each(["cancel", "superseded"] as const)("ends a job on %s, whole, and acknowledges it", async (verdict) => {
    await world.runner();
    const mark = `7${Date.now() % 100_000}`;
    const attempt = attemptOf(`echo up; setsid sleep ${mark} & sleep ${mark}`);
    world.control.enqueue(attempt);
    await running(attempt);
    expect(processesWith(`sleep\0${mark}`).length).toBeGreaterThan(0);
    world.control.cancel(attempt, verdict);
    await reported(attempt);
    expect(world.control.reportOf(attempt)).toEqual({ stopped: true });
    expect(processesWith(`sleep\0${mark}`)).toEqual([]);
    expect(world.leftovers()).toEqual([]);
  });

  test("acknowledges a stop of something it does not have", async () => {
    await world.runner();
    const { runId } = attemptOf("true");
    world.control.cancel({ runId, epoch: 4 });
    await world.control.until("an acknowledgement", () => world.control.results.length > 0);
    expect(world.control.results[0]).toMatchObject({ ref: { runId, epoch: 4 }, report: { stopped: true } });
  });

  test("repeats a result whose answer was lost, and errors, until it is accepted", async () => {
    await world.runner();
    world.control.fault = (path, seen) => {
      if (path !== "/runner/results") return undefined;
      if (seen === 1) return "lost";
      return seen === 2 ? { status: 503, headers: { "retry-after": "1" } } : seen === 3 ? "cut" : undefined;
    };
    const attempt = attemptOf("echo once");
    world.control.enqueue(attempt);
    await world.control.until("the repeat", () => world.control.results.length === 2);
    expect(world.control.results.map((result) => result.accepted)).toEqual([true, true]);
    expect(world.control.results[0]?.report).toEqual(world.control.results[1]?.report);
  });

  test("goes on through a proxy that cuts connections and a control plane that is away", async () => {
    const runner = await world.runner();
    const attempt = attemptOf("sleep 1; echo survived");
    world.control.enqueue(attempt);
    await world.control.until("accepted", () => world.control.attempts.get(`${attempt.runId}/1`)?.state === "accepted");
    world.control.fault = () => "cut";
    world.control.cutConnections();
    await world.control.until("the runner to notice", () => runner.log.includes("cannot reach"));
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    world.control.fault = () => undefined;
    await reported(attempt);
    expect(world.control.reportOf(attempt)).toMatchObject({ exitCode: 0, stdout: "survived\n" });
    expect(world.control.results).toHaveLength(1);
  });

  test("refuses to run a case with an image on the host, naming the capability", async () => {
    await world.runner();
    const attempt = attemptOf("true", { job: { image: "busybox:1" } });
    world.control.enqueue(attempt);
    await reported(attempt);
    expect(world.control.reportOf(attempt)).toMatchObject({
      failure: { code: "CAPABILITY_MISSING", message: expect.stringContaining("docker") },
    });
  });

  test("ends a job at its own deadline when its watchdog did not", async () => {
    await world.runner();
    const attempt = attemptOf("sleep 60", { attempt: { deadlineMs: 700 } });
    world.control.enqueue(attempt);
    await reported(attempt);
    expect(world.control.reportOf(attempt)).toMatchObject({ failure: { code: "DEADLINE_EXCEEDED" } });
  });

  test("tells a program that was killed from outside as an infrastructure failure", async () => {
    await world.runner();
    const attempt = attemptOf('echo up; kill -9 "$(ps -o ppid= -p $$ | tr -d " ")"; sleep 5');
    world.control.enqueue(attempt);
    await reported(attempt);
    expect(world.control.reportOf(attempt)).toMatchObject({
      failure: { code: "NO_OUTCOME", class: "infra", retryable: true },
    });
  });
});

describe("leaving", () => {
  test("a drain takes nothing new and lets running jobs finish", async () => {
    const runner = await world.runner();
    const attempt = attemptOf("echo up; sleep 1.5; echo done");
    world.control.enqueue(attempt);
    await running(attempt);
    runner.child.kill("SIGTERM");
    await world.control.until("draining", () => runner.log.includes("draining"));
    world.control.enqueue(attemptOf("echo never"));
    expect(await runner.exited).toBe(0);
    expect(world.control.reportOf(attempt)).toMatchObject({ exitCode: 0, stdout: "up\ndone\n" });
    expect(world.control.results.filter((result) => !("released" in result.report))).toHaveLength(1);
  });

  test.each([
    ["when the drain time is over", ["--drain-timeout", "1"], 1],
    ["at the second signal", [], 2],
  ])("jobs are handed back %s", async (_when, args, signals) => {
    const runner = await world.runner(args);
    const attempt = attemptOf("echo up; sleep 60");
    world.control.enqueue(attempt);
    await running(attempt);
    for (let sent = 0; sent < signals; sent++) {
      runner.child.kill("SIGTERM");
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    expect(await runner.exited).toBe(0);
    expect(world.control.reportOf(attempt)).toEqual({ released: true });
    expect(world.leftovers()).toEqual([]);
  });

  test("--once ends after the first job", async () => {
    const runner = await world.runner(["--once"]);
    const first = attemptOf("echo one");
    world.control.enqueue(first, attemptOf("echo two"));
    expect(await runner.exited).toBe(0);
    expect(world.control.reportOf(first)).toMatchObject({ stdout: "one\n" });
    expect(world.control.results).toHaveLength(1);
  });

  test("what a killed runner left is ended when the next one starts", async () => {
    const runner = await world.runner();
    const mark = `8${Date.now() % 100_000}`;
    const attempt = attemptOf(`echo up; setsid sleep ${mark} & sleep ${mark}`);
    world.control.enqueue(attempt);
    await running(attempt);
    runner.child.kill("SIGKILL");
    await runner.exited;
    expect(processesWith(`sleep\0${mark}`).length).toBeGreaterThan(0);
    await world.runner();
    expect(processesWith(`sleep\0${mark}`)).toEqual([]);
    expect(world.leftovers()).toEqual([]);
  });

  test("a second runner of the same machine leaves the first one's jobs alone", async () => {
    await world.runner();
    const attempt = attemptOf("echo up; sleep 2; echo whole");
    world.control.enqueue(attempt);
    await running(attempt);
    await world.runner();
    await reported(attempt);
    expect(world.control.reportOf(attempt)).toMatchObject({ exitCode: 0, stdout: "up\nwhole\n" });
  });
});
