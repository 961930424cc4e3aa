import { describe, expect, test } from "vitest";
import type { SeenUnit } from "../../../worker/backends/backend.ts";
import { attemptOf } from "../attempts.ts";
import { Lab, OWNER, outcomeLine, SECRET } from "./lab.ts";

const answer = (status: number, body: unknown) => ({ kind: "answer", answer: { status, body } }) as const;

function failureIn(seen: SeenUnit) {
  if (seen.end?.kind !== "failure") throw new Error(`no failure: ${JSON.stringify(seen)}`);
  return seen.end.failure;
}

function outcomeIn(seen: SeenUnit) {
  if (seen.end?.kind !== "outcome") throw new Error(`no Outcome: ${JSON.stringify(seen)}`);
  return seen.end.outcome;
}

describe("observe on Nomad: ends", () => {
  test("N 4: the Outcome is read from the file, whole, and names the node", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt, { outcome: outcomeLine(attempt.nonce, 3, "out") });
    const seen = await lab.look(attempt);
    expect(seen).toMatchObject({ state: "finished", node: "cli1", end: { kind: "outcome", partial: false } });
    expect(outcomeIn(seen)).toMatchObject({ exitCode: 3, stdout: "out", node: "cli1" });
  });

  test("N 5: an error text that fs/cat answers with 200 is never taken for a result", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt, { outcome: null });
    const requests = await lab.requestsOf(async () => {
      expect(failureIn(await lab.look(attempt))).toMatchObject({
        code: "OUTCOME_MISSING",
        stage: "collect",
        class: "infra",
      });
    });
    expect(requests.some((line) => line.includes("/fs/cat/"))).toBe(false);
    lab.allocation(attempt).files.set("/alloc/data/outcome", "stat /alloc/data/outcome: no such file or directory");
    expect(failureIn(await lab.look(attempt))).toMatchObject({ code: "OUTCOME_MISSING" });
  });

  test("N 1: output lost at the exit changes no result: the file decides", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt, { outcome: outcomeLine(attempt.nonce, 0, "all of it"), stdout: "" });
    expect(outcomeIn(await lab.look(attempt)).stdout).toBe("all of it");
  });

  test("a result with another nonce is no result", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt, { outcome: outcomeLine("f".repeat(32)) });
    expect(failureIn(await lab.look(attempt)).code).toBe("OUTCOME_MISSING");
  });

  test("N 12: 'complete' with desired 'stop' is no success, whatever the exit code", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    await lab.nomad.handle("DELETE", `/v1/job/${attempt.job.name}`, SECRET);
    lab.end(attempt, { outcome: null, exitCode: 0 });
    const failure = failureIn(await lab.look(attempt));
    expect(failure).toMatchObject({ code: "STOPPED_BY_OTHERS", class: "infra", retryable: true });
    expect(failure.placement?.events.join("\n")).toContain("alloc not needed due to job update");
  });

  test("N 11: a drained node's job looks like success and is EVICTED", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.nomad.cluster.drain("cli1");
    lab.clock.advance(60_000);
    const failure = failureIn(await lab.look(attempt));
    expect(failure).toMatchObject({ code: "EVICTED", class: "infra", retryable: true });
    expect(failure.placement).toMatchObject({ unit: attempt.job.name, node: "cli1" });
  });

  test("a drained job that had delivered its Outcome before counts", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.allocation(attempt).files.set("/alloc/data/outcome", outcomeLine(attempt.nonce, 0));
    lab.nomad.cluster.drain("cli1");
    lab.clock.advance(60_000);
    expect(outcomeIn(await lab.look(attempt)).exitCode).toBe(0);
  });

  test("N 31: memory that ran out before any result is OOM_KILLED by the event, not by the exit code", async () => {
    const lab = new Lab();
    const killed = await lab.started();
    lab.end(killed, { outcome: null, exitCode: 7, oomKilled: true });
    expect(failureIn(await lab.look(killed))).toMatchObject({ code: "OOM_KILLED", class: "config", retryable: false });
    const other = await lab.started();
    lab.end(other, { outcome: null, exitCode: 137 });
    expect(failureIn(await lab.look(other))).toMatchObject({ code: "OUTCOME_MISSING", class: "infra" });
  });

  test("N 31, P 6: a child that ran out of memory is marked on the Outcome", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt, { outcome: outcomeLine(attempt.nonce, 137), oomKilled: true });
    expect(outcomeIn(await lab.look(attempt))).toMatchObject({ exitCode: 137, signal: 9, oomKilled: true });
  });

  test("a program that could not work in the image tells so with its own last words", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt, { outcome: null, exitCode: 97, stderr: "everdict: the image lacks tail" });
    expect(failureIn(await lab.look(attempt))).toMatchObject({
      code: "PROGRAM_FAILED",
      class: "config",
      logTail: "everdict: the image lacks tail",
    });
  });

  test("N 17: files that the node has collected name client.gc_max_allocs", async () => {
    const lab = new Lab();
    const node = lab.nomad.cluster.nodes.get("cli1");
    if (node) node.gcMaxAllocs = 2;
    const attempts = [await lab.started(), await lab.started(), await lab.started()];
    for (const attempt of attempts) lab.end(attempt);
    const failure = failureIn(await lab.look(attempts[0] ?? attemptOf(OWNER)));
    expect(failure).toMatchObject({ code: "OUTCOME_COLLECTED", class: "infra", retryable: true });
    expect(failure.message).toContain("client.gc_max_allocs");
  });

  test("N 16: a node that is away keeps its ended job waiting until it is back with the result", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt);
    const node = lab.nomad.cluster.nodes.get("cli1");
    if (node) node.alive = false;
    expect(await lab.look(attempt)).toMatchObject({
      state: "running",
      detail: expect.stringContaining("No path to node"),
    });
    if (node) node.alive = true;
    expect(outcomeIn(await lab.look(attempt)).exitCode).toBe(0);
  });

  test("N 33: an image that cannot be pulled is told with the pull's words and the three ways against image removal", async () => {
    const lab = new Lab();
    lab.nomad.cluster.registry = () =>
      "Error response from daemon: pull access denied for x, repository does not exist or may require 'docker login'";
    const failure = failureIn(await lab.look(await lab.started()));
    expect(failure).toMatchObject({ code: "IMAGE_ACCESS_DENIED", class: "config", stage: "install" });
    expect(failure.message).toMatch(/push it to a registry.*image = false.*image_delay/s);
    expect(failure.placement?.events[0]).toContain("Failed to pull");
  });

  test("a git source that cannot be fetched tells git's own words", async () => {
    const lab = new Lab();
    const attempt = await lab.started({ job: { git: { url: "https://x.example/a", ref: "main" } } });
    const alloc = lab.allocation(attempt);
    alloc.files.set("/alloc/data/clone-words", "fatal: couldn't find remote ref main\n");
    alloc.tasks = {};
    lab.nomad.cluster.event(alloc, "clone", "Started", "Task started by client");
    lab.nomad.cluster.failTask(alloc, "clone", "Terminated", "Exit Code: 1");
    expect(failureIn(await lab.look(attempt))).toMatchObject({
      code: "GIT_CLONE_FAILED",
      class: "config",
      stage: "install",
    });
  });
});

describe("observe on Nomad: lost nodes and second lives", () => {
  test("N 9: a lost node's job is waited for, is placed nowhere else, and finishes when the node is back", async () => {
    const lab = new Lab();
    lab.nomad.cluster.addNode("cli2");
    const attempt = await lab.started();
    lab.nomad.cluster.loseNode("cli1");
    expect(await lab.look(attempt)).toMatchObject({
      state: "running",
      detail: expect.stringContaining("does not answer"),
    });
    lab.nomad.cluster.returnNode("cli1");
    lab.end(attempt);
    expect(outcomeIn(await lab.look(attempt)).exitCode).toBe(0);
    expect(lab.nomad.cluster.executions.get(attempt.job.name)).toBe(1);
  });

  test("a node that stays away past the job's time is NODE_LOST, also for a unit that is to stop", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.nomad.cluster.loseNode("cli1");
    expect((await lab.look(attempt, true)).state).toBe("running");
    lab.clock.advance((60 + 300 + 420) * 1_000);
    for (const stopping of [false, true])
      expect(failureIn(await lab.look(attempt, stopping))).toMatchObject({
        code: "NODE_LOST",
        class: "infra",
        retryable: true,
      });
  });

  test("N 9: a server that drops Disconnect places the job again: the attempt ends at once, and collect ends the second life", async () => {
    const lab = new Lab({ version: "1.6.10" });
    const attempt = await lab.started();
    lab.nomad.cluster.addNode("cli2");
    lab.nomad.cluster.loseNode("cli1");
    expect(lab.nomad.cluster.of(attempt.job.name)).toHaveLength(2);
    expect(failureIn(await lab.look(attempt))).toMatchObject({ code: "NODE_LOST", retryable: true });
    await lab.backend.collect([attempt.job.name]);
    lab.clock.advance(60_000);
    lab.nomad.cluster.settle();
    expect(lab.nomad.cluster.statusOf(attempt.job.name)).toBe("dead");
    expect(lab.nomad.cluster.of(attempt.job.name)[1]?.containerAlive).toBe(false);
  });

  test("N 10: 'lost' that turned to 'complete' when the node came back is NODE_LOST", async () => {
    const lab = new Lab({ version: "1.6.10" });
    const attempt = await lab.started();
    lab.nomad.cluster.loseNode("cli1");
    lab.nomad.cluster.returnNode("cli1");
    expect(lab.allocation(attempt)).toMatchObject({ clientStatus: "complete", desiredStatus: "stop" });
    expect(failureIn(await lab.look(attempt))).toMatchObject({ code: "NODE_LOST" });
  });

  test("N 48: an allocation that someone stopped is replaced by Nomad, and does not pass for the same run", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.nomad.cluster.kill(lab.allocation(attempt), "alloc is being migrated");
    lab.end(attempt, { outcome: null, exitCode: 143 });
    lab.nomad.cluster.schedule(attempt.job.name, "alloc-stop");
    expect(failureIn(await lab.look(attempt))).toMatchObject({ code: "EVICTED" });
  });

  test("N 49: a job that ended while its client was away is collected as any other", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.nomad.cluster.loseNode("cli1");
    const alloc = lab.allocation(attempt);
    alloc.files.set("/alloc/data/outcome", outcomeLine(attempt.nonce, 9));
    alloc.containerAlive = false;
    lab.nomad.cluster.returnNode("cli1");
    expect(outcomeIn(await lab.look(attempt)).exitCode).toBe(9);
  });
});

describe("observe on Nomad: waiting", () => {
  const big = { job: { resources: { cpu: null, memoryMb: 900_000, gpu: null } } };

  test("N 39: a job without a place waits in the scheduler's words", async () => {
    const lab = new Lab();
    expect(await lab.look(await lab.started(big))).toMatchObject({
      state: "pending",
      detail: "exhausted: memory (1 node)",
    });
    const windows = await lab.started({ job: { os: "windows" } });
    expect((await lab.look(windows)).detail).toBe("filtered: ${attr.kernel.name} = windows (1 node)");
    const node = lab.nomad.cluster.nodes.get("cli1");
    if (node) node.eligible = false;
    expect((await lab.look(await lab.started())).detail).toContain("no node was considered");
  });

  test("N 39: it ends with placementTimeoutSec, which the message names, and not before", async () => {
    const lab = new Lab({ spec: { placementTimeoutSec: 120 } });
    const attempt = await lab.started(big);
    lab.clock.advance(119_000);
    expect((await lab.look(attempt)).state).toBe("pending");
    lab.clock.advance(2_000);
    const failure = failureIn(await lab.look(attempt));
    expect(failure).toMatchObject({ code: "RESOURCES_EXHAUSTED", class: "infra", stage: "dispatch" });
    expect(failure.message).toMatch(/not placed after 121 s \(placementTimeoutSec 120\).*memory/s);
  });

  test("N 40: a job that waited starts by itself when there is room", async () => {
    const lab = new Lab();
    const half = { job: { resources: { cpu: null, memoryMb: 10_000, gpu: null } } };
    const first = await lab.started(half);
    const second = await lab.started(half);
    expect((await lab.look(second)).state).toBe("pending");
    lab.end(first);
    expect((await lab.look(second)).state).toBe("running");
  });

  test("N 43: a job whose variable is gone waits for ever by itself, and ends after a minute by us", async () => {
    const lab = new Lab();
    const attempt = attemptOf(OWNER, { secrets: { KEY: "v" } });
    lab.nomad.faults.plan(/^PUT \/v1\/var/, answer(200, {}));
    await lab.backend.start(attempt);
    expect(await lab.look(attempt)).toMatchObject({
      state: "pending",
      detail: expect.stringContaining("Missing: nomad.var"),
    });
    lab.clock.advance(61_000);
    expect(failureIn(await lab.look(attempt))).toMatchObject({ code: "VARIABLE_MISSING", class: "infra" });
  });
});

describe("observe on Nomad: stopping", () => {
  test("N 13, N 48: 'dead' comes at once while the task lives; stopped is told when every allocation is over", async () => {
    const lab = new Lab();
    const attempt = await lab.started({ program: { graceSec: 20 } });
    await lab.backend.stop([attempt.job.name]);
    expect(lab.nomad.cluster.statusOf(attempt.job.name)).toBe("dead");
    expect((await lab.look(attempt, true)).state).toBe("running");
    lab.clock.advance(26_000);
    expect((await lab.look(attempt, true)).state).toBe("stopped");
  });

  test("a unit that is to stop is not stopped while a second allocation of its job lives", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt, { outcome: null });
    lab.nomad.cluster.schedule(attempt.job.name, "alloc-stop");
    await lab.backend.stop([attempt.job.name]);
    expect((await lab.look(attempt, true)).state).toBe("running");
    lab.clock.advance(31_000);
    expect((await lab.look(attempt, true)).state).toBe("stopped");
  });

  test("N 48: stopping an unknown job is no error; it counts as stopped", async () => {
    const lab = new Lab();
    const attempt = attemptOf(OWNER);
    await lab.backend.stop([attempt.job.name]);
    expect((await lab.look(attempt, true)).state).toBe("stopped");
  });

  test("a stop never purges, which would free the name for a second life (N 7)", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    const requests = await lab.requestsOf(async () => {
      await lab.backend.stop([attempt.job.name]);
      await lab.backend.collect([attempt.job.name]);
    });
    expect(requests.filter((line) => line.startsWith("DELETE")).length).toBeGreaterThan(0);
    expect(requests.some((line) => line.includes("purge"))).toBe(false);
  });

  test("a job that never had a place is stopped at once", async () => {
    const lab = new Lab();
    const attempt = await lab.started({ job: { resources: { cpu: null, memoryMb: 900_000, gpu: null } } });
    await lab.backend.stop([attempt.job.name]);
    expect((await lab.look(attempt, true)).state).toBe("stopped");
  });

  test("N 44: collect deletes the variable, and a sweep those of jobs that nobody knows, but no young or foreign one", async () => {
    const lab = new Lab();
    const attempt = await lab.started({ secrets: { KEY: "v" } });
    lab.end(attempt);
    await lab.backend.collect([attempt.job.name]);
    const left = await lab.started({ secrets: { KEY: "v" } });
    const foreign = attemptOf(OWNER, { secrets: { KEY: "v" } });
    await lab.backendWith(SECRET, { deployment: "other", object: OWNER.object }).start(foreign);
    lab.end(left);
    lab.end(foreign);
    expect(lab.nomad.cluster.variables.size).toBe(2);
    await lab.backend.observe([], { waitMs: 0, sweep: true });
    expect(lab.nomad.cluster.variables.size).toBe(2);
    lab.clock.advance(901_000);
    await lab.backend.observe([], { waitMs: 0, sweep: true });
    expect([...lab.nomad.cluster.variables.keys()]).toEqual([`nomad/jobs/${foreign.job.name}`]);
  });
});
