import { execFile, spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { childEnvironment, ROOT } from "../../scripts/environment.ts";
import { ControlPlane, ended } from "../support/control-plane.ts";

const run = promisify(execFile);

/** A command line, as it is typed in a checkout. */
async function typed(line: string, env: NodeJS.ProcessEnv = {}): Promise<{ code: number; out: string; err: string }> {
  try {
    const { stdout, stderr } = await run("sh", ["-c", line], { cwd: ROOT, env: { ...childEnvironment(), ...env } });
    return { code: 0, out: stdout, err: stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, out: stdout, err: stderr };
  }
}

describe("the CLI of a checkout", () => {
  let plane: ControlPlane;
  beforeAll(async () => {
    plane = await ControlPlane.start();
  });
  afterAll(() => plane.stop());

  test.each(["npm run -s everdict --", "npx --offline everdict"])("%s prints the answer alone", async (form) => {
    const { code, out } = await typed(`${form} runs list --json`, { EVERDICT_API_URL: plane.url });
    expect(JSON.parse(out)).toEqual({ items: [], nextCursor: null });
    expect(code).toBe(0);
    expect(await typed(`${form} runs get run_0`, { EVERDICT_API_URL: plane.url })).toMatchObject({ code: 4, out: "" });
  });
});

describe("what starts a server", () => {
  test.each(["npm start -s --", "npm run -s quickstart --"])("%s says how to call it", async (form) => {
    const help = await typed(`${form} --help`);
    expect(help).toMatchObject({ code: 0, err: "" });
    expect(help.out).toMatch(/^usage: npm /);
    for (const wrong of ["--nope", "--port 99999", "--port x"]) {
      const { code, out, err } = await typed(`${form} ${wrong}`);
      expect(code, wrong).toBe(2);
      expect(out).toBe("");
      expect(err).toContain("usage: npm ");
      expect(err).not.toMatch(/\n\s+at /);
    }
  });

  const terminal = spawnSync("script", ["--version"]).status === 0;
  test.skipIf(!terminal)("quickstart ends with a command that reaches its own server", async () => {
    const state = await mkdtemp(join(tmpdir(), "everdict-quickstart-test-"));
    // script(1) makes the terminal on which quickstart stays.
    const line = `node scripts/quickstart.ts --port 0 --state ${state}`;
    const child = spawn("script", ["-qec", line, "/dev/null"], { cwd: ROOT, env: childEnvironment() });
    try {
      let output = "";
      const command = await new Promise<string>((resolve, reject) => {
        child.stdout.on("data", (chunk) => {
          output += chunk;
          const found = /npm run -s everdict -- runs list --api-url (http:\/\/127\.0\.0\.1:\d+)/.exec(output);
          if (found) resolve(found[0]);
        });
        child.once("error", reject);
        child.once("close", () => reject(new Error(output)));
      });
      const { code, out } = await typed(`${command} --json`);
      expect(code).toBe(0);
      expect(JSON.parse(out).items.length).toBeGreaterThan(0);
    } finally {
      // Ctrl-C, as the terminal hands it on: quickstart ends what it started.
      child.stdin.write("\u0003");
      await ended(child);
      await rm(state, { recursive: true, force: true });
    }
  });
});
