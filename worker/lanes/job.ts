import { canonicalJson } from "../../contracts/canonical.ts";
import type { EvalCase } from "../../contracts/case.ts";
import { EverdictError } from "../../contracts/errors.ts";
import { gradedPaths, graderCommands } from "../../contracts/graders.ts";
import { type CommandBody, harnessSecretEnv } from "../../contracts/harness.ts";
import type { JobTemplate } from "../../contracts/job.ts";
import { LIMITS } from "../../contracts/names.ts";
import {
  effectiveImage,
  jobResources,
  payloadIssues,
  requiredCapabilities,
  requiredOs,
  resolveAsk,
  taskText,
} from "../../contracts/requirements.ts";
import type { GradingSpec, ResolvedAsk } from "../../contracts/rpc.ts";
import type { RuntimeSpec } from "../../contracts/runtime-spec.ts";
import { sha256 } from "../auth/digest.ts";
import { ProgramInputError, renderProgram } from "../program/render.ts";

/** Seconds between TERM and KILL. */
const GRACE_SEC = 10;
/** Enough for an agent with a browser; below what a fork bomb needs to hurt the host. */
const PIDS = 1_024;

export interface RenderedCase {
  job: JobTemplate;
  jobHash: string;
  ask: ResolvedAsk;
  grading: GradingSpec;
}

/**
 * Turns a case of a command harness into a Job. The same on every backend; a backend never sees the case.
 * @throws EverdictError BAD_REQUEST, PAYLOAD_TOO_LARGE
 */
export async function renderCase(
  harness: CommandBody,
  evalCase: EvalCase,
  runtime: RuntimeSpec | null,
): Promise<RenderedCase> {
  const issues = payloadIssues(harness, evalCase, "case");
  if (issues.length > 0)
    throw new EverdictError(
      "BAD_REQUEST",
      `case '${evalCase.id}' cannot be run with this harness: ${issues[0]?.path} ${issues[0]?.message}`,
      { issues },
    );
  const ask = resolveAsk(harness, evalCase, runtime);
  const { env } = evalCase;
  const git = env.kind === "repo" && env.source.kind === "git" ? env.source : null;
  const literals: Record<string, string> = {};
  for (const [name, value] of Object.entries(harness.env)) if (typeof value === "string") literals[name] = value;
  if (env.kind === "browser" && env.startUrl !== undefined) literals.EVERDICT_START_URL = env.startUrl;
  const task = taskText(evalCase);
  const source =
    git !== null
      ? { kind: "git" as const }
      : env.kind === "repo" && env.source.kind === "files"
        ? { kind: "files" as const, files: env.source.files }
        : { kind: "none" as const };
  const job: JobTemplate = {
    mode: "batch",
    image: effectiveImage(harness, evalCase, runtime),
    program: rendered(() =>
      renderProgram({
        task,
        setup: harness.setup,
        command: harness.command,
        params: harness.params,
        model: harness.model ?? null,
        env: literals,
        workDir: harness.workDir,
        source,
        timeoutSec: evalCase.timeoutSec,
        graceSec: GRACE_SEC,
        graders: graderCommands(evalCase.graders),
        collect: gradedPaths(evalCase.graders),
      }),
    ),
    env: {},
    secretEnv: harnessSecretEnv(harness),
    resources: jobResources(ask),
    pids: PIDS,
    network: evalCase.network ?? "bridge",
    os: requiredOs(evalCase),
    isolation: evalCase.placement?.isolation ?? "container",
    git:
      git === null
        ? null
        : { url: git.url, ref: git.ref, ...(git.authSecret === undefined ? {} : { authSecret: git.authSecret }) },
    ports: [],
    sidecars: [],
    imagePullSecret: runtime !== null && runtime.kind !== "local" ? (runtime.imagePullSecret ?? null) : null,
    timeoutSec: evalCase.timeoutSec,
    graceSec: GRACE_SEC,
    needs: requiredCapabilities(harness, evalCase),
  };
  const text = canonicalJson(job);
  const size = new TextEncoder().encode(text).length;
  if (size > LIMITS.jobBytes) {
    throw new EverdictError(
      "PAYLOAD_TOO_LARGE",
      `case '${evalCase.id}' makes a job of ${size} bytes, at most ${LIMITS.jobBytes}; put its files into a git source`,
    );
  }
  const grading = {
    graders: evalCase.graders,
    ...(evalCase.expected === undefined ? {} : { expected: evalCase.expected }),
  };
  return { job, jobHash: await sha256(text), ask, grading };
}

function rendered(render: () => string): string {
  try {
    return render();
  } catch (error) {
    if (error instanceof ProgramInputError) throw new EverdictError("BAD_REQUEST", error.message, { cause: error });
    throw error;
  }
}
