import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as z from "zod";

const run = promisify(execFile);

/** Runs kubectl with the KUBECONFIG of the environment. @returns its standard output */
export async function kubectl(args: readonly string[], input?: string): Promise<string> {
  const promise = run("kubectl", [...args], { maxBuffer: 64 * 1024 * 1024, timeout: 60_000 });
  if (input !== undefined) promise.child.stdin?.end(input);
  return (await promise).stdout;
}

const Config = z.object({
  clusters: z.array(
    z.object({ cluster: z.object({ server: z.string(), "certificate-authority-data": z.string().optional() }) }),
  ),
});

/** Address and certificate authority of the cluster that KUBECONFIG names. */
export async function clusterAddress(): Promise<{ server: string; ca: string | null }> {
  const text = await kubectl(["config", "view", "--raw", "--flatten", "--minify", "-o", "json"]);
  const cluster = Config.parse(JSON.parse(text)).clusters[0]?.cluster;
  if (!cluster) throw new Error("KUBECONFIG names no cluster");
  const ca = cluster["certificate-authority-data"];
  return { server: cluster.server, ca: ca === undefined ? null : Buffer.from(ca, "base64").toString("utf8") };
}
