import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureBuilt } from "./build.ts";
import { childEnvironment, ROOT } from "./environment.ts";

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

/** Runs vitest; its last word is ours. Arguments are passed on: `npm test -- --project unit`. */
async function run(folder: string): Promise<{ code: number; counts: Counts }> {
  const file = join(folder, "summary.json");
  const args = [
    "run",
    "--reporter=default",
    `--reporter=${join(ROOT, "test/support/summary-reporter.ts")}`,
    ...process.argv.slice(2),
  ];
  const child = spawn("vitest", args, {
    cwd: ROOT,
    env: { ...childEnvironment(), SUMMARY_FILE: file },
    stdio: ["ignore", "inherit", "inherit"],
  });
  const code = await new Promise<number>((resolve) => child.on("close", (status) => resolve(status ?? 1)));
  try {
    const counts: Counts = JSON.parse(await readFile(file, "utf8"));
    return { code, counts };
  } catch {
    return { code: code || 1, counts: { passed: 0, failed: 1, skipped: 0 } };
  }
}

await ensureBuilt();
const folder = await mkdtemp(join(tmpdir(), "everdict-test-"));
try {
  const { code, counts } = await run(folder);
  if (counts.skipped > 0) console.log(`${counts.skipped} skipped (each says why above)`);
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  process.exitCode = code === 0 && counts.failed === 0 ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
