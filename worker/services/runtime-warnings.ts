import { reachability } from "../../contracts/reachability.ts";
import { type RuntimeSpec, runtimeSecretNames } from "../../contracts/runtime-spec.ts";
import { kubeconfigOf, pairedRelay } from "../compute/relay.ts";
import type { Context } from "../context.ts";
import { resolveSecrets } from "../secrets/resolve.ts";

/** Names of secrets that a runtime needs and nobody has stored. */
export async function missingSecrets(ctx: Context, spec: RuntimeSpec): Promise<string[]> {
  const names = runtimeSecretNames(spec).map(({ name }) => name);
  const stored = await resolveSecrets(ctx.env, ctx.config, ctx.store, ctx.principal.workspace, names);
  return [...new Set(names)].filter((name) => !stored.has(name));
}

/** What does not keep a runtime from being registered, and keeps its work from starting or from being cheap. */
export async function runtimeWarnings(ctx: Context, spec: RuntimeSpec, missing: string[]): Promise<string[]> {
  return [
    ...missing.map((name) => `secret '${name}' is not stored yet; dispatch fails until an admin stores it`),
    ...ownWarnings(spec),
    ...(await misusedSecrets(ctx, spec)),
    ...(await kubeconfigWarnings(ctx, spec)),
    ...(await relayWarnings(ctx, spec)),
  ];
}

function ownWarnings(spec: RuntimeSpec): string[] {
  const warnings: string[] = [];
  const reach = reachability(spec);
  if (reach.verdict !== "direct" && spec.kind !== "local" && spec.relay === undefined) {
    warnings.push(
      `a deployed control plane reaches this only through a relay (${reach.reasons.join(", ")}); name one in 'relay'`,
    );
  }
  if (spec.kind !== "local" && !/[:@]/.test(spec.image.slice(spec.image.lastIndexOf("/") + 1)))
    warnings.push(`image '${spec.image}' has no tag: clusters pull it anew each time`);
  return warnings;
}

/** Secrets whose use is not the one their place in the spec needs: dispatch would refuse them. */
async function misusedSecrets(ctx: Context, spec: RuntimeSpec): Promise<string[]> {
  const named = runtimeSecretNames(spec);
  const names = named.map(({ name }) => name);
  const stored = await resolveSecrets(ctx.env, ctx.config, ctx.store, ctx.principal.workspace, names);
  return named.flatMap(({ field, name, use }) => {
    const actual = stored.get(name);
    if (!actual || actual.use === use) return [];
    return [
      `secret '${name}' has use '${actual.use ?? "none"}', but ${field} needs one of use '${use}'; an admin stores it again`,
    ];
  });
}

/** The relay would refuse these when the first request comes. Nothing of the text is shown. */
async function kubeconfigWarnings(ctx: Context, spec: RuntimeSpec): Promise<string[]> {
  const kubeconfig = await kubeconfigOf(ctx, ctx.principal.workspace, spec);
  if (kubeconfig === null || spec.kind !== "k8s") return [];
  const { facts, fault } = kubeconfig;
  if (facts === null)
    return [`the text of secret '${spec.kubeconfigSecret}' ${fault}; an admin stores it again, or change the runtime`];
  return facts.files.map(
    (field) => `the kubeconfig names a file in ${field}, which no relay reads; store it again with the -data form`,
  );
}

async function relayWarnings(ctx: Context, spec: RuntimeSpec): Promise<string[]> {
  if (spec.kind === "local" || spec.relay === undefined) return [];
  const { relay: name } = spec;
  if (await pairedRelay(ctx.store, ctx.principal.workspace, name)) return [];
  // An id is given, never chosen.
  const fix = name.startsWith("rly-")
    ? "name one that GET /workspace/relays shows"
    : `pair it with POST /workspace/relays {"label":"${name}"}`;
  return [`relay '${name}' is not paired in this workspace; ${fix}`];
}
