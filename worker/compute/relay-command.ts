import type { Context } from "../context.ts";
import type { ClusterSpec } from "./cluster.ts";
import type { KubeconfigFacts } from "./kubeconfig-facts.ts";

const hostOf = (address: string): string => {
  const url = new URL(address);
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? "443" : "80")}`;
};

/**
 * What to run beside a cluster so that it can be reached, with exactly what this runtime needs allowed.
 * @param facts of its uploaded kubeconfig, when that can be read
 */
export function relayCommand(
  ctx: Pick<Context, "origin">,
  spec: ClusterSpec,
  facts: KubeconfigFacts | null = null,
): string {
  const label = spec.relay ?? spec.id.replaceAll(/[._]/g, "-");
  const allow =
    spec.kind === "nomad"
      ? `--allow-host ${hostOf(spec.addr)}`
      : spec.kubeconfigSecret !== undefined
        ? allowKubeconfig(facts)
        : spec.server !== undefined
          ? `--allow-host ${hostOf(spec.server)}`
          : `--allow-context ${spec.context ?? "<context>"}`;
  const pair = `pair a relay (POST /workspace/relays {"label":"${label}"})`;
  const run = `npx everdict relay --pair <its token> --api-url ${ctx.origin} ${allow}`;
  return `${pair}, run beside the cluster: ${run}; then name it: "relay":"${label}"`;
}

function allowKubeconfig(facts: KubeconfigFacts | null): string {
  if (facts?.host == null) return "--allow-host <host:port of its server> [--allow-exec <its credential plugin>]";
  const hosts = [facts.host, ...(facts.proxy === null ? [] : [facts.proxy])].join(",");
  const plain = facts.exec !== null && /^[\w./-]+$/.test(facts.exec);
  const exec = facts.exec === null ? "" : ` --allow-exec ${plain ? facts.exec : "<its credential plugin>"}`;
  return `--allow-host ${hosts}${exec}${facts.insecure ? " --allow-insecure" : ""}`;
}
