import type { GradingSpec, Verdict } from "../../contracts/rpc.ts";
import type { Report } from "../../contracts/runner-protocol.ts";
import { type JobFacts, judge, judgeFailure } from "../grading/judge.ts";

/** The end of an attempt from an executor's report. @param facts null when the attempt is no longer the reporter's */
export function judgeReport(
  report: Exclude<Report, { released: true } | { stopped: true }>,
  facts: { grading: GradingSpec; job: JobFacts } | null,
): Verdict {
  if ("failure" in report) return judgeFailure(report.failure, { stdout: report.failure.logTail ?? "" });
  if (facts === null) {
    return judgeFailure({
      stage: "grade",
      class: "infra",
      code: "SUPERSEDED",
      message: "the attempt was no longer current when its result came",
      retryable: false,
    });
  }
  return judge(report, facts.grading, facts.job);
}
