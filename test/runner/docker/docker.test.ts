import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Job } from "../../../contracts/job.ts";
import type { LeasedAttempt } from "../../../contracts/runner-protocol.ts";
import { GitServer } from "../git-server.ts";
import { attemptOf, type JobOptions } from "../jobs.ts";
import { RunnerWorld } from "../runner-process.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const IMAGE = "everdict/busybox:1";
const engine = spawnSync("docker", ["info"]).status === 0;

/** An image of a static busybox and nothing else, imported rather than pulled. */
function importImage(): void {
  if (docker("image", "inspect", IMAGE).status === 0) return;
  const root = mkdtempSync(join(tmpdir(), "evd-image-"));
  for (const dir of ["bin", "tmp", "etc", "proc", "dev", "sys"]) mkdirSync(join(root, dir));
  cpSync("/bin/busybox", join(root, "bin", "busybox"), { dereference: true });
  const applets = spawnSync("/bin/busybox", ["--list"], { encoding: "utf8" }).stdout.trim().split("\n");
  for (const applet of applets) if (applet !== "busybox") symlinkSync("busybox", join(root, "bin", applet));
  const archive = spawnSync("tar", ["-C", root, "-c", "."], { maxBuffer: 64 * 1024 * 1024 }).stdout;
  rmSync(root, { recursive: true });
  const done = spawnSync("docker", ["import", "-", IMAGE], { input: archive });
  if (done.status !== 0) throw new Error(done.stderr.toString());
}

const docker = (...args: string[]) => spawnSync("docker", args, { encoding: "utf8" });
const containers = (attempt: LeasedAttempt): string =>
  docker("ps", "-a", "-q", "--filter", `label=evd.run=${attempt.runId}`).stdout.trim();

describe.skipIf(!engine)(`the docker executor${engine ? "" : " (no docker engine)"}`, () => {
  let world: RunnerWorld;
  beforeAll(importImage);
  beforeEach(async () => {
    world = new RunnerWorld();
    await world.control.start();
    await world.runner(["--executor", "auto"]);
  });
  afterEach(() => world.end());

  const memory = (memoryMb: number): Partial<Job> => ({ resources: { cpu: null, memoryMb, gpu: null } });
  const run = async (command: string, job: Partial<Job> = {}, options: JobOptions = {}) => {
    const attempt = attemptOf(command, { ...options, job: { image: IMAGE, ...job } });
    world.control.enqueue(attempt);
    await world.control.until("a report", () => world.control.reportOf(attempt) !== null, 60_000);
    expect(containers(attempt)).toBe("");
    return world.control.reportOf(attempt);
  };

  test("runs a job and removes its container", async () => {
    const program = { collect: ["made"], graders: [{ name: "made", command: "test -f made" }] };
    expect(await run("echo hi; echo err >&2; echo x >made; exit 3", {}, { program })).toMatchObject({
      exitCode: 3,
      stdout: "hi\n",
      stderr: "err\n",
      graderExits: { made: 0 },
      files: { made: { bytes: 2 } },
    });
  });

  test("hands secrets over by environment and shows them nowhere", async () => {
    const secret = "correct-horse-battery";
    const attempt = { secrets: { KEY: secret } };
    const report = await run('echo "$KEY"; printf %s "$KEY" | base64; test ${#KEY} = 21', {}, { attempt });
    expect(report).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^\*\*\*\n/) });
    expect(JSON.stringify(report)).not.toMatch(/correct-horse|Y29ycmVjdC1ob3/);
  });

  test("gives no privileges, no network and a bounded number of processes", async () => {
    const report = await run(
      "grep -E 'CapEff|NoNewPrivs' /proc/self/status; ls /sys/class/net; i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo made",
      { pids: 32 },
    );
    expect(report).toMatchObject({ stdout: "CapEff:\t0000000000000000\nNoNewPrivs:\t1\nlo\n", exitCode: 2 });
  });

  test("tells memory that ran out: with the agent, without the program, and when the agent went on", async () => {
    expect(await run("exec tail /dev/zero", memory(64))).toMatchObject({ exitCode: 137, signal: 9, oomKilled: true });
    expect(await run("tail /dev/zero; echo on", memory(64))).toMatchObject({ exitCode: 0, oomKilled: true });
    // The kernel is told to take the program rather than the agent.
    const gone = await run("(tail /dev/zero) & wait $!; kill -9 -1; echo never", memory(64));
    expect(gone).toMatchObject({ oomKilled: true });
  });

  test("streams output while the job runs, and stops it when told", async () => {
    const attempt = attemptOf("echo up; sleep 60", { job: { image: IMAGE } });
    world.control.enqueue(attempt);
    const log = `${attempt.runId}/1/stdout`;
    await world.control.until("live output", () => world.control.logs.get(log)?.toString() === "up\n");
    world.control.cancel(attempt);
    await world.control.until("a report", () => world.control.reportOf(attempt) !== null);
    expect(world.control.reportOf(attempt)).toEqual({ stopped: true });
    expect(containers(attempt)).toBe("");
  });

  test("ends processes that left the agent's group, without waiting for them", async () => {
    const report = await run(
      "setsid sleep 300 & sleep 0.3; echo done",
      {},
      { program: { graders: [{ name: "alone", command: "! ps | grep 'sleep 30[0]'" }] } },
    );
    expect(report).toMatchObject({ stdout: "done\n", graderExits: { alone: 0 } });
  });

  test("puts a git source into the container, where the image needs no git", async () => {
    const git = await GitServer.start();
    try {
      const program = { source: { kind: "git" as const } };
      const report = await run(
        "cat a.txt; echo x >>a.txt; echo new >b.txt",
        { git: { url: git.url, ref: "v1" } },
        { program },
      );
      expect(report).toMatchObject({ exitCode: 0, stdout: "one\n", stderr: "", diff: null });
    } finally {
      git.stop();
    }
  });

  test("names an image that cannot be had, and one without a shell", async () => {
    expect(await run("true", { image: "127.0.0.1:9/none:1" })).toMatchObject({
      failure: { stage: "install", code: "IMAGE_UNAVAILABLE", message: expect.stringContaining("127.0.0.1:9/none:1") },
    });
    const empty = spawnSync("sh", ["-c", "tar -c -T /dev/null | docker import - everdict/empty:1"]);
    expect(empty.status).toBe(0);
    expect(await run("true", { image: "everdict/empty:1" })).toMatchObject({
      failure: { class: "config", code: "IMAGE_LACKS_SHELL" },
    });
  });

  test("a container of a killed runner is gone when the next one has started", async () => {
    const attempt = attemptOf("echo up; sleep 300", { job: { image: IMAGE } });
    const runner = await world.runner(["--executor", "docker"]);
    world.control.enqueue(attempt);
    await world.control.until("live output", () => world.control.logs.has(`${attempt.runId}/1/stdout`));
    await world.killAll();
    expect(runner.child.killed).toBe(true);
    expect(containers(attempt)).not.toBe("");
    await world.runner(["--executor", "auto"]);
    expect(containers(attempt)).toBe("");
  });
});
