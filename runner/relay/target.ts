import type { Dispatcher } from "undici";
import type { RelayHead, RelayOpen } from "../../contracts/relay-protocol.ts";
import { Refusal } from "./refusal.ts";
import type { ClusterAnswer } from "./streams.ts";

/** What a cluster is asked with. */
export interface Credential {
  headers: Readonly<Record<string, string>>;
  /** Connections with the client certificate of this credential, if it has one. */
  dispatcher: Dispatcher;
}

/** One cluster as the relay reaches it. */
export interface ClusterTarget {
  origin: string;
  /** Path of the address, without a slash at its end. */
  prefix: string;
  /** @throws Refusal */
  credential(): Promise<Credential>;
  /**
   * The cluster did not know the credential.
   * @returns whether another one may be had, so that the request is worth repeating once
   */
  refused(credential: Credential): boolean;
  close(): Promise<void>;
}

/** Names that belong to one connection, and what would tell of other hosts. */
const DROPPED =
  /^(connection|keep-alive|transfer-encoding|content-length|te|trailer|upgrade|proxy-.*|set-cookie|location|alt-svc)$/;
/** Together, in characters. */
const MAX_HEADERS_CHARS = 32_768;

/**
 * Sends one request to a cluster. Redirects are not followed, and where they lead is not told.
 * @throws Refusal, or whatever the network throws
 */
export async function ask(
  target: ClusterTarget,
  open: RelayOpen,
  body: Buffer | null,
  signal: AbortSignal,
): Promise<ClusterAnswer> {
  const credential = await target.credential();
  const answer = await once(target, credential, open, body, signal);
  if (answer.statusCode !== 401 || !target.refused(credential)) return shown(answer);
  // Refused before anything was done: the same request again is no repeat.
  answer.body.destroy();
  return shown(await once(target, await target.credential(), open, body, signal));
}

async function once(
  target: ClusterTarget,
  credential: Credential,
  open: RelayOpen,
  body: Buffer | null,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  try {
    const answer = await credential.dispatcher.request({
      origin: target.origin,
      path: `${target.prefix}${open.path}`,
      method: open.method,
      headers: { ...open.headers, "accept-encoding": "identity", ...credential.headers },
      body,
      signal,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    // A body that is given up emits an error, which nobody may be listening for.
    answer.body.on("error", () => undefined);
    return answer;
  } catch (error) {
    throw networkRefusal(error);
  }
}

const TLS_CODES =
  /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH|EPROTO|ERR_OSSL)/;
const TRUST_CODES = /^(ERR_TLS_CERT|CERT_|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH)/;
const NO_TLS_CODES = /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST/;

function tlsWords(code: string): string {
  if (TRUST_CODES.test(code))
    return `the cluster's certificate is not trusted (${code}): give certificate-authority-data in the kubeconfig, or start the relay with --ca-file`;
  if (NO_TLS_CODES.test(code))
    return `the cluster's server does not speak TLS (${code}): correct its port, or give its address with http:`;
  return `no TLS connection to the cluster (${code}): check its client certificate and its versions of TLS`;
}

/** Errors of sockets hold host and port only; their codes say what to change. */
function networkRefusal(error: unknown): unknown {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at instanceof Refusal) return at;
    const code = "code" in at ? String(at.code) : "";
    if (TLS_CODES.test(code)) {
      return new Refusal("tls", tlsWords(code));
    }
    if (/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT)$/.test(code))
      return new Refusal("connect", `no connection to the cluster: ${code}`);
  }
  return error;
}

function shown({ statusCode, headers, body }: Dispatcher.ResponseData): ClusterAnswer {
  const kept: RelayHead["headers"] = [];
  let chars = 0;
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || DROPPED.test(name)) continue;
    for (const text of Array.isArray(value) ? value : [value]) {
      chars += name.length + text.length;
      if (chars > MAX_HEADERS_CHARS || kept.length >= 200) break;
      kept.push([name, text]);
    }
  }
  return { head: { status: statusCode, headers: kept }, body };
}
