import { and, eq, or } from "drizzle-orm";
import type * as z from "zod";
import { EverdictError } from "../../contracts/errors.ts";
import type { RelayOfRuntime } from "../../contracts/operations/relays.ts";
import type { RelayState } from "../../contracts/relay.ts";
import type { RelayTarget } from "../../contracts/relay-protocol.ts";
import type { RuntimeSpec } from "../../contracts/runtime-spec.ts";
import { sign } from "../auth/digest.ts";
import { offlineWords, relayTransport } from "../backends/transport/relay.ts";
import type { Transport } from "../backends/transport/transport.ts";
import { type Context, type Store, withDeadline } from "../context.ts";
import { type Config, type Env, relayOf } from "../environment.ts";
import { resolveSecrets } from "../secrets/resolve.ts";
import { relays } from "../store/schema.ts";
import { addressOf, type ClusterSpec, clusterCredential } from "./cluster.ts";
import { type ReadKubeconfig, readKubeconfig } from "./kubeconfig-facts.ts";

const STATE_MS = 5_000;
const AWAY_MAX_SEC = 10;

/** A relay of a workspace. */
export interface FoundRelay {
  id: string;
  label: string;
}

/** The relay that a runtime names by label or id, in this workspace and no other; null when it has none of that name. */
export async function pairedRelay(store: Store, workspace: string, name: string): Promise<FoundRelay | null> {
  const row = await store
    .select({ id: relays.id, label: relays.label })
    .from(relays)
    .where(and(eq(relays.workspace, workspace), or(eq(relays.label, name), eq(relays.id, name))))
    .get();
  return row ?? null;
}

/**
 * The same, where nothing can be done without it.
 * @throws EverdictError UPSTREAM_MISCONFIGURED in words that say what to do
 */
export async function findRelay(store: Store, workspace: string, name: string): Promise<FoundRelay> {
  const relay = await pairedRelay(store, workspace, name);
  if (relay) return relay;
  throw new EverdictError(
    "UPSTREAM_MISCONFIGURED",
    `workspace '${workspace}' has no relay '${name}'; pair one with POST /workspace/relays {"label":"${name}"}`,
    { data: { relay: name } },
  );
}

/** How a relay is, from its object. @throws EverdictError UNAVAILABLE when the object does not answer */
export const relayState = (env: Env, relay: FoundRelay, awaitedBy?: string): Promise<RelayState> =>
  withDeadline(relayOf(env, relay.id).state(awaitedBy), STATE_MS, `relay '${relay.label}'`);

/** What is shown of the relays that runtimes name, each asked once; null for a runtime that names none. */
export async function relaysOf(
  ctx: Pick<Context, "env" | "store">,
  runtimes: readonly { owner: string; spec: RuntimeSpec }[],
): Promise<z.infer<typeof RelayOfRuntime>[]> {
  const asked = new Map<string, Promise<z.infer<typeof RelayOfRuntime>>>();
  return Promise.all(
    runtimes.map(({ owner, spec }) => {
      if (spec.kind === "local" || spec.relay === undefined) return null;
      const key = `${owner}\n${spec.relay}`;
      const answer = asked.get(key) ?? shownRelay(ctx, owner, spec.relay);
      asked.set(key, answer);
      return answer;
    }),
  );
}

async function shownRelay(
  { env, store }: Pick<Context, "env" | "store">,
  workspace: string,
  name: string,
): Promise<z.infer<typeof RelayOfRuntime>> {
  // Without an id it is not paired; one whose object does not answer is.
  let id: string | null = null;
  try {
    const relay = await findRelay(store, workspace, name);
    id = relay.id;
    const { online, lastSeenAt, lastError } = await relayState(env, relay);
    return { name, id, online, lastSeenAt, lastError: lastError?.message ?? null };
  } catch (error) {
    if (!(error instanceof EverdictError)) throw error;
    return { name, id, online: false, lastSeenAt: null, lastError: error.message };
  }
}

/** Why nothing can be asked through a relay now. */
export interface RelayAway {
  detail: string;
  /** The longer it is away, the less often it is looked for. */
  retryAfterSec: number;
}

/**
 * Whether a relay is away; if it is, the Scheduler `object` is told when it is back.
 * @throws EverdictError as findRelay and relayState do
 */
export async function relayAway(
  env: Env,
  store: Store,
  workspace: string,
  name: string,
  object: string,
): Promise<RelayAway | null> {
  const relay = await findRelay(store, workspace, name);
  const { online, lastSeenAt } = await relayState(env, relay, object);
  if (online) return null;
  const awaySec = lastSeenAt === null ? AWAY_MAX_SEC * 10 : (Date.now() - Date.parse(lastSeenAt)) / 1_000;
  const retryAfterSec = Math.max(1, Math.min(AWAY_MAX_SEC, Math.round(awaySec / 10)));
  return { detail: offlineWords(relay.label, lastSeenAt), retryAfterSec };
}

/** The way to a cluster through a relay, and the token that goes with it. */
export interface RelayPath {
  transport: Transport;
  /** null where the relay brings the identity. */
  token: string | null;
}

/**
 * Precedence of credentials: kubeconfigSecret, then server with authSecret, then a context of the relay's own machine.
 * @throws EverdictError UPSTREAM_MISCONFIGURED in words that say what to change
 */
export async function relayPath(
  env: Env,
  config: Config,
  store: Store,
  workspace: string,
  spec: ClusterSpec,
  relay: FoundRelay,
): Promise<RelayPath> {
  const through = (target: RelayTarget, token: string | null, kubeconfig?: string): RelayPath => ({
    transport: relayTransport({
      link: relayOf(env, relay.id),
      label: relay.label,
      workspace,
      target,
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
    }),
    token,
  });
  if (spec.kind === "k8s" && spec.kubeconfigSecret !== undefined) {
    const { target, text } = await uploaded(env, config, store, workspace, spec.kubeconfigSecret, spec.context ?? null);
    return through(target, null, text);
  }
  const address = addressOf(spec);
  if (address !== null) {
    const credential = await clusterCredential(env, config, store, workspace, spec, address);
    if ("fix" in credential)
      throw new EverdictError("UPSTREAM_MISCONFIGURED", `${credential.detail}; ${credential.fix}`);
    return through({ kind: "address", url: address.href }, credential.token);
  }
  if (spec.kind === "k8s" && spec.context !== undefined)
    return through({ kind: "context", context: spec.context }, null);
  throw new EverdictError(
    "UPSTREAM_MISCONFIGURED",
    `runtime '${spec.id}' names no cluster; give kubeconfigSecret, server with authSecret, or context`,
  );
}

/** A runtime's uploaded kubeconfig as far as it may be known; null when it has none, or its secret is not one. */
export async function kubeconfigOf(
  { env, config, store }: Pick<Context, "env" | "config" | "store">,
  workspace: string,
  spec: RuntimeSpec,
): Promise<ReadKubeconfig | null> {
  if (spec.kind !== "k8s" || spec.kubeconfigSecret === undefined) return null;
  const name = spec.kubeconfigSecret;
  const secret = (await resolveSecrets(env, config, store, workspace, [name])).get(name);
  return secret?.use === "cluster" ? readKubeconfig(secret.value, spec.context ?? null) : null;
}

async function uploaded(
  env: Env,
  config: Config,
  store: Store,
  workspace: string,
  name: string,
  context: string | null,
): Promise<{ target: RelayTarget; text: string }> {
  const secret = (await resolveSecrets(env, config, store, workspace, [name])).get(name);
  const how = "with use 'cluster' and the hosts of its servers";
  const wrong = (detail: string) =>
    new EverdictError("UPSTREAM_MISCONFIGURED", `${detail}; PUT /secrets/${name} ${how}`);
  if (!secret) throw wrong(`secret '${name}' is not stored`);
  if (secret.use !== "cluster") {
    throw wrong(`secret '${name}' has use '${secret.use ?? "none"}' and is never used for a cluster`);
  }
  // The relay learns which text is meant without being told it: keyed, so that nobody can try texts against it.
  const digest = await sign(config.signingKey, "relay-kubeconfig", `${workspace}\n${name}\n${secret.value}`);
  const { hosts } = secret;
  return { target: { kind: "kubeconfig", digest, secret: name, context, hosts, text: null }, text: secret.value };
}
