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

/** What a text says as a kubeconfig, or what is wrong with it: in words that hold nothing of the text. */
export type ReadKubeconfig = { facts: KubeconfigFacts; fault: null } | { facts: null; fault: string };

const wrong = (fault: string): ReadKubeconfig => ({ facts: null, fault });

/** Reads what matters of a kubeconfig. @param context null takes its current one */
export function readKubeconfig(text: string, context: string | null): ReadKubeconfig {
  const raw = readYaml(text);
  const parsed = Kubeconfig.safeParse(raw);
  if (!parsed.success) return wrong("is no kubeconfig: YAML or JSON with clusters, contexts and users");
  const { contexts, clusters, users } = parsed.data;
  const found = contexts.find(({ name }) => name === (context ?? parsed.data["current-context"]))?.context;
  const cluster = clusters.find(({ name }) => name === found?.cluster)?.cluster;
  const user = users.find(({ name }) => name === found?.user)?.user;
  if (!cluster) {
    return wrong(
      context === null
        ? "names no current-context that it describes with a cluster"
        : `has no context '${context}' that it describes with a cluster`,
    );
  }
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
  const [proxy, exec] = [hostPort(cluster["proxy-url"]), user?.exec?.command ?? null];
  return { facts: { reasons, host, proxy, exec, insecure, files }, fault: null };
}

function readYaml(text: string): unknown {
  try {
    const document = parseDocument(text, { merge: false, prettyErrors: false, logLevel: "silent" });
    return document.errors.length > 0 ? null : document.toJS({ maxAliasCount: 20 });
  } catch {
    return null;
  }
}
