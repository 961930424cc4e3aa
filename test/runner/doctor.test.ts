import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { CAPABILITIES } from "../../contracts/capability-names.ts";
import { examine, table } from "../../runner/commands/doctor.ts";
import { systemdUnit } from "../../runner/commands/install.ts";
import { hostEnvironment } from "../../runner/executors/environment.ts";
import { probeComputerUse, probeDocker, probeLogin } from "../../runner/probe/findings.ts";
import { ensureBuilt } from "../../scripts/build.ts";
import { childEnvironment, ROOT } from "../../scripts/environment.ts";

test("every capability that a runner can have is looked for, and a missing one has a reason", async () => {
  const findings = await examine({ ...process.env, DOCKER_HOST: "unix:///nonexistent.sock" }, "linux");
  const looked = findings.map((finding) => finding.capability);
  expect([...looked].sort()).toEqual(CAPABILITIES.filter((one) => one !== "topology").sort());
  for (const finding of findings) if (!finding.present) expect(finding.detail).not.toBe("");
  expect(table(findings)).toMatch(/✗ docker .*nonexistent\.sock[\s\S]*→ start the docker engine/);
});

test("a hardened runtime makes a sandbox", () => {
  const present = (runtimes: string[]) => probeDocker({ version: "1", runtimes }).map((finding) => finding.present);
  expect(present(["runc"])).toEqual([true, false]);
  expect(present(["runc", "runsc"])).toEqual([true, true]);
});

test("a login counts by the file it leaves, a screen by its display", () => {
  expect(probeLogin("claude-login", { CLAUDE_CONFIG_DIR: "/nonexistent" })).toMatchObject({ present: false });
  expect(probeComputerUse("linux", { PATH: "/nonexistent" })).toMatchObject({ present: false, detail: "no DISPLAY" });
});

test("the service unit holds no token and quotes what systemd would expand", () => {
  const unit = systemdUnit({ node: "/n", script: "/a b/$x.mjs", apiUrl: "https://e/%20", stateDir: "/s", user: "me" });
  expect(unit).toContain('ExecStart="/n" "/a b/$$x.mjs" "runner" "--api-url" "https://e/%%20"');
  expect(unit).toContain("User=me");
  expect(unit).not.toMatch(/rnr_|--pair/);
});

test("a job's environment is a list of what may pass", () => {
  const clean = hostEnvironment({ PATH: "/bin", LC_ALL: "C", EVERDICT_PAIR: "rnr_x", AWS_SECRET: "y", HOME: "/h" });
  expect(clean).toEqual({ PATH: "/bin", LC_ALL: "C", HOME: "/h" });
});

test("whoever reads only the beginning of an answer is no error", async () => {
  await ensureBuilt();
  const cli = join(ROOT, "dist/everdict.mjs");
  const { stdout, stderr } = spawnSync(
    "bash",
    ["-c", `node ${cli} runner doctor --json | true; echo \${PIPESTATUS[0]}`],
    {
      env: childEnvironment(),
      encoding: "utf8",
    },
  );
  expect([stdout.trim(), stderr]).toEqual(["0", ""]);
});
