import { EverdictError } from "../../contracts/errors.ts";
import type { Job } from "../../contracts/job.ts";
import { attemptName } from "../../contracts/names.ts";
import type { Grant, StartAnswer } from "../../contracts/rpc.ts";
import type { Failure } from "../../contracts/run.ts";
import { type AttemptRef, LEASE_MS, type LeasedAttempt } from "../../contracts/runner-protocol.ts";
import { sign } from "../auth/digest.ts";
import { storeOf, withDeadline } from "../context.ts";
import { type Config, configOf, type Env } from "../environment.ts";
import { logEvent } from "../observability/log.ts";
import { type ResolvedSecret, resolveSecrets } from "../secrets/resolve.ts";

/** D1 may stall for 60–90 s; jobs with secrets then wait, the others go on. */
const SECRETS_MS = 3_000;
const SECRETS_RETRY_SEC = 5;
/** Beyond the time limit: pulling, grading and delivering; counted by the executor from the container's start. */
const DELIVERY_SEC = 300;

/** An attempt to be handed over, its program still the JSON text it is kept as. */
export interface ReadyAttempt extends Omit<LeasedAttempt, "job"> {
  job: Omit<Job, "program">;
  programJson: string;
}

/** For executors that are started from here, which read the program. */
export function attemptOf({ programJson, job, ...attempt }: ReadyAttempt): LeasedAttempt {
  return { ...attempt, job: { ...job, program: JSON.parse(programJson) } };
}

/** For the wire: the same JSON as of `attemptOf`, without reading and writing the program again. */
export function attemptJson({ programJson, job, ...attempt }: ReadyAttempt): string {
  const head = JSON.stringify(attempt).slice(0, -1);
  return `${head},"job":${JSON.stringify(job).slice(0, -1)},"program":${programJson}}}`;
}

export type Readied =
  | { kind: "ready"; attempt: ReadyAttempt }
  | ({ kind: "withheld"; reason: "secrets-unavailable"; detail: string; retryAfterSec: number } & AttemptRef)
  | ({ kind: "rejected"; failure: Failure } & AttemptRef);

/** The Scheduler's answer for a grant that cannot be handed over. */
export function refusedStart(item: Exclude<Readied, { kind: "ready" }>): StartAnswer {
  const { runId, epoch } = item;
  if (item.kind === "rejected") return { runId, epoch, kind: "failed", failure: item.failure };
  return {
    runId,
    epoch,
    kind: "withheld",
    reason: item.reason,
    detail: item.detail,
    retryAfterSec: item.retryAfterSec,
  };
}

export const logToken = async (config: Config, runId: string, epoch: number): Promise<string> =>
  `${runId}.${epoch}.${await sign(config.signingKey, "log", `${runId}.${epoch}`)}`;

const config = (code: string, message: string): Failure => ({
  stage: "dispatch",
  class: "config",
  code,
  message,
  retryable: false,
});

function secretNames(grant: Grant): string[] {
  const { job } = grant;
  return [
    ...Object.values(job.secretEnv),
    ...(job.git?.authSecret === undefined ? [] : [job.git.authSecret]),
    ...(job.imagePullSecret === null ? [] : [job.imagePullSecret]),
  ];
}

/** Completes grants with what only the moment of dispatch knows: values of secrets, registry credentials, the log token. */
export async function readyGrants(env: Env, grants: readonly Grant[]): Promise<Readied[]> {
  const byWorkspace = new Map<string, Set<string>>();
  for (const grant of grants) {
    const names = secretNames(grant);
    if (names.length === 0) continue;
    const wanted = byWorkspace.get(grant.workspace) ?? new Set<string>();
    for (const name of names) wanted.add(name);
    byWorkspace.set(grant.workspace, wanted);
  }
  const resolved = new Map<string, Map<string, ResolvedSecret> | null>();
  await Promise.all(
    [...byWorkspace].map(async ([workspace, names]) => {
      try {
        resolved.set(
          workspace,
          await withDeadline(
            resolveSecrets(env, configOf(env), storeOf(env), workspace, [...names]),
            SECRETS_MS,
            "the secret store",
          ),
        );
      } catch (error) {
        logEvent("secrets.unavailable", { workspace, error: error instanceof Error ? error.name : "unknown" });
        resolved.set(workspace, null);
      }
    }),
  );
  return Promise.all(
    grants.map((grant) =>
      ready(
        configOf(env),
        grant,
        resolved.get(grant.workspace) ?? (secretNames(grant).length === 0 ? new Map() : null),
      ),
    ),
  );
}

async function ready(
  configuration: Config,
  grant: Grant,
  secrets: Map<string, ResolvedSecret> | null,
): Promise<Readied> {
  const { runId, epoch, job } = grant;
  if (secrets === null) {
    return {
      kind: "withheld",
      runId,
      epoch,
      reason: "secrets-unavailable",
      detail: "the secret store did not answer; the job waits for its secrets",
      retryAfterSec: SECRETS_RETRY_SEC,
    };
  }
  const values: Record<string, string> = {};
  let total = 0;
  for (const [variable, name] of Object.entries(job.secretEnv)) {
    const secret = secrets.get(name);
    if (!secret)
      return {
        kind: "rejected",
        runId,
        epoch,
        failure: config(
          "SECRET_MISSING",
          `secret '${name}' (for ${variable}) is not stored; an admin stores it with PUT /secrets/${name}`,
        ),
      };
    if (secret.use !== "job") {
      return {
        kind: "rejected",
        runId,
        epoch,
        failure: config(
          "SECRET_USE",
          `secret '${name}' has use '${secret.use ?? "none"}' and is never injected into a job; store one of use 'job'`,
        ),
      };
    }
    values[variable] = secret.value;
    total += secret.value.length;
  }
  if (total > 48 * 1024)
    return {
      kind: "rejected",
      runId,
      epoch,
      failure: config("SECRETS_TOO_LARGE", `the job's secrets are ${total} bytes together, at most 49152`),
    };
  const git = job.git?.authSecret === undefined ? null : secrets.get(job.git.authSecret);
  if (git === undefined || (git !== null && git.use !== "job")) {
    return {
      kind: "rejected",
      runId,
      epoch,
      failure: config(
        "SECRET_MISSING",
        `secret '${job.git?.authSecret}' for the git clone is not stored with use 'job'`,
      ),
    };
  }
  const registryAuth = registryOf(job.imagePullSecret, secrets);
  if ("failure" in registryAuth) return { kind: "rejected", runId, epoch, failure: registryAuth.failure };
  return {
    kind: "ready",
    attempt: {
      runId,
      epoch,
      leaseMs: LEASE_MS,
      deadlineMs: (job.timeoutSec + job.graceSec + DELIVERY_SEC) * 1_000,
      job: jobOf(grant),
      programJson: grant.programJson,
      nonce: grant.nonce,
      secrets: values,
      ...(git === null ? {} : { gitCredential: git.value }),
      registryAuth: registryAuth.auth,
      logToken: await logToken(configuration, runId, epoch),
    },
  };
}

function registryOf(
  name: string | null,
  secrets: Map<string, ResolvedSecret>,
): { auth: LeasedAttempt["registryAuth"] } | { failure: Failure } {
  if (name === null) return { auth: null };
  const secret = secrets.get(name);
  if (secret?.use !== "registry")
    return { failure: config("SECRET_USE", `secret '${name}' for image pulls is not stored with use 'registry'`) };
  try {
    const value: unknown = JSON.parse(secret.value);
    if (typeof value === "object" && value !== null && "host" in value && "username" in value && "password" in value) {
      return { auth: { host: String(value.host), username: String(value.username), password: String(value.password) } };
    }
  } catch {
    // Told below, without the value.
  }
  return { failure: config("SECRET_SHAPE", `secret '${name}' must be JSON {"host","username","password"}`) };
}

/** The Job of an attempt: its template, with the name, labels and facts of this grant. */
function jobOf(grant: Grant): Omit<Job, "program"> {
  if (grant.name !== attemptName(grant.objectHash, grant.runId, grant.epoch))
    throw new EverdictError("INTERNAL", "an attempt's name does not belong to its run");
  return {
    ...grant.job,
    name: grant.name,
    env: { ...grant.job.env, EVD_RUN_ID: grant.runId },
    labels: { object: grant.objectHash, run: grant.runId, epoch: String(grant.epoch) },
  };
}
