import { EverdictError } from "../../contracts/errors.ts";
import type { DispatcherRpc, Grant, Observation, ObservedUnit, StartAnswer } from "../../contracts/rpc.ts";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import { sha256 } from "../auth/digest.ts";
import type { Backend, SeenUnit, Sighting } from "../backends/backend.ts";
import { eachOf } from "../backends/each-of.ts";
import { type ClusterSpec, clusterBackend } from "../compute/cluster.ts";
import { type RelayAway, relayAway } from "../compute/relay.ts";
import { resolveTarget } from "../compute/resolve.ts";
import { storeOf } from "../context.ts";
import { configOf, type Env } from "../environment.ts";
import { logEvent } from "../observability/log.ts";
import { Masking } from "../secrets/masking.ts";
import { resolveSecrets } from "../secrets/resolve.ts";
import { archiveLog, finishFollowing } from "./follow.ts";
import { attemptOf, readyGrants, refusedStart } from "./grants.ts";
import { judgeReport } from "./judge-report.ts";

/** A blocking listing waits so long for a change by the cluster's own mechanism. */
const LISTING_MS = 20_000;

type Units = Parameters<DispatcherRpc["observe"]>[1];
type Unit = Units[number];

/** What each message of an object names: enough to find the runtime version again. */
export interface Placed extends AttemptRef {
  workspace: string;
  target: string;
  pinnedVersion: string | null;
}

const refOf = ({ runId, epoch }: AttemptRef): AttemptRef => ({ runId, epoch });

/** The Scheduler that asks. */
export interface Asking {
  object: string;
  /** First 8 hex digits of its hash: what names and labels of its units begin with. */
  hash: string;
}

export const askingOf = async (object: string): Promise<Asking> => ({
  object,
  hash: (await sha256(object)).slice(0, 8),
});

const ranOnOf = ({ kind, id, version }: ClusterSpec): string => `${kind}:${id}@${version}`;

interface Cluster {
  backend: Backend;
  spec: ClusterSpec;
  /** The relay that leads there, when it is away. */
  away: RelayAway | null;
}

/** The cluster of a runtime version as it is registered now, with the credential as it is stored now. */
export async function clusterOf(env: Env, { object, hash }: Asking, placed: Placed): Promise<Cluster> {
  const store = storeOf(env);
  const config = configOf(env);
  const base = placed.target.split("@", 1)[0] ?? placed.target;
  const target = placed.pinnedVersion === null ? base : `${base}@${placed.pinnedVersion}`;
  const resolved = await resolveTarget(store, config, { workspace: placed.workspace, person: null }, target);
  const spec = resolved.runtime?.spec;
  if (!spec || spec.kind === "local")
    throw new EverdictError("UPSTREAM_MISCONFIGURED", `runtime '${target}' is no cluster any more`);
  // A shared runtime's credential is its owner's, not that of whoever uses it.
  const owner = resolved.runtime?.owner ?? placed.workspace;
  const backend = await clusterBackend(env, config, store, owner, spec, hash);
  const away = spec.relay === undefined ? null : await relayAway(env, store, owner, spec.relay, object);
  return { backend, spec, away };
}

/** Placed things by the runtime version they belong to. */
function byVersion<T extends Placed>(items: readonly T[]): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = JSON.stringify([item.workspace, item.target, item.pinnedVersion]);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return [...groups.values()];
}

const faultOf = (error: unknown) =>
  error instanceof EverdictError
    ? { code: error.code, message: error.message.slice(0, 500), retryAfterSec: error.retryAfterSec ?? null }
    : { code: "UPSTREAM_ERROR", message: "the cluster could not be asked", retryAfterSec: null };

export async function startOnClusters(env: Env, asking: Asking, grants: readonly Grant[]): Promise<StartAnswer[]> {
  const answers = await Promise.all(byVersion(grants).map((group) => startGroup(env, asking, group)));
  return answers.flat();
}

async function startGroup(env: Env, asking: Asking, grants: readonly Grant[]): Promise<StartAnswer[]> {
  const [first] = grants;
  if (!first) return [];
  let cluster: Cluster;
  try {
    cluster = await clusterOf(env, asking, first);
  } catch (error) {
    const gone = error instanceof EverdictError && (error.status < 500 || error.code === "UPSTREAM_MISCONFIGURED");
    if (!gone) return grants.map((grant) => ({ ...refOf(grant), kind: "unknown", error: faultOf(error) }));
    const failure = {
      stage: "dispatch" as const,
      class: "config" as const,
      code: error.code === "NOT_FOUND" ? "RUNTIME_GONE" : "RUNTIME_MISCONFIGURED",
      message: error.message,
      retryable: false,
    };
    return grants.map((grant) => ({ ...refOf(grant), kind: "failed", failure }));
  }
  const { backend, spec, away } = cluster;
  if (away) return grants.map((grant) => ({ ...refOf(grant), kind: "withheld", reason: "relay-offline", ...away }));
  const readied = await readyGrants(env, grants);
  return Promise.all(
    readied.map(async (item): Promise<StartAnswer> => {
      if (item.kind !== "ready") return refusedStart(item);
      const { leaseMs: _, ...attempt } = attemptOf(item.attempt);
      const result = await backend.start(attempt);
      if (result.kind === "failed") return { ...refOf(attempt), kind: "failed", failure: result.failure };
      if (result.kind === "unknown") return { ...refOf(attempt), kind: "unknown", error: result.error };
      return {
        ...refOf(attempt),
        kind: "started",
        externalId: result.externalId,
        node: result.node,
        runtimeVersion: spec.version,
        ranOn: ranOnOf(spec),
      };
    }),
  );
}

/** One listing per runtime version with attempts in flight. What a failed one would have said stays unsaid. */
export async function observeClusters(
  env: Env,
  asking: Asking,
  units: Units,
): Promise<{ observation: Observation; collect(followed: ReadonlySet<string>): Promise<void> }> {
  const groups = byVersion(units);
  const seen = await Promise.all(groups.map((group) => observeGroup(env, asking, group, groups.length === 1)));
  const good = seen.filter((item) => item.sighting.ok);
  const observed: ObservedUnit[] = [];
  const listed = new Set<string>();
  for (const { sighting, news } of good) {
    if (!sighting.ok) continue;
    observed.push(...news);
    for (const name of sighting.listed) listed.add(name);
  }
  const bad = seen.find((item) => !item.sighting.ok);
  const error = bad && !bad.sighting.ok ? { ...bad.sighting.error, relayOffline: bad.relayOffline } : null;
  const observation: Observation =
    good.length > 0 || error === null
      ? { ok: true, error: null, units: observed, listed: [...listed] }
      : { ok: false, error, units: [], listed: [] };
  const facts = new Map(units.map((unit) => [unit.name, unit]));
  const collect = async (followed: ReadonlySet<string>) => {
    await Promise.all(
      good.map(async ({ backend, sighting }) => {
        if (!backend || !sighting.ok) return;
        await keepLogs(env, backend, sighting.units, facts, followed);
        await collectEnded(backend, sighting.units);
      }),
    );
  };
  return { observation, collect };
}

/** Leftovers are looked for during a third of each minute: a pass costs a listing more then. */
const isSweepTime = (): boolean => Date.now() % 60_000 < 20_000;

interface Group {
  relayOffline: boolean;
  backend: Backend | null;
  sighting: Sighting;
  news: ObservedUnit[];
}

async function observeGroup(env: Env, asking: Asking, group: Unit[], alone: boolean): Promise<Group> {
  const [first] = group;
  const none = { relayOffline: false, backend: null, news: [] };
  if (!first) return { ...none, sighting: { ok: true, units: [], listed: [] } };
  try {
    const { backend, spec, away } = await clusterOf(env, asking, first);
    if (away) {
      const error = { code: "UPSTREAM_ERROR", message: away.detail, retryAfterSec: away.retryAfterSec };
      return { ...none, relayOffline: true, sighting: { ok: false, error } };
    }
    // Several versions answer together, so none may hold up the others' news, nor sweep what another one still waits for.
    const waitMs = alone && group.some((unit) => !unit.stopping) ? LISTING_MS : 0;
    const sighting = await backend.observe(group, { waitMs, sweep: alone && isSweepTime() });
    return {
      ...none,
      backend,
      sighting,
      news: sighting.ok ? await newsOf(env, group, sighting.units, ranOnOf(spec)) : [],
    };
  } catch (error) {
    return { ...none, sighting: { ok: false, error: faultOf(error) } };
  }
}

/** What units say, with the values of their jobs' secrets masked: a runner does that itself, a cluster does not. */
async function newsOf(
  env: Env,
  group: readonly Unit[],
  seen: readonly SeenUnit[],
  ranOn: string,
): Promise<ObservedUnit[]> {
  const asked = new Map(group.map((unit) => [unit.name, unit]));
  const ended = seen.flatMap(({ name, end }) => (end === null ? [] : (asked.get(name) ?? [])));
  const maskings = new Map<string, Masking>();
  for (const workspace of new Set(ended.map((unit) => unit.workspace))) {
    const names = ended.filter((unit) => unit.workspace === workspace).flatMap(({ job }) => secretNamesOf(job));
    maskings.set(workspace, await maskingOf(env, workspace, names));
  }
  return seen.flatMap((unit) => {
    const facts = asked.get(unit.name);
    return facts ? [observedUnit(unit, facts, maskings.get(facts.workspace) ?? new Masking([]), ranOn)] : [];
  });
}

const secretNamesOf = (job: Unit["job"]): string[] => [
  ...Object.values(job.secretEnv),
  ...(job.git?.authSecret === undefined ? [] : [job.git.authSecret]),
];

/** @throws when the secret store does not answer: output that cannot be masked is not taken yet */
export async function maskingOf(env: Env, workspace: string, names: readonly string[]): Promise<Masking> {
  if (names.length === 0) return new Masking([]);
  const secrets = await resolveSecrets(env, configOf(env), storeOf(env), workspace, names);
  return new Masking([...secrets.values()].map(({ value }) => value));
}

function observedUnit(unit: SeenUnit, facts: Unit, masking: Masking, ranOn: string): ObservedUnit {
  const { name, state, node, end } = unit;
  const detail = unit.detail === null ? null : masking.text(unit.detail);
  const report =
    end === null
      ? null
      : end.kind === "failure"
        ? { failure: masking.failure(end.failure) }
        : masking.outcome(end.outcome);
  const verdict = report === null ? null : judgeReport(report, facts);
  return { ...refOf(unit), name, state, node, detail, verdict, ranOn };
}

/** Output that is watched, or that a bucket is to have, is read before its unit is removed; what fails is left. */
async function keepLogs(
  env: Env,
  backend: Backend,
  seen: readonly SeenUnit[],
  facts: ReadonlyMap<string, Unit>,
  followed: ReadonlySet<string>,
): Promise<void> {
  const { LOGS } = env;
  const ended = seen.filter(({ state, runId }) => state === "finished" && (LOGS !== undefined || followed.has(runId)));
  await eachOf(ended, async (unit) => {
    const fact = facts.get(unit.name);
    if (!fact) return;
    try {
      const masking = await maskingOf(env, fact.workspace, secretNamesOf(fact.job));
      if (followed.has(unit.runId)) await finishFollowing(env, backend, masking, unit);
      if (LOGS !== undefined) await archiveLog(LOGS, backend, masking, fact.workspace, unit);
    } catch (error) {
      logEvent("cluster.log-not-kept", { runId: unit.runId, ...faultOf(error) });
    }
  });
}

/** Removes what is left of units whose end the object has; what fails is swept later. */
async function collectEnded(backend: Backend, units: readonly SeenUnit[]): Promise<void> {
  const names = units.filter(({ state }) => state === "finished" || state === "stopped").map(({ name }) => name);
  if (names.length === 0) return;
  try {
    await backend.collect(names);
  } catch (error) {
    logEvent("cluster.collect-failed", { units: names.length, ...faultOf(error) });
  }
}

export async function stopOnClusters(
  env: Env,
  asking: Asking,
  units: Parameters<DispatcherRpc["stop"]>[1],
): Promise<void> {
  await Promise.all(
    byVersion(units).map(async (group) => {
      const [first] = group;
      if (!first) return;
      const { backend } = await clusterOf(env, asking, first);
      await backend.stop(group.map(({ name }) => name));
    }),
  );
}
