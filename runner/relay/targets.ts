import { readFileSync } from "node:fs";
import { rootCertificates } from "node:tls";
import type { RelayOpen, RelayTarget } from "../../contracts/relay-protocol.ts";
import { dispatcherFor } from "./dialler.ts";
import { HostPolicy } from "./host-policy.ts";
import { Refusal } from "./refusal.ts";
import type { ClusterAnswer } from "./streams.ts";
import { ask, type ClusterTarget } from "./target.ts";

export interface Allowed {
  contexts: readonly string[];
  hosts: readonly string[];
  exec: readonly string[];
  /** Kubeconfigs may ask to trust any certificate. */
  insecure: boolean;
  /** Files with certificate authorities that are trusted beside the public ones, for allowed hosts. */
  caFiles: readonly string[];
}

/** Clusters that requests name, as far as the operator allows them. */
export class Targets {
  readonly #allowed: Allowed;
  readonly #policy: HostPolicy;
  readonly #byAddress = new Map<string, ClusterTarget>();

  /** @throws Error when a host is written wrongly or a file cannot be read */
  constructor(allowed: Allowed) {
    this.#allowed = allowed;
    this.#policy = new HostPolicy(allowed.hosts);
  }

  /** Sends one request to the cluster that it names. @throws Refusal, or whatever the network throws */
  carry = async (open: RelayOpen, body: Buffer | null, signal: AbortSignal): Promise<ClusterAnswer> =>
    ask(await this.#find(open.target), open, body, signal);

  async close(): Promise<void> {
    await Promise.all([...this.#byAddress.values()].map((target) => target.close()));
  }

  async #find(target: RelayTarget): Promise<ClusterTarget> {
    if (target.kind === "address") return this.#address(target.url);
    throw new Refusal("refused", "not yet");
  }

  #address(text: string): ClusterTarget {
    const known = this.#byAddress.get(text);
    if (known) return known;
    const url = new URL(text);
    this.#policy.check(url);
    const authorities = this.#allowed.caFiles.map((path) => readFileSync(path, "utf8"));
    const ca = authorities.length === 0 ? undefined : [...rootCertificates, ...authorities];
    const dispatcher = dispatcherFor(url, { ca }, this.#policy, null);
    const target: ClusterTarget = {
      origin: url.origin,
      prefix: url.pathname.replace(/\/+$/, ""),
      credential: () => Promise.resolve({ headers: {}, dispatcher }),
      refused: () => false,
      close: () => dispatcher.destroy(),
    };
    this.#byAddress.set(text, target);
    return target;
  }
}
