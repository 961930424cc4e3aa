import { EverdictError } from "../../contracts/errors.ts";
import type { ControlRequest, ControlResult, Inspection } from "../../contracts/inspection.ts";
import type { RuntimeRef } from "../../contracts/rpc.ts";
import { RuntimeSpec } from "../../contracts/runtime-spec.ts";
import { sha256 } from "../auth/digest.ts";
import { blankInspection } from "../backends/inspection.ts";
import { relayReason } from "../backends/transport/relay.ts";
import { type ClusterSpec, clusterBackend, impasseOf } from "../compute/cluster.ts";
import { storeOf } from "../context.ts";
import { configOf, type Env, schedulerOf } from "../environment.ts";
import { find } from "../registry/registry.ts";

/** The spec of a registered cluster. @throws EverdictError NOT_FOUND */
async function specOf(env: Env, { owner, id, version }: RuntimeRef): Promise<ClusterSpec> {
  const row = await find(storeOf(env), "runtime", owner, id, version);
  const spec = RuntimeSpec.parse(JSON.parse(row.spec));
  if (spec.kind === "local") throw new EverdictError("BAD_REQUEST", `runtime '${id}' is no cluster`);
  return spec;
}

/** A look at a cluster. That there is no way to it is an answer too, for the reason that a probe would give. */
export async function inspectRuntime(env: Env, objectHash: string, runtime: RuntimeRef): Promise<Inspection> {
  const spec = await specOf(env, runtime);
  const config = configOf(env);
  const impasse = spec.relay === undefined ? impasseOf(config, spec) : null;
  if (impasse !== null) return blankInspection(spec.kind, impasse.detail, impasse.reason);
  try {
    const backend = await clusterBackend(env, config, storeOf(env), runtime.owner, spec, objectHash);
    const seen = await backend.inspect();
    return seen.reachable ? seen : { ...seen, reason: relayReason(seen.detail) ?? seen.reason };
  } catch (error) {
    if (!(error instanceof EverdictError) || error.code !== "UPSTREAM_MISCONFIGURED") throw error;
    // What names a relay that is not there says so in its data; all else is a credential that cannot be used.
    return blankInspection(spec.kind, error.message.slice(0, 1_000), error.data?.relay ? "relay" : "credential");
  }
}

/**
 * Acts on a cluster.
 * @param object the Scheduler object whose live attempts are spared
 * @throws EverdictError as Controllable says; UPSTREAM_MISCONFIGURED when there is no way to the cluster
 */
export async function controlRuntime(
  env: Env,
  object: string,
  runtime: RuntimeRef,
  request: ControlRequest,
): Promise<ControlResult> {
  const spec = await specOf(env, runtime);
  const hash = (await sha256(object)).slice(0, 8);
  const backend = await clusterBackend(env, configOf(env), storeOf(env), runtime.owner, spec, hash);
  const scheduler = schedulerOf(env, object);
  try {
    return await backend.control(request, {
      liveUnits: async () => new Set(await scheduler.liveUnits()),
      external: spec.externalControl === true,
    });
  } finally {
    await scheduler.forgetInspections();
  }
}
