import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { GitServer } from "./git-server.ts";
import { attemptOf } from "./jobs.ts";
import { RunnerWorld } from "./runner-process.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let world: RunnerWorld;
let git: GitServer;
beforeEach(async () => {
  git = await GitServer.start();
  world = new RunnerWorld();
  await world.control.start();
  await world.runner();
});
afterEach(async () => {
  await world.end();
  git.stop();
});

async function run(ref: string, command: string, credential: string | null = null) {
  const source = { url: git.url, ref };
  const program = { source: { kind: "git" as const } };
  const attempt = attemptOf(command, { program, job: { git: source }, attempt: { gitCredential: credential } });
  world.control.enqueue(attempt);
  await world.control.until("a report", () => world.control.reportOf(attempt) !== null);
  return world.control.reportOf(attempt);
}

test("a git source is cloned at its ref, and what the agent changes comes back as a diff", async () => {
  const report = await run("v1", "cat a.txt; echo three >>a.txt; git log --oneline | wc -l", "bot:s3cret-token");
  expect(report).toMatchObject({ exitCode: 0, stdout: "one\n1\n", diff: expect.stringContaining("+three") });
});

test("the credential of the clone reaches neither the agent nor the clone's configuration", async () => {
  const report = await run("main", "cat a.txt; env; cat .git/config", "bot:s3cret-token");
  expect(report).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^two\n/) });
  // Masks are for accidents: here there must be nothing to mask.
  expect(JSON.stringify(report)).not.toMatch(/s3cret|\*\*\*|ASKPASS/);
});

test("a ref that is not there ends the attempt with git's words, and an option is no ref", async () => {
  expect(await run("v9", "true")).toMatchObject({
    failure: { stage: "install", class: "config", code: "GIT_CLONE_FAILED", message: expect.stringContaining("v9") },
  });
  expect(await run("--upload-pack=touch /tmp/evd-pwned", "true")).toMatchObject({
    failure: { code: "GIT_CLONE_FAILED" },
  });
});
