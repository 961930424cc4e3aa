import { reachability } from "../../contracts/reachability.ts";
import { type RuntimeSpec, runtimeSecretNames } from "../../contracts/runtime-spec.ts";
import { kubeconfigOf, pairedRelay } from "../compute/relay.ts";
import type { Context } from "../context.ts";
import { misusedSecrets } from "./secret-warnings.ts";

/** What does not keep a runtime from being registered, and keeps its work from starting or from being cheap. */
export async function runtimeWarnings(ctx: Context, spec: RuntimeSpec, missing: string[]): Promise<string[]> {
  return [
    ...missing.map((name) => `secret '${name}' is not stored yet; dispatch fails until an admin stores it`),
    ...ownWarnings(spec, ctx.config.dev),
    ...(await misusedSecrets(ctx, runtimeSecretNames(spec))),
    ...(await kubeconfigWarnings(ctx, spec)),
    ...(await relayWarnings(ctx, spec)),
  ];
}

function ownWarnings(spec: RuntimeSpec, dev: boolean): string[] {
  const warnings: string[] = [];
  const { verdict, reasons } = reachability(spec);
  const why = reasons.join(", ");
  // A deployed control plane refuses it as an error.
  if (verdict === "blocked" && dev) {
    warnings.push(
      `a deployed control plane refuses this address (${why}); give the one under which other machines reach the cluster`,
    );
  }
  if (verdict === "relay" && spec.kind !== "local" && spec.relay === undefined)
    warnings.push(`a deployed control plane reaches this only through a relay (${why}); name one in 'relay'`);
  if (spec.kind !== "local" && !/[:@]/.test(spec.image.slice(spec.image.lastIndexOf("/") + 1)))
    warnings.push(`image '${spec.image}' has no tag: clusters pull it anew each time`);
  return warnings;
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
