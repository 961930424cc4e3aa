import { writeFileSync } from "node:fs";
import type { Reporter, TestModule } from "vitest/node";

/** Counts for the last line of the test command, written where SUMMARY_FILE says: nothing may print after that line. */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    let passed = 0;
    let failed = unhandled.length;
    let skipped = 0;
    for (const module of modules) {
      const before = failed;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") passed++;
        else if (state === "failed") failed++;
        else skipped++;
      }
      // A file that could not be loaded has no tests to fail.
      if (module.state() === "failed" && failed === before) failed++;
    }
    const file = process.env.SUMMARY_FILE;
    if (file) writeFileSync(file, JSON.stringify({ passed, failed, skipped }));
  }
}
