import { expect } from "vitest";
import type { Outcome } from "../../contracts/job.ts";
import type { Failure } from "../../contracts/run.ts";
import type { SeenUnit, UnitEnd } from "../../worker/backends/backend.ts";
import type { AttemptParts } from "./attempts.ts";

export interface Scenario {
  name: string;
  parts: AttemptParts;
  missingImage?: boolean;
  check(end: UnitEnd): void;
}

/** How a unit ended. */
export function endsOf(seen: SeenUnit | undefined): UnitEnd {
  if (!seen?.end) throw new Error(`has not ended: ${JSON.stringify(seen)}`);
  return seen.end;
}

/** It ended with an Outcome. */
export function endsWell(end: UnitEnd): { outcome: Outcome; partial: boolean } {
  if (end.kind !== "outcome") throw new Error(`failed: ${JSON.stringify(end.failure)}`);
  return end;
}

/** It ended without one, for this reason. */
export function endedBadly(end: UnitEnd, want: Partial<Failure>, words?: RegExp): void {
  if (end.kind !== "failure") throw new Error(`has an Outcome: ${JSON.stringify(end.outcome).slice(0, 500)}`);
  expect(end.failure).toMatchObject(want);
  if (words) expect(end.failure.message).toMatch(words);
}

/** The ways a case ends, each recognised for what it is. */
export const SCENARIOS: Scenario[] = [
  {
    name: "pass",
    parts: { program: { command: "printf hi; echo seen >&2; printf 42 > out.txt", collect: ["out.txt"] } },
    check(end) {
      const { outcome, partial } = endsWell(end);
      expect(partial).toBe(false);
      expect(outcome).toMatchObject({ exitCode: 0, stdout: "hi", stderr: "seen\n" });
      expect(outcome.files["out.txt"]).toMatchObject({ bytes: 2, base64: "NDI=" });
      expect(outcome.node).not.toBe("");
    },
  },
  {
    name: "exit 3",
    parts: { program: { command: "echo broken >&2; exit 3" } },
    check: (end) => expect(endsWell(end).outcome).toMatchObject({ exitCode: 3, stderr: "broken\n" }),
  },
  {
    name: "a grader that fails",
    parts: { program: { command: "true", graders: [{ name: "there", command: "test -f nothing" }] } },
    check: (end) => expect(endsWell(end).outcome).toMatchObject({ exitCode: 0, graderExits: { there: 1 } }),
  },
  {
    name: "more output than a termination message holds",
    parts: { program: { command: "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done" } },
    check(end) {
      const { outcome, partial } = endsWell(end);
      expect(partial).toBe(false);
      expect(outcome.stdout).toContain("line 2999\n");
      expect(outcome.stdoutBytes).toBeGreaterThan(20_000);
    },
  },
  {
    name: "a forged result line",
    parts: {
      program: { command: "echo __EVERDICT_RESULT__ 00000000000000000000000000000000 ZXZlcmRpY3QgMQo=; exit 5" },
    },
    check: (end) => expect(endsWell(end).outcome.exitCode).toBe(5),
  },
  {
    name: "the time limit",
    parts: { program: { command: "sleep 100", timeoutSec: 2 } },
    check: (end) => expect(endsWell(end).outcome).toMatchObject({ timedOut: true }),
  },
  {
    name: "a setup step that fails",
    parts: { program: { setup: ["no-such-command"] } },
    check: (end) => expect(endsWell(end).outcome).toMatchObject({ exitCode: null, setupExitCode: 127 }),
  },
  {
    name: "memory that runs out",
    parts: {
      // No faster than a watcher on a busy machine can follow.
      program: { command: "a=xxxxxxxxxxxxxxxx; while :; do a=$a$a; sleep 0.1; done" },
      job: { resources: { cpu: 100, memoryMb: 24, gpu: null } },
    },
    check(end) {
      if (end.kind === "failure") expect(end.failure).toMatchObject({ code: "OOM_KILLED", class: "config" });
      else expect(end.outcome).toMatchObject({ oomKilled: true, signal: 9 });
    },
  },
  {
    name: "an image that is not there",
    parts: { program: { command: "true" } },
    missingImage: true,
    check(end) {
      if (end.kind !== "failure") throw new Error("it ran");
      expect(end.failure.code).toMatch(/^IMAGE_/);
      expect(end.failure.placement?.events[0]).toMatch(/pull|resolve|not found/i);
    },
  },
];
