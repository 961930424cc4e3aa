import type { Run } from "../../../contracts/run.ts";
import { duration, percent, plain, short } from "./text.ts";

/** What became of a run, for people. */
export function runWords(run: Run): string {
  const lines = [`${run.id}  ${run.status}  ${plain(run.caseId)} on ${plain(run.target)}`];
  if (run.waiting) lines.push(`  waiting (${run.waiting.reason}): ${plain(run.waiting.detail)}`);
  if (run.result) {
    const { result } = run;
    lines.push(
      `  ${result.pass ? "passed" : "not passed"}: score ${percent(result.score)}, exit status ${result.exitCode ?? "none"}, ${duration(result.durationMs)}`,
    );
    for (const score of result.scores) {
      lines.push(`  ${score.pass ? "✓" : "✗"} ${plain(score.name)}${score.detail ? `: ${plain(score.detail)}` : ""}`);
    }
    for (const note of result.notes ?? []) lines.push(`  note: ${plain(note)}`);
  }
  if (run.failure) {
    lines.push(`  not measured: ${run.failure.code} (${run.failure.stage}, ${run.failure.class})`);
    lines.push(`  ${plain(run.failure.message)}`);
  }
  if (run.provenance) {
    lines.push(
      `  ran on ${plain(run.provenance.ranOn)}${run.provenance.node ? `, ${plain(run.provenance.node)}` : ""}`,
    );
  }
  return `${lines.join("\n")}\n`;
}

/** One line of a run in a table: case, trial, status, score, and why not better. */
export function runRow(run: Run): string[] {
  const score = run.result ? percent(run.result.score) : "–";
  return [run.caseId, String(run.trial), verdictOf(run), score, short(reasonOf(run), 200), run.id];
}

/** "passed", "not passed", or the status of a run without a result. */
export const verdictOf = (run: Run): string => (run.result ? (run.result.pass ? "passed" : "not passed") : run.status);

function reasonOf(run: Run): string {
  if (run.failure) return `${run.failure.code}: ${run.failure.message}`;
  const missed = run.result?.scores.find((score) => !score.pass);
  if (missed) return `${missed.name}: ${missed.detail ?? "missed"}`;
  return run.waiting ? `${run.waiting.reason}: ${run.waiting.detail}` : "";
}

/** 0: passed, 1: measured and not passed, 2: not measured. */
export const exitOfRun = (run: Run): number => (run.result === null ? 2 : run.result.pass ? 0 : 1);
