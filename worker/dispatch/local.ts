import * as z from "zod";
import { EverdictError } from "../../contracts/errors.ts";
import { type Inspection, NodeView, type WorkloadView } from "../../contracts/inspection.ts";
import { Outcome } from "../../contracts/job.ts";
import type { DispatcherRpc, Grant, Observation, ObservedUnit, StartAnswer } from "../../contracts/rpc.ts";
import { Failure } from "../../contracts/run.ts";
import type { AttemptRef, LeasedAttempt } from "../../contracts/runner-protocol.ts";
import { blankInspection, inspectWithin, section, setNodes, setWorkload } from "../backends/inspection.ts";
import { resolveTarget } from "../compute/resolve.ts";
import { storeOf } from "../context.ts";
import { configOf, type Env } from "../environment.ts";
import { attemptOf, readyGrants, refusedStart } from "./grants.ts";
import { judgeReport } from "./judge-report.ts";

/*
 * `local` runtimes: the development server binds a fetch-shaped executor that lives in its own process. It answers like a
 * small cluster: start creates or adopts by name, units are listed, results are collected once and then deleted.
 */

const BASE = "http://local";
/** A blocking listing waits so long for a change. */
const LISTING_MS = 2_000;
const CALL_MS = 10_000;

const Unit = z.object({
  name: z.string(),
  runId: z.string(),
  epoch: z.number().int(),
  state: z.enum(["pending", "running", "finished"]),
  node: z.string().nullable(),
  outcome: Outcome.optional(),
  failure: Failure.optional(),
  stopped: z.boolean().optional(),
});
const Listing = z.object({ units: z.array(Unit) });

type Units = Parameters<DispatcherRpc["observe"]>[1];

async function call(env: Env, method: string, path: string, body: unknown, ms: number): Promise<Response> {
  if (!env.LOCAL) throw new Error("no local executor is bound");
  return env.LOCAL.fetch(BASE + path, {
    method,
    signal: AbortSignal.timeout(ms),
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
}

const refOf = ({ runId, epoch }: AttemptRef): AttemptRef => ({ runId, epoch });
const wordsOf = (error: unknown): string => (error instanceof Error ? error.message.slice(0, 300) : "unknown error");

/** A lease has no meaning here: the executor answers with evidence. */
function startRequest({ leaseMs: _, ...attempt }: LeasedAttempt) {
  return { name: attempt.job.name, ...attempt };
}

/** The version of a local runtime that a grant binds to now. @throws EverdictError NOT_FOUND when it is gone */
async function versionOf(env: Env, grant: Grant): Promise<string> {
  const subject = { workspace: grant.workspace, person: null };
  const { runtime } = await resolveTarget(storeOf(env), configOf(env), subject, grant.target);
  return runtime?.version ?? "0.0.0";
}

export async function startLocal(env: Env, grants: readonly Grant[]): Promise<StartAnswer[]> {
  const readied = await readyGrants(env, grants);
  return Promise.all(
    grants.map(async (grant, index): Promise<StartAnswer> => {
      const item = readied[index];
      if (item?.kind !== "ready") return item ? refusedStart(item) : unknownStart(grant, "not readied");
      try {
        const version = await versionOf(env, grant);
        const answer = await call(env, "POST", "/start", startRequest(attemptOf(item.attempt)), CALL_MS);
        if (!answer.ok) return unknownStart(grant, `the local executor answered HTTP ${answer.status}`);
        const ranOn = `local:${grant.target.split("@", 1)[0]}@${version}`;
        return {
          ...refOf(grant),
          kind: "started",
          externalId: grant.name,
          node: "control-plane",
          ranOn,
          runtimeVersion: version,
        };
      } catch (error) {
        if (error instanceof EverdictError && error.code === "NOT_FOUND") {
          const failure = {
            stage: "dispatch" as const,
            class: "config" as const,
            code: "RUNTIME_GONE",
            message: error.message,
            retryable: false,
          };
          return { ...refOf(grant), kind: "failed", failure };
        }
        return unknownStart(grant, wordsOf(error));
      }
    }),
  );
}

const unknownStart = (ref: AttemptRef, message: string): StartAnswer => ({
  ...refOf(ref),
  kind: "unknown",
  error: { code: "LOCAL_UNREACHABLE", message, retryAfterSec: null },
});

export async function observeLocal(
  env: Env,
  objectHash: string,
  units: Units,
): Promise<{ observation: Observation; collect(): Promise<void> }> {
  let listing: z.infer<typeof Listing>;
  const live = units.some((unit) => !unit.stopping);
  try {
    const answer = await call(
      env,
      "GET",
      `/units?object=${objectHash}&waitMs=${live ? LISTING_MS : 1_000}`,
      undefined,
      LISTING_MS + CALL_MS,
    );
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    listing = Listing.parse(await answer.json());
  } catch (error) {
    const fault = { code: "LOCAL_UNREACHABLE", message: wordsOf(error), retryAfterSec: null };
    return { observation: { ok: false, error: fault, units: [], listed: [] }, collect: async () => undefined };
  }
  const byName = new Map(listing.units.map((unit) => [unit.name, unit]));
  const observed = units.map((unit) => observedUnit(unit, byName.get(unit.name)));
  // Ends that no live attempt waits for: of attempts that were superseded, or already collected.
  const asked = new Set(units.map(({ name }) => name));
  const over = listing.units
    .filter(({ name, state }) => state === "finished" && !asked.has(name))
    .map(({ name }) => name);
  await forgetLocal(env, over);
  const finished = new Set(listing.units.filter(({ state }) => state === "finished").map(({ name }) => name));
  const listed = [...byName.keys()].filter((name) => !finished.has(name));
  const ended = observed.filter(({ state }) => state === "finished" || state === "stopped").map(({ name }) => name);
  return { observation: { ok: true, error: null, units: observed, listed }, collect: () => forgetLocal(env, ended) };
}

function observedUnit(unit: Units[number], found: z.infer<typeof Unit> | undefined): ObservedUnit {
  const base = { ...refOf(unit), name: unit.name, node: found?.node ?? null, detail: null, verdict: null };
  if (!found) return { ...base, state: unit.stopping ? "stopped" : "absent" };
  if (found.state !== "finished") return { ...base, state: found.state };
  if (found.stopped) return { ...base, state: "stopped" };
  if (found.failure) return { ...base, state: "finished", verdict: judgeReport({ failure: found.failure }, unit) };
  return found.outcome
    ? { ...base, state: "finished", verdict: judgeReport(found.outcome, unit) }
    : { ...base, state: "absent" };
}

/** Stops what runs; the listing says when it is gone. */
export async function stopLocal(env: Env, names: readonly string[]): Promise<void> {
  await Promise.allSettled(names.map((name) => call(env, "POST", "/stop", { name }, CALL_MS)));
}

/** Forgets units whose result is durable elsewhere. */
async function forgetLocal(env: Env, names: readonly string[]): Promise<void> {
  await Promise.allSettled(names.map((name) => call(env, "DELETE", `/units/${name}`, undefined, CALL_MS)));
}

/** The control plane's own machine and what runs on it. */
export async function inspectLocal(env: Env, objectHash: string): Promise<Inspection> {
  if (!env.LOCAL) return blankInspection("local", "local runtimes exist on a development server only", "unavailable");
  return inspectWithin("local", async (seen) => {
    const get = async (path: string): Promise<unknown> => {
      const answer = await call(env, "GET", path, undefined, CALL_MS);
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      return answer.json();
    };
    try {
      const machine = NodeView.parse(await get("/machine"));
      Object.assign(seen, { reachable: true, detail: "in-process on the control-plane host", reason: null });
      setNodes(seen, [machine], [machine]);
    } catch (error) {
      Object.assign(seen, { detail: wordsOf(error), reason: "connect" });
      return;
    }
    await section(seen, "workload", async () => {
      const { units } = Listing.parse(await get(`/units?object=${objectHash}&waitMs=0`));
      const views = units.map(
        ({ name, state, node }): WorkloadView => ({
          name,
          unit: name,
          ours: true,
          role: "job",
          state,
          node,
          since: null,
        }),
      );
      setWorkload(seen, views, views.length, false);
    });
  });
}
