import { EverdictError } from "../../contracts/errors.ts";
import { reachability } from "../../contracts/reachability.ts";
import { type RuntimeSpec, runtimeSecretNames } from "../../contracts/runtime-spec.ts";
import { sha256 } from "../auth/digest.ts";
import type { Backend, Controllable } from "../backends/backend.ts";
import { K8sBackend } from "../backends/k8s/backend.ts";
import { NomadBackend } from "../backends/nomad/backend.ts";
import { directTransport } from "../backends/transport/direct.ts";
import type { Store } from "../context.ts";
import type { Config, Env } from "../environment.ts";
import { hostAllowed, resolveSecrets } from "../secrets/resolve.ts";
import { findRelay, type RelayPath, relayPath } from "./relay.ts";

/** What both kinds of cluster can do. */
export type ClusterBackend = Backend & Controllable;

export type ClusterSpec = Exclude<RuntimeSpec, { kind: "local" }>;

/** Address of a cluster's API, or null when only a relay can say it. */
export function addressOf(spec: ClusterSpec): URL | null {
  const address = spec.kind === "nomad" ? spec.addr : spec.server;
  return address === undefined ? null : new URL(address);
}

/**
 * Why the control plane cannot dial a cluster itself, whatever its credential; null when it can.
 * @param more of its uploaded kubeconfig
 */
export function impasseOf(
  config: Pick<Config, "dev">,
  spec: ClusterSpec,
  more: readonly string[] = [],
): { reason: "relay" | "blocked"; detail: string } | null {
  const { verdict, reasons } = reachability(spec);
  const needsRelay = spec.kind === "k8s" && (spec.server === undefined || spec.kubeconfigSecret !== undefined);
  if (!needsRelay && (config.dev || verdict === "direct")) return null;
  const why = [...new Set([...reasons, ...more])].join(", ") || "named";
  return {
    reason: needsRelay ? "relay" : "blocked",
    detail: `the control plane cannot dial this cluster itself (${why})`,
  };
}

/** The cluster token, only if its secret has use 'cluster' and lists this very host. */
export async function clusterCredential(
  env: Env,
  config: Config,
  store: Store,
  workspace: string,
  spec: ClusterSpec,
  address: URL,
): Promise<{ token: string | null } | { detail: string; fix: string }> {
  const name = runtimeSecretNames(spec).find(({ field }) => field === "authSecret")?.name;
  if (name === undefined) return { token: null };
  const secret = (await resolveSecrets(env, config, store, workspace, [name])).get(name);
  const how = `with use 'cluster' and hosts ["${address.host}"]`;
  if (!secret) return { detail: `secret '${name}' is not stored`, fix: `PUT /secrets/${name} ${how}` };
  if (secret.use !== "cluster") {
    return {
      detail: `secret '${name}' has use '${secret.use ?? "none"}' and is never sent to a cluster`,
      fix: `store it ${how}`,
    };
  }
  if (!hostAllowed(secret.hosts, address))
    return { detail: `secret '${name}' may not be sent to ${address.host}`, fix: `add ${address.host} to its hosts` };
  return { token: secret.value };
}

/** Names units on clusters: two deployments on one cluster never touch each other's. */
const deploymentOf = async (config: Config): Promise<string> =>
  `evd-${(await sha256(`deployment\n${config.signingKey}`)).slice(0, 12)}`;

async function directPath(
  env: Env,
  config: Config,
  store: Store,
  workspace: string,
  spec: ClusterSpec,
): Promise<RelayPath> {
  const address = addressOf(spec);
  if (address === null || (spec.kind === "k8s" && spec.kubeconfigSecret !== undefined)) {
    const { reasons } = reachability(spec);
    throw new EverdictError(
      "UPSTREAM_MISCONFIGURED",
      `runtime '${spec.id}' can only be reached through a relay (${reasons.join(", ")}); run one beside the cluster and name it in 'relay'`,
    );
  }
  const credential = await clusterCredential(env, config, store, workspace, spec, address);
  if ("fix" in credential) throw new EverdictError("UPSTREAM_MISCONFIGURED", `${credential.detail}; ${credential.fix}`);
  return {
    transport: directTransport({ address: address.href, allowPrivate: config.dev }),
    token: credential.token,
  };
}

/**
 * The backend of a runtime, with its credential as it is now.
 * @param object hash of the Scheduler object whose units it sees
 * @throws EverdictError UPSTREAM_MISCONFIGURED when there is no way to it, in words that say what to change
 */
export async function clusterBackend(
  env: Env,
  config: Config,
  store: Store,
  workspace: string,
  spec: ClusterSpec,
  object: string,
): Promise<ClusterBackend> {
  const { transport, token } =
    spec.relay === undefined
      ? await directPath(env, config, store, workspace, spec)
      : await relayPath(env, config, store, workspace, spec, await findRelay(store, workspace, spec.relay));
  const owner = { deployment: await deploymentOf(config), object };
  return spec.kind === "nomad"
    ? new NomadBackend({ spec, owner, transport, token })
    : new K8sBackend(spec, { transport, token, owner });
}
