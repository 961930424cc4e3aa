import type { Run } from "../../../contracts/run.ts";
import { isTerminal } from "../../../contracts/run-states.ts";

/** What a person calls the state: a measured run passed or did not. */
export const shownStatus = (run: Pick<Run, "status" | "result">): string =>
  run.status === "succeeded" && run.result ? (run.result.pass ? "passed" : "not-passed") : run.status;

export const canCancel = (run: Pick<Run, "status">): boolean => !isTerminal(run.status);

/** Whose fault it was, in words. */
export const CLASS_WORDS: Record<string, { title: string; help: string }> = {
  infra: { title: "Infrastructure", help: "The machine or the cluster failed the run; trying again often helps" },
  config: { title: "Configuration", help: "Something is set so that it cannot work; change it, then try again" },
  harness: { title: "Harness", help: "The harness's own setup or command is broken" },
  agent: { title: "Agent", help: "The agent did not finish, for example within its time" },
};

const STAGES: Record<string, string> = {
  dispatch: "before it started",
  install: "during setup",
  run: "while it ran",
  collect: "while the result was collected",
  grade: "while it was graded",
};

export const stageWords = (stage: string): string => STAGES[stage] ?? `in stage ${stage}`;
