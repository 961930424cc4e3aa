import { readFileSync } from "node:fs";
import type { RequestOptions } from "node:https";
import type { Cluster, KubeConfig, User } from "@kubernetes/client-node";
import type { Dispatcher } from "undici";
import { dispatcherFor, type TlsSettings } from "./dialler.ts";
import { type ExecPlugins, ExecSpec } from "./exec-plugin.ts";
import type { HostPolicy } from "./host-policy.ts";
import { Refusal } from "./refusal.ts";
import type { ClusterTarget, Credential } from "./target.ts";

/** A credential is asked for anew after so long, whatever it says itself. */
const MAX_CREDENTIAL_MS = 15 * 60_000;
/** Renewed so long before its end, at most a fifth of its life: a request must arrive before it. */
const RENEW_EARLY_MS = 10_000;

export interface KubeTargetOptions {
  config: KubeConfig;
  cluster: Cluster;
  user: User | null;
  /** Whose text it is: the operator's own is trusted as kubectl trusts it. */
  source: "own" | "uploaded";
  /** null for the operator's own. */
  policy: HostPolicy | null;
  allowInsecure: boolean;
  plugins: ExecPlugins;
}

interface Held {
  credential: Credential;
  /** Epoch ms. */
  until: number;
}

/** A cluster of a kubeconfig: TLS as it says, credential as it says, renewed in single flight. */
export class KubeTarget implements ClusterTarget {
  readonly origin: string;
  readonly prefix: string;
  readonly #options: KubeTargetOptions;
  readonly #server: URL;
  readonly #proxy: URL | null;
  readonly #tls: TlsSettings;
  readonly #dispatchers: Dispatcher[] = [];
  #plain: Dispatcher | null = null;
  #held: Held | null = null;
  #renewing: Promise<Held> | null = null;
  #closed = false;

  /** @throws Refusal when it may not or cannot be dialled */
  constructor(options: KubeTargetOptions) {
    this.#options = options;
    const { cluster, policy } = options;
    this.#server = urlOf(cluster.server, "server");
    this.#proxy = cluster.proxyUrl ? urlOf(cluster.proxyUrl, "proxy-url") : null;
    policy?.check(this.#server, "the kubeconfig's server");
    if (this.#proxy) policy?.check(this.#proxy, "the kubeconfig's proxy-url");
    this.origin = this.#server.origin;
    this.prefix = this.#server.pathname.replace(/\/+$/, "");
    this.#tls = tlsOf(options);
  }

  async credential(): Promise<Credential> {
    const held = this.#held;
    if (held && held.until > Date.now()) return held.credential;
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null;
    });
    return (await this.#renewing).credential;
  }

  refused(credential: Credential): boolean {
    // Another request may have renewed it already.
    if (this.#held?.credential === credential) this.#held = null;
    const { user } = this.#options;
    return Boolean(user?.exec ?? user?.authProvider);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#held = null;
    await Promise.all(this.#dispatchers.map((dispatcher) => dispatcher.close()));
  }

  async #renew(): Promise<Held> {
    const held = await this.#obtain();
    if (!this.#closed) this.#held = held;
    return held;
  }

  async #obtain(): Promise<Held> {
    const { user, source, plugins, config } = this.#options;
    const now = Date.now();
    const lasting = (headers: Record<string, string>): Held => ({
      credential: { headers: { ...headers, ...impersonation(user) }, dispatcher: this.#dispatcher(null) },
      until: now + MAX_CREDENTIAL_MS,
    });
    if (user?.exec) {
      const spec = ExecSpec.safeParse(user.exec);
      if (!spec.success) throw new Refusal("misconfigured", "the kubeconfig's exec plugin is incomplete");
      const cluster = this.#clusterInfo();
      const { token, certificate, expiresAt } = await plugins.run({ spec: spec.data, source, cluster });
      const headers = { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...impersonation(user) };
      return { credential: { headers, dispatcher: this.#dispatcher(certificate) }, until: renewAt(now, expiresAt) };
    }
    if (user?.authProvider) {
      if (source === "uploaded")
        throw new Refusal("misconfigured", "auth-provider is not used from uploaded kubeconfigs");
      return { ...lasting(await providedHeaders(config)), until: now + 60_000 };
    }
    if (user?.token) return lasting({ authorization: `Bearer ${user.token.trim()}` });
    if (user?.username) {
      const text = Buffer.from(`${user.username}:${user.password ?? ""}`).toString("base64");
      return lasting({ authorization: `Basic ${text}` });
    }
    return lasting({});
  }

  /** Connections with the kubeconfig's own client certificate, or with one that a plugin gave. */
  #dispatcher(certificate: { cert: string; key: string } | null): Dispatcher {
    if (certificate === null && this.#plain) return this.#plain;
    const { policy } = this.#options;
    const dispatcher = dispatcherFor(this.#server, { ...this.#tls, ...certificate }, policy, this.#proxy);
    if (certificate === null) this.#plain = dispatcher;
    // Requests under the certificate before it go on; then its connections end.
    else for (const old of this.#dispatchers.splice(0)) void old.close();
    this.#dispatchers.push(dispatcher);
    return dispatcher;
  }

  #clusterInfo(): Record<string, unknown> {
    const { cluster } = this.#options;
    const { ca, servername, insecure } = this.#tls;
    return {
      server: cluster.server,
      ...(servername ? { "tls-server-name": servername } : {}),
      ...(insecure ? { "insecure-skip-tls-verify": true } : {}),
      ...(ca ? { "certificate-authority-data": Buffer.from(ca.join("\n")).toString("base64") } : {}),
      ...(cluster.proxyUrl ? { "proxy-url": cluster.proxyUrl } : {}),
    };
  }
}

function renewAt(now: number, expiresAt: number | null): number {
  const latest = now + MAX_CREDENTIAL_MS;
  if (expiresAt === null) return latest;
  return Math.min(latest, expiresAt - Math.min(RENEW_EARLY_MS, (expiresAt - now) / 5));
}

const impersonation = (user: User | null): Record<string, string> =>
  user?.impersonateUser ? { "impersonate-user": user.impersonateUser } : {};

/** What legacy providers of the operator's own kubeconfig give: OpenID Connect, token files. */
async function providedHeaders(config: KubeConfig): Promise<Record<string, string>> {
  const options: RequestOptions = {};
  try {
    await config.applyToHTTPSOptions(options);
  } catch {
    throw new Refusal("misconfigured", "the auth-provider of the relay's own kubeconfig gave no credential");
  }
  const { headers } = options;
  const value = headers && !Array.isArray(headers) ? Object.entries(headers) : [];
  return Object.fromEntries(
    value.flatMap(([name, text]) => (text === undefined ? [] : [[name.toLowerCase(), String(text)]])),
  );
}

function urlOf(text: string, field: string): URL {
  if (URL.canParse(text)) {
    const url = new URL(text);
    if (field !== "server" || ((url.protocol === "https:" || url.protocol === "http:") && url.username === ""))
      return url;
  }
  throw new Refusal("misconfigured", `the kubeconfig's ${field} is not an http(s) URL`);
}

function tlsOf({ cluster, user, source, allowInsecure }: KubeTargetOptions): TlsSettings {
  if (cluster.skipTLSVerify && source === "uploaded" && !allowInsecure) {
    throw new Refusal(
      "refused",
      "the kubeconfig has insecure-skip-tls-verify, which is not allowed on this relay; give certificate-authority-data, or its operator adds --allow-insecure",
    );
  }
  const ca = textOf(cluster.caData, cluster.caFile, "certificate-authority", source);
  const cert = textOf(user?.certData, user?.certFile, "client-certificate", source);
  const key = textOf(user?.keyData, user?.keyFile, "client-key", source);
  return {
    ...(ca === null || cluster.skipTLSVerify ? {} : { ca: [ca] }),
    ...(cert === null || key === null ? {} : { cert, key }),
    ...(cluster.tlsServerName ? { servername: cluster.tlsServerName } : {}),
    insecure: cluster.skipTLSVerify,
  };
}

function textOf(
  data: string | null | undefined,
  file: string | null | undefined,
  field: string,
  source: "own" | "uploaded",
): string | null {
  if (data) {
    const text = Buffer.from(data, "base64").toString("utf8");
    if (!text.includes("-----BEGIN"))
      throw new Refusal("misconfigured", `${field}-data of the kubeconfig is not base64 of PEM`);
    return text;
  }
  if (!file) return null;
  if (source === "uploaded")
    throw new Refusal("misconfigured", `${field} of the kubeconfig names a file; give ${field}-data`);
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new Refusal("misconfigured", `${field} of the relay's own kubeconfig cannot be read`, error);
  }
}
