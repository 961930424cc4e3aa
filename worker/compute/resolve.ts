import { and, eq } from "drizzle-orm";
import type { Capability } from "../../contracts/capabilities.ts";
import { EverdictError } from "../../contracts/errors.ts";
import { RegistryId, RunnerId, SHARED_OWNER, Version } from "../../contracts/names.ts";
import type { Envelope } from "../../contracts/rpc.ts";
import { advertisedCapabilities, RuntimeSpec, slotsOf } from "../../contracts/runtime-spec.ts";
import type { Store } from "../context.ts";
import type { Config } from "../environment.ts";
import { find } from "../registry/registry.ts";
import { runners, runtimeHealth } from "../store/schema.ts";

/** Whose eyes a target is seen with; nothing else counts. */
export interface Subject {
  workspace: string;
  /** Hash of the person; null for a workspace key. */
  person: string | null;
}

/** Where a target leads. */
export interface ResolvedTarget {
  /** As the user named it. */
  target: string;
  /** Scheduler object that decides. */
  object: string;
  runtime: { owner: string; id: string; version: string; spec: RuntimeSpec } | null;
  pinnedVersion: string | null;
  runnerId: string | null;
  /** null for runner objects: the machines say themselves what they hold. */
  envelope: Envelope | null;
  /** null for runners: they say with each poll what they can do. */
  advertised: Capability[] | null;
}

export const unknownTarget = (target: string, workspace: string): EverdictError =>
  new EverdictError("NOT_FOUND", `runtime '${target}' is not registered in workspace '${workspace}'`, {
    data: { runtime: target },
  });

/**
 * The one answer to "which compute is that", from (workspace, subject, target) and nothing else. A target that does not
 * resolve never falls back to other compute.
 * @throws EverdictError NOT_FOUND naming the target; BAD_REQUEST when it cannot be used by this subject or here
 */
export async function resolveTarget(
  store: Store,
  config: Config,
  subject: Subject,
  target: string,
): Promise<ResolvedTarget> {
  if (target === "self" || target.startsWith("self:")) return resolveRunner(store, subject, target);
  const at = target.indexOf("@");
  const id = at < 0 ? target : target.slice(0, at);
  const version = at < 0 ? "latest" : target.slice(at + 1);
  if (!RegistryId.safeParse(id).success || (version !== "latest" && !Version.safeParse(version).success))
    throw unknownTarget(target, subject.workspace);
  let row: Awaited<ReturnType<typeof find>>;
  try {
    row = await find(store, "runtime", subject.workspace, id, version);
  } catch (error) {
    if (error instanceof EverdictError && error.code === "NOT_FOUND") throw unknownTarget(target, subject.workspace);
    throw error;
  }
  const spec = RuntimeSpec.parse(JSON.parse(row.spec));
  if (spec.kind === "local" && !config.dev) {
    throw new EverdictError(
      "BAD_REQUEST",
      "a local runtime runs on the control-plane host and works in development only; pair a self-hosted runner (everdict runner) and name 'self'",
      {
        issues: [{ path: "runtime", message: "name 'self' or a cluster runtime" }],
      },
    );
  }
  const newest = at < 0 ? spec : await newestSpec(store, subject.workspace, id, spec);
  return {
    target,
    object: runtimeObject(spec, row.owner, subject.workspace),
    runtime: { owner: row.owner, id: row.id, version: row.version, spec },
    pinnedVersion: at < 0 || version === "latest" ? null : row.version,
    runnerId: null,
    envelope: envelopeOf(newest),
    advertised: await advertised(store, row.owner, spec),
  };
}

/** Physical capacity: all versions of a runtime are one cluster, and meet in one object. */
export function runtimeObject(spec: RuntimeSpec, owner: string, workspace: string): string {
  return spec.kind === "local" ? `local:${workspace}` : `cluster:${owner}:${spec.id}`;
}

/** The admission envelope is that of the highest version that is not archived, whichever version a run pins. */
async function newestSpec(store: Store, workspace: string, id: string, fallback: RuntimeSpec): Promise<RuntimeSpec> {
  try {
    return RuntimeSpec.parse(JSON.parse((await find(store, "runtime", workspace, id, "latest")).spec));
  } catch (error) {
    if (error instanceof EverdictError && error.code === "NOT_FOUND") return fallback;
    throw error;
  }
}

export function envelopeOf(spec: RuntimeSpec): Envelope {
  const cluster = spec.kind === "local" ? null : spec;
  return {
    slots: slotsOf(spec),
    memoryBudgetMb: cluster?.memoryBudgetMb ?? null,
    cpuBudget: cluster?.cpuBudget ?? null,
    version: spec.version,
  };
}

async function advertised(store: Store, owner: string, spec: RuntimeSpec): Promise<Capability[]> {
  if (spec.kind === "local") return advertisedCapabilities(spec);
  const health = await store
    .select({ nodeOs: runtimeHealth.nodeOs })
    .from(runtimeHealth)
    .where(and(eq(runtimeHealth.owner, owner), eq(runtimeHealth.id, spec.id)))
    .get();
  return advertisedCapabilities(spec, health?.nodeOs ?? []);
}

export const userObject = (person: string): string => `runners:user:${person}`;
export const workspaceObject = (workspace: string): string => `runners:ws:${workspace}`;

async function resolveRunner(store: Store, subject: Subject, target: string): Promise<ResolvedTarget> {
  const shared = target === "self:ws" || target.startsWith("self:ws:");
  const runnerId =
    target === "self" || target === "self:ws" ? null : target.slice(shared ? "self:ws:".length : "self:".length);
  if (runnerId !== null && !RunnerId.safeParse(runnerId).success) throw unknownTarget(target, subject.workspace);
  if (!shared && subject.person === null && runnerId !== null) throw unknownTarget(target, subject.workspace);
  if (!shared && subject.person === null) {
    throw new EverdictError(
      "BAD_REQUEST",
      `'${target}' means your own machines, and this API key acts as the workspace; use a personal key, or self:ws for the workspace's runners`,
      {
        issues: [{ path: "runtime", message: "needs a personal API key, or name self:ws" }],
      },
    );
  }
  const object = shared ? workspaceObject(subject.workspace) : userObject(subject.person ?? "");
  if (runnerId !== null) {
    const row = await store
      .select({ id: runners.id })
      .from(runners)
      .where(and(eq(runners.id, runnerId), eq(runners.object, object)))
      .get();
    if (!row) throw unknownTarget(target, subject.workspace);
  }
  return { target, object, runtime: null, pinnedVersion: null, runnerId, envelope: null, advertised: null };
}

/** The deployment's own compute for requests that name no target. @throws EverdictError BAD_REQUEST that says how to name one */
export function defaultTarget(config: Config, workspace: string): string {
  if (config.compute?.kind === "docker") return "self:ws";
  if (config.compute?.kind === "nomad" && config.compute.runtime)
    return config.compute.runtime.slice(`${SHARED_OWNER}/`.length);
  throw new EverdictError(
    "BAD_REQUEST",
    "no target is named and this deployment declares no compute of its own; name one",
    {
      issues: [
        {
          path: "runtime",
          message: `give a runtime of workspace '${workspace}' (GET /runtimes), 'self' for your own runners or 'self:ws' for the workspace's`,
        },
      ],
    },
  );
}
