import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { withoutPair } from "../../runner/pairing.ts";
import { TOKEN } from "./fake-control-plane.ts";
import { attemptOf } from "./jobs.ts";
import { RunnerWorld } from "./runner-process.ts";

// Real processes on a machine that may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let world: RunnerWorld;
beforeEach(async () => {
  world = new RunnerWorld();
  await world.control.start();
});
afterEach(() => world.end());

test("a token given as an argument is out of the argument list before the first request", async () => {
  const runner = await world.runner();
  expect(runner.commandLine()).not.toContain("rnr_");
  const dir = join(world.stateDir, "pairings");
  for (const file of readdirSync(dir)) {
    expect(readFileSync(join(dir, file), "utf8")).toContain(TOKEN);
    expect(statSync(join(dir, file)).mode & 0o077).toBe(0);
  }
});

test("a token can come by variable or standard input, and is stored for the next start", async () => {
  for (const [args, env, input] of [
    [[], { EVERDICT_PAIR: TOKEN }, null],
    [["--pair", "-"], {}, `${TOKEN}\n`],
    [[], {}, null],
  ] as const) {
    const before = world.control.leases.length;
    const runner = world.launch(["--executor", "host", ...args], env, input);
    await world.control.until("a lease request", () => world.control.leases.length > before);
    expect(runner.environment()).not.toContain(TOKEN);
    runner.child.kill("SIGTERM");
    expect(await runner.exited).toBe(0);
  }
});

test("a job on the host sees neither the token nor other variables of the runner", async () => {
  await world.runner([], { EVERDICT_PAIR: TOKEN, AWS_SECRET_ACCESS_KEY: "not-for-jobs" });
  const attempt = attemptOf("env; cat /proc/$PPID/environ | tr '\\0' '\\n'");
  world.control.enqueue(attempt);
  await world.control.until("a report", () => world.control.reportOf(attempt) !== null);
  const report = JSON.stringify(world.control.reportOf(attempt));
  expect(report).toContain("HOME=");
  expect(report).not.toMatch(/rnr_|not-for-jobs|EVERDICT_/);
});

test("a revoked token ends the runner with words and status 3", async () => {
  world.control.revoked = true;
  const runner = world.launch(["--pair", TOKEN, "--executor", "host"]);
  expect(await runner.exited).toBe(3);
  expect(runner.log).toMatch(/revoked.*pair again/);
});

test("a control plane that needs a newer protocol ends it with status 4", async () => {
  world.control.fault = () => ({ status: 426 });
  const runner = world.launch(["--pair", TOKEN, "--executor", "host"]);
  expect(await runner.exited).toBe(4);
  expect(runner.log).toContain("upgrade it");
});

test("a text that is no token, and a machine that is not paired, are refused with status 2", async () => {
  const wrong = world.launch(["--pair", "ak_wrong"]);
  expect(await wrong.exited).toBe(2);
  expect(wrong.log).not.toContain("ak_wrong");
  const unpaired = world.launch([]);
  expect(await unpaired.exited).toBe(2);
  expect(unpaired.log).toContain("not paired");
});

test("both spellings of --pair are taken out of the arguments", () => {
  expect(withoutPair(["runner", "--pair", "a", "--once", "--pair=b"])).toEqual(["runner", "--once"]);
});
