import * as z from "zod";
import { Outcome } from "../../contracts/job.ts";
import type { DispatcherRpc, Grant, Observation, ObservedUnit, StartAnswer } from "../../contracts/rpc.ts";
import { Failure } from "../../contracts/run.ts";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import type { Env } from "../environment.ts";
import { readyGrants } from "./grants.ts";
import { judgeReport } from "./judge-report.ts";

/*
 * `local` runtimes: the development server binds a fetch-shaped executor that lives in its own process. It answers like a
 * small cluster: start creates or adopts by name, units are listed, results are collected once and then deleted.
 */

const BASE = "http://local";
/** A blocking listing waits so long for a change. */
const LISTING_MS = 20_000;
const CALL_MS = 10_000;

const Unit = z.object({
  name: z.string(),
  runId: z.string(),
  epoch: z.number().int(),
  state: z.enum(["pending", "running", "finished", "stopped"]),
  node: z.string().nullable(),
  detail: z.string().nullable().optional(),
  outcome: z
    .union([z.strictObject({ failure: Failure }), Outcome])
    .nullable()
    .optional(),
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

export async function startLocal(
  env: Env,
  grants: readonly Grant[],
  version: (grant: Grant) => string,
): Promise<StartAnswer[]> {
  const readied = await readyGrants(env, grants);
  return Promise.all(
    readied.map(async (item, index): Promise<StartAnswer> => {
      if (item.kind === "withheld")
        return {
          ...refOf(item),
          kind: "withheld",
          reason: item.reason,
          detail: item.detail,
          retryAfterSec: item.retryAfterSec,
        };
      if (item.kind === "rejected") return { ...refOf(item), kind: "failed", failure: item.failure };
      const { attempt } = item;
      const grant = grants[index];
      try {
        const answer = await call(env, "POST", "/start", { name: attempt.job.name, ...attempt }, CALL_MS);
        if (!answer.ok)
          return {
            ...refOf(attempt),
            kind: "unknown",
            error: {
              code: "LOCAL_ERROR",
              message: `the local executor answered HTTP ${answer.status}`,
              retryAfterSec: null,
            },
          };
        return {
          ...refOf(attempt),
          kind: "started",
          externalId: attempt.job.name,
          node: "control-plane",
          runtimeVersion: grant ? version(grant) : "0.0.0",
        };
      } catch (error) {
        return {
          ...refOf(attempt),
          kind: "unknown",
          error: { code: "LOCAL_UNREACHABLE", message: wordsOf(error), retryAfterSec: null },
        };
      }
    }),
  );
}

export async function observeLocal(env: Env, objectHash: string, units: Units): Promise<Observation> {
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
    return {
      ok: false,
      error: { code: "LOCAL_UNREACHABLE", message: wordsOf(error), retryAfterSec: null },
      units: [],
      listed: [],
    };
  }
  const byName = new Map(listing.units.map((unit) => [unit.name, unit]));
  const observed = units.map((unit): ObservedUnit => {
    const found = byName.get(unit.name);
    const base = { ...refOf(unit), name: unit.name, node: found?.node ?? null, detail: found?.detail ?? null };
    if (!found) return { ...base, state: unit.stopping ? "stopped" : "absent", verdict: null };
    if (found.state === "finished" && found.outcome)
      return { ...base, state: "finished", verdict: judgeReport(found.outcome, unit) };
    return { ...base, state: found.state === "finished" ? "absent" : found.state, verdict: null };
  });
  return { ok: true, error: null, units: observed, listed: listing.units.map(({ name }) => name) };
}

/** Stops what runs; the listing says when it is gone. */
export async function stopLocal(env: Env, names: readonly string[]): Promise<void> {
  await Promise.allSettled(names.map((name) => call(env, "POST", "/stop", { name }, CALL_MS)));
}

/** Forgets units whose result is durable elsewhere. */
export async function forgetLocal(env: Env, names: readonly string[]): Promise<void> {
  await Promise.allSettled(names.map((name) => call(env, "DELETE", `/units/${name}`, undefined, CALL_MS)));
}
