import type { Context } from "../context.ts";
import type { ClusterSpec } from "./cluster.ts";

const hostOf = (address: string): string => {
  const url = new URL(address);
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? "443" : "80")}`;
};

/** What to run beside a cluster so that it can be reached, with exactly what this runtime needs allowed. */
export function relayCommand(ctx: Pick<Context, "origin">, spec: ClusterSpec): string {
  const label = spec.relay ?? spec.id.replaceAll(/[._]/g, "-");
  const allow =
    spec.kind === "nomad"
      ? `--allow-host ${hostOf(spec.addr)}`
      : spec.kubeconfigSecret !== undefined
        ? "--allow-host <host:port of the kubeconfig's server> [--allow-exec <its credential plugin>]"
        : spec.server !== undefined
          ? `--allow-host ${hostOf(spec.server)}`
          : `--allow-context ${spec.context ?? "<context>"}`;
  const pair = `pair a relay (POST /workspace/relays {"label":"${label}"})`;
  const run = `npx everdict relay --pair <its token> --api-url ${ctx.origin} ${allow}`;
  return `${pair}, run beside the cluster: ${run}; then name it: "relay":"${label}"`;
}
