import { Agent, type Dispatcher, ProxyAgent } from "undici";
import type { HostPolicy } from "./host-policy.ts";
import { Refusal } from "./refusal.ts";

/** TLS of one cluster. */
export interface TlsSettings {
  ca?: string[] | undefined;
  cert?: string | undefined;
  key?: string | undefined;
  servername?: string | undefined;
  insecure?: boolean | undefined;
}

const CONNECT_MS = 10_000;
/** Connections to one cluster at once; more requests wait for one. */
const CONNECTIONS = 256;
const KEEP_ALIVE_MS = 30_000;

/**
 * Connections to one address.
 * @param policy checks what a name resolves to at the very dial; null for the operator's own contexts
 */
export function dispatcherFor(
  address: URL,
  tls: TlsSettings,
  policy: HostPolicy | null,
  proxy: URL | null,
): Dispatcher {
  const port = (proxy ?? address).port || ((proxy ?? address).protocol === "https:" ? "443" : "80");
  const pinned = policy ? { lookup: policy.lookup(port) } : {};
  const options = {
    ...(tls.ca ? { ca: tls.ca } : {}),
    ...(tls.cert ? { cert: tls.cert } : {}),
    ...(tls.key ? { key: tls.key } : {}),
    ...(tls.servername ? { servername: tls.servername } : {}),
    ...(tls.insecure ? { rejectUnauthorized: false } : {}),
  };
  const shared = {
    connections: CONNECTIONS,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: 0,
    bodyTimeout: 0,
  };
  if (proxy === null)
    return new Agent({ ...shared, connect: { ...options, ...pinned, timeout: CONNECT_MS, allowH2: false } });
  if (proxy.protocol !== "http:" && proxy.protocol !== "https:") {
    throw new Refusal(
      "misconfigured",
      `proxy-url with ${proxy.protocol} is not supported; give an http or https proxy`,
    );
  }
  const token = proxyCredential(proxy);
  return new ProxyAgent({
    ...shared,
    uri: proxy.origin,
    ...(token === null ? {} : { token }),
    requestTls: { ...options, timeout: CONNECT_MS },
    proxyTls: { ...pinned, timeout: CONNECT_MS },
    connect: { ...pinned, timeout: CONNECT_MS },
    proxyTunnel: true,
  });
}

function proxyCredential(proxy: URL): string | null {
  if (proxy.username === "") return null;
  const text = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  return `Basic ${Buffer.from(text).toString("base64")}`;
}
