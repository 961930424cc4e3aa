/** What of a kubeconfig a test sets. */
export interface KubeconfigParts {
  server: string;
  /** PEM; written as data. */
  ca?: string | null;
  /** Further fields of the cluster. */
  cluster?: Record<string, unknown>;
  user: Record<string, unknown>;
  context?: string;
  /** null: none is set. */
  current?: null;
}

export const pemData = (pem: string): string => Buffer.from(pem).toString("base64");

/** A kubeconfig as JSON, which is YAML. */
export function kubeconfig(parts: KubeconfigParts): string {
  const { server, ca, user, context = "prod" } = parts;
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    ...(parts.current === null ? {} : { "current-context": context }),
    clusters: [
      {
        name: "c",
        cluster: { server, ...(ca ? { "certificate-authority-data": pemData(ca) } : {}), ...parts.cluster },
      },
    ],
    users: [{ name: "u", user }],
    contexts: [{ name: context, context: { cluster: "c", user: "u" } }],
  });
}
