import { parseDocument } from "yaml";
import * as z from "zod";
import { hostReasons } from "../../contracts/reachability.ts";

/** What of a kubeconfig decides the way to its cluster. Nothing of it is a credential. */
export interface KubeconfigFacts {
  /** Why the control plane cannot use it itself, beside being a kubeconfig. */
  reasons: string[];
  /** host:port of the server of its context; null when it names none. */
  host: string | null;
  /** host:port of its proxy. */
  proxy: string | null;
  /** Credential plugin that it runs. */
  exec: string | null;
  insecure: boolean;
  /** Fields that name files of some machine, which no relay reads. */
  files: string[];
}

const Text = z
  .string()
  .max(64 * 1024)
  .nullish();
const Cluster = z.object({
  server: z.string().max(500),
  "certificate-authority-data": Text,
  "certificate-authority": Text,
  "insecure-skip-tls-verify": z.boolean().nullish(),
  "proxy-url": Text,
});
const User = z.object({
  "client-certificate-data": Text,
  "client-certificate": Text,
  "client-key": Text,
  "token-file": Text,
  tokenFile: Text,
  exec: z.object({ command: z.string().max(300) }).nullish(),
});
const list = <T extends z.ZodType>(item: T) => z.array(item).max(100).default([]);
const Kubeconfig = z.object({
  "current-context": Text,
  clusters: list(z.object({ name: z.string(), cluster: Cluster })),
  users: list(z.object({ name: z.string(), user: User.nullish() })),
  contexts: list(z.object({ name: z.string(), context: z.object({ cluster: z.string(), user: Text }) })),
});

const hostPort = (text: string | null | undefined): string | null => {
  if (!text || !URL.canParse(text)) return null;
  const url = new URL(text);
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? "443" : "80")}`;
};

/** Reads what matters of a kubeconfig; null when it is none. @param context null takes its current one */
export function kubeconfigFacts(text: string, context: string | null): KubeconfigFacts | null {
  const raw = readYaml(text);
  const parsed = Kubeconfig.safeParse(raw);
  if (!parsed.success) return null;
  const { contexts, clusters, users } = parsed.data;
  const found = contexts.find(({ name }) => name === (context ?? parsed.data["current-context"]))?.context;
  const cluster = clusters.find(({ name }) => name === found?.cluster)?.cluster;
  const user = users.find(({ name }) => name === found?.user)?.user;
  if (!cluster) return null;
  const host = hostPort(cluster.server);
  const insecure = cluster["insecure-skip-tls-verify"] === true;
  const files = [
    ...(["certificate-authority"] as const).filter((field) => cluster[field]),
    ...(["client-certificate", "client-key", "token-file", "tokenFile"] as const).filter((field) => user?.[field]),
  ];
  const reasons = [
    ...(host === null ? [] : hostReasons(new URL(cluster.server).hostname)),
    ...(cluster["certificate-authority-data"] ? ["private-ca"] : []),
    ...(insecure ? ["untrusted-certificate"] : []),
    ...(user?.["client-certificate-data"] ? ["client-certificate"] : []),
    ...(user?.exec ? ["exec-plugin"] : []),
    ...(cluster["proxy-url"] ? ["proxy"] : []),
  ];
  return { reasons, host, proxy: hostPort(cluster["proxy-url"]), exec: user?.exec?.command ?? null, insecure, files };
}

function readYaml(text: string): unknown {
  try {
    const document = parseDocument(text, { merge: false, prettyErrors: false, logLevel: "silent" });
    return document.errors.length > 0 ? null : document.toJS({ maxAliasCount: 20 });
  } catch {
    return null;
  }
}
