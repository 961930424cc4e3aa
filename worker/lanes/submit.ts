import { eq } from "drizzle-orm";
import { functionalGate } from "../../contracts/capabilities.ts";
import { caseIssues, type EvalCase } from "../../contracts/case.ts";
import { EverdictError } from "../../contracts/errors.ts";
import {
  type CommandBody,
  type HarnessBody,
  HarnessSpec,
  harnessIssues,
  harnessSecretEnv,
} from "../../contracts/harness.ts";
import { SHARED_OWNER } from "../../contracts/names.ts";
import { requiredCapabilities } from "../../contracts/requirements.ts";
import type { EnqueueEntry, ResolvedAsk, TenantLimits } from "../../contracts/rpc.ts";
import type { ResolvedTarget } from "../compute/resolve.ts";
import type { Store } from "../context.ts";
import { type Config, type Env, quotaOf } from "../environment.ts";
import { regexIssue } from "../grading/regex.ts";
import { find } from "../registry/registry.ts";
import { resolveSecrets } from "../secrets/resolve.ts";
import { workspaces } from "../store/schema.ts";
import type { RenderedCase } from "./job.ts";

/** Submits a workspace may make: a steady rate, and a burst for batches. */
const SUBMIT_RATE_PER_SEC = 200;
const SUBMIT_BURST = 5_000;

export interface LoadedHarness {
  owner: string | null;
  id: string;
  version: string;
  spec: HarnessSpec | HarnessBody;
}

export const ANONYMOUS = { id: "anonymous", version: "0.0.0" } as const;

/** A registered harness. @throws EverdictError NOT_FOUND */
export async function loadHarness(
  store: Store,
  workspace: string,
  ref: { id: string; version: string },
): Promise<LoadedHarness> {
  const row = await find(store, "harness", workspace, ref.id, ref.version);
  return { owner: row.owner, id: row.id, version: row.version, spec: HarnessSpec.parse(JSON.parse(row.spec)) };
}

/** An anonymous harness, held to the same rules as a registered one. @throws EverdictError BAD_REQUEST */
export function anonymousHarness(spec: HarnessBody): LoadedHarness {
  const issues = harnessIssues(spec).map((issue) => ({ ...issue, path: `harness.spec.${issue.path}` }));
  if (issues.length > 0) throw new EverdictError("BAD_REQUEST", "the harness cannot be used", { issues });
  return { owner: null, ...ANONYMOUS, spec };
}

/** Command harnesses run now; topologies are not run by this version. @throws EverdictError BAD_REQUEST */
export function commandBody(harness: LoadedHarness): CommandBody {
  if (harness.spec.kind === "service") {
    throw new EverdictError(
      "BAD_REQUEST",
      `harness '${harness.id}' is a topology of services; this version registers and checks such harnesses but runs command harnesses only`,
      {
        issues: [{ path: "harness", message: "name a harness of kind 'command'" }],
      },
    );
  }
  return harness.spec;
}

/** Rules of a case that a schema cannot say, regular expressions included. @throws EverdictError BAD_REQUEST */
export function checkCase(evalCase: EvalCase, path: string): void {
  const issues = caseIssues(evalCase, path);
  for (const [index, grader] of evalCase.graders.entries()) {
    if (grader.kind !== "regex") continue;
    const message = regexIssue(grader.pattern, grader.flags);
    if (message !== null) issues.push({ path: `${path}.graders.${index}.pattern`, message });
  }
  if (issues.length > 0)
    throw new EverdictError("BAD_REQUEST", "the case cannot be used", { issues: issues.slice(0, 100) });
}

/** @throws EverdictError BAD_REQUEST {runtime, need, missing, have} */
export function gate(resolved: ResolvedTarget, harness: CommandBody, evalCase: EvalCase): void {
  if (resolved.runtime === null || resolved.advertised === null) return;
  const need = requiredCapabilities(harness, evalCase);
  const verdict = functionalGate(need, resolved.advertised);
  if (verdict.ok) return;
  const { id } = resolved.runtime;
  throw new EverdictError(
    "BAD_REQUEST",
    `runtime '${id}' cannot run this: it lacks ${verdict.missing.join(", ")}; choose one that has it, or declare it in the runtime's capabilities`,
    {
      data: { runtime: id, need, missing: verdict.missing, have: resolved.advertised },
    },
  );
}

/** An ask that no pump could ever admit is refused at once. @throws EverdictError BAD_REQUEST */
export function checkFits(resolved: ResolvedTarget, ask: ResolvedAsk, caseId: string): void {
  const { envelope, runtime } = resolved;
  if (envelope === null || runtime === null) return;
  const tooBig = (what: string, asked: number, budget: number, field: string): EverdictError =>
    new EverdictError(
      "BAD_REQUEST",
      `case '${caseId}' asks for ${asked} ${what}, more than the ${budget} that runtime '${runtime.id}' may use in all; it could never start`,
      {
        data: { runtime: runtime.id, asked, budget },
        issues: [{ path: `case.resources.${field}`, message: `must be at most ${budget}` }],
      },
    );
  if (envelope.memoryBudgetMb !== null && ask.memoryMb.declared && ask.memoryMb.value > envelope.memoryBudgetMb) {
    throw tooBig("MB of memory", ask.memoryMb.value, envelope.memoryBudgetMb, "memoryMb");
  }
  if (envelope.cpuBudget !== null && ask.cpu.declared && ask.cpu.value > envelope.cpuBudget)
    throw tooBig("millicores", ask.cpu.value, envelope.cpuBudget, "cpu");
  const { spec } = runtime;
  if (spec.kind === "nomad" && ask.cpu.declared && spec.cpuMhzPerCore === undefined) {
    throw new EverdictError(
      "BAD_REQUEST",
      `runtime '${runtime.id}' does not say how fast a core is, so ${ask.cpu.value} millicores cannot be placed truly; set cpuMhzPerCore on the runtime or leave resources.cpu out`,
      {
        data: { runtime: runtime.id },
        issues: [{ path: "cpuMhzPerCore", message: "must be set on the Nomad runtime when a case declares cpu" }],
      },
    );
  }
}

/** Secrets that a job may carry: stored, and of use 'job'. @throws EverdictError BAD_REQUEST naming each */
export async function checkJobSecrets(
  env: Env,
  config: Config,
  store: Store,
  workspace: string,
  harness: CommandBody,
  evalCases: readonly EvalCase[],
): Promise<void> {
  const wanted = new Map<string, string>();
  for (const [variable, name] of Object.entries(harnessSecretEnv(harness))) wanted.set(name, `harness.env.${variable}`);
  for (const { env: source } of evalCases) {
    if (source.kind === "repo" && source.source.kind === "git" && source.source.authSecret !== undefined)
      wanted.set(source.source.authSecret, "case.env.source.authSecret");
  }
  if (wanted.size === 0) return;
  const stored = await resolveSecrets(env, config, store, workspace, [...wanted.keys()]);
  const issues = [...wanted].flatMap(([name, path]) => {
    const secret = stored.get(name);
    if (!secret)
      return [
        {
          path,
          message: `secret '${name}' is not stored in this workspace; an admin stores it with PUT /secrets/${name}`,
        },
      ];
    if (secret.use !== "job")
      return [
        {
          path,
          message: `secret '${name}' has use '${secret.use ?? "none"}'; only secrets of use 'job' may be injected into jobs`,
        },
      ];
    return [];
  });
  if (issues.length > 0) throw new EverdictError("BAD_REQUEST", "secrets of the job cannot be used", { issues });
}

/** What a workspace may take by its row; one without a row has the defaults. */
export const limitsIn = (rows: readonly TenantLimits[]): TenantLimits =>
  rows[0] ?? { weight: 1, maxInFlight: null, queueDepth: 50_000 };

/** What a workspace may take, for its Scheduler entries. */
export async function limitsOf(store: Store, workspace: string): Promise<TenantLimits> {
  const { weight, maxInFlight, queueDepth } = workspaces;
  const row = await store
    .select({ weight, maxInFlight, queueDepth })
    .from(workspaces)
    .where(eq(workspaces.id, workspace))
    .get();
  return limitsIn(row ? [row] : []);
}

/** Submits taken from the bucket together, for this isolate to spend within a second: one call then serves several. */
const TAKEN_TOGETHER = 10;
const TAKEN_MS = 1_000;
/** Submits in hand by workspace; `until` also says how long nobody else takes some more. */
const taken = new Map<string, { left: number; until: number }>();

/** @throws EverdictError RATE_LIMITED with Retry-After; BAD_REQUEST for the shared owner, which runs nothing itself */
export async function takeSubmit(env: Env, workspace: string, now: number): Promise<void> {
  if (workspace === SHARED_OWNER)
    throw new EverdictError(
      "BAD_REQUEST",
      "'_shared' holds what every workspace may use and runs nothing itself; name a workspace",
    );
  const mine = taken.get(workspace);
  const fresh = mine !== undefined && now < mine.until;
  if (fresh && mine.left > 0) {
    mine.left -= 1;
    return;
  }
  const quota = quotaOf(env, workspace);
  if (!fresh) {
    if (taken.size >= 1_000) taken.clear();
    // Noted before it is answered: of requests that come together one takes for the others, and they take for themselves.
    const more = { left: 0, until: now + TAKEN_MS };
    taken.set(workspace, more);
    const { waitSec } = await quota.takeSubmits(TAKEN_TOGETHER, SUBMIT_RATE_PER_SEC, SUBMIT_BURST);
    if (waitSec === 0) {
      more.left = TAKEN_TOGETHER - 1;
      return;
    }
  }
  const { waitSec } = await quota.takeSubmits(1, SUBMIT_RATE_PER_SEC, SUBMIT_BURST);
  if (waitSec > 0) {
    throw new EverdictError(
      "RATE_LIMITED",
      `workspace '${workspace}' submits faster than ${SUBMIT_RATE_PER_SEC} a second; send cases as one scorecard, or wait`,
      { retryAfterSec: Math.ceil(waitSec) },
    );
  }
}

/** 300 s for one named runner, which may be a laptop that is off; elsewhere for ever. */
export const defaultQueueTimeoutSec = (resolved: ResolvedTarget): number => (resolved.runnerId === null ? 0 : 300);

/** Memory that an ask declares, MiB; null: none. */
export const declaredMemory = ({ memoryMb }: ResolvedAsk): number | null => (memoryMb.declared ? memoryMb.value : null);

export function entryOf(
  run: {
    id: string;
    workspace: string;
    scorecardId: string | null;
    retries: number;
    priority: "interactive" | "batch";
    queueTimeoutSec: number | null;
  },
  resolved: ResolvedTarget,
  rendered: RenderedCase,
): EnqueueEntry {
  return {
    runId: run.id,
    workspace: run.workspace,
    target: resolved.target,
    pinnedVersion: resolved.pinnedVersion,
    batchId: run.scorecardId,
    priority: run.priority,
    ask: rendered.ask,
    runnerId: resolved.runnerId,
    queueTimeoutSec: run.queueTimeoutSec ?? defaultQueueTimeoutSec(resolved),
    retries: run.retries,
    job: rendered.job,
    jobHash: rendered.jobHash,
    grading: rendered.grading,
  };
}
