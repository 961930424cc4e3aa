import { readFileSync } from "node:fs";
import { rootCertificates } from "node:tls";
import type { RelayOpen, RelayTarget } from "../../contracts/relay-protocol.ts";
import { dispatcherFor } from "./dialler.ts";
import { ExecPlugins } from "./exec-plugin.ts";
import { HostPolicy } from "./host-policy.ts";
import { KubeTarget } from "./kube-target.ts";
import { entryOf, loadOwn, parseUploaded } from "./kubeconfig.ts";
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

export interface TargetsOptions {
  allowed: Allowed;
  /** Path of the machine's own kubeconfig; undefined for the usual places. */
  kubeconfig: string | undefined;
  /** Folder for temporary files of plugins. */
  tempDir: string;
  now?: () => number;
}

/** What was read of a kubeconfig is used so long, then read or asked for again. */
const MAX_AGE_MS = 15 * 60_000;
const SWEEP_MS = 30_000;

interface Kept {
  target: Promise<ClusterTarget>;
  /** Of an uploaded text; of the machine's own its context stands for it. */
  digest: string;
  since: number;
}

/** Clusters that requests name, as far as the operator allows them. Everything is kept in memory only. */
export class Targets {
  readonly #options: TargetsOptions;
  readonly #policy: HostPolicy;
  readonly #plugins: ExecPlugins;
  readonly #kept = new Map<string, Kept>();
  readonly #now: () => number;
  readonly #sweeper: ReturnType<typeof setInterval>;

  /** @throws Error when a host is written wrongly */
  constructor(options: TargetsOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#policy = new HostPolicy(options.allowed.hosts);
    this.#plugins = new ExecPlugins(options.allowed.exec, options.tempDir);
    this.#sweeper = setInterval(() => this.#sweep(), SWEEP_MS);
    this.#sweeper.unref();
  }

  /** Sends one request to the cluster that it names. @throws Refusal, or whatever the network throws */
  carry = async (open: RelayOpen, body: Buffer | null, signal: AbortSignal): Promise<ClusterAnswer> =>
    ask(await this.find(open.target), open, body, signal);

  /** @throws Refusal */
  find(target: RelayTarget): Promise<ClusterTarget> {
    if (target.kind === "address")
      return this.#keep(`address\n${target.url}`, "", async () => this.#address(target.url));
    if (target.kind === "context") {
      const { context } = target;
      if (!this.#options.allowed.contexts.includes(context)) {
        throw new Refusal(
          "refused",
          `context '${context}' is not allowed on this relay; its operator adds --allow-context ${context}`,
        );
      }
      return this.#keep(`context\n${context}`, "", () => this.#own(context));
    }
    const { secret, context, digest, text, hosts } = target;
    const key = `kubeconfig\n${secret}\n${context ?? ""}`;
    const known = this.#kept.get(key);
    if (text === null && (known?.digest !== digest || this.#isOld(known)))
      throw new Refusal("kubeconfig-wanted", "the relay needs the text of the kubeconfig");
    return this.#keep(key, digest, () => this.#uploaded(text ?? "", context, secret, hosts));
  }

  /** Forgets every credential and ends every connection and plugin. */
  async close(): Promise<void> {
    clearInterval(this.#sweeper);
    this.#plugins.close();
    for (const key of [...this.#kept.keys()]) this.#drop(key);
  }

  #keep(key: string, digest: string, make: () => Promise<ClusterTarget>): Promise<ClusterTarget> {
    const known = this.#kept.get(key);
    if (known && known.digest === digest && !this.#isOld(known)) return known.target;
    this.#drop(key);
    const kept: Kept = { target: make(), digest, since: this.#now() };
    this.#kept.set(key, kept);
    // What could not be read is not remembered.
    kept.target.catch(() => {
      if (this.#kept.get(key) === kept) this.#kept.delete(key);
    });
    return kept.target;
  }

  #isOld(kept: Kept): boolean {
    return this.#now() - kept.since > MAX_AGE_MS;
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key);
    this.#kept.delete(key);
    kept?.target.then((target) => target.close()).catch(() => undefined);
  }

  #sweep(): void {
    for (const [key, kept] of [...this.#kept]) if (this.#isOld(kept)) this.#drop(key);
  }

  #address(text: string): ClusterTarget {
    const url = new URL(text);
    this.#policy.check(url);
    const authorities = this.#options.allowed.caFiles.map((path) => readFileSync(path, "utf8"));
    const ca = authorities.length === 0 ? undefined : [...rootCertificates, ...authorities];
    const dispatcher = dispatcherFor(url, { ca }, this.#policy, null);
    return {
      origin: url.origin,
      prefix: url.pathname.replace(/\/+$/, ""),
      credential: () => Promise.resolve({ headers: {}, dispatcher }),
      refused: () => false,
      close: () => dispatcher.close(),
    };
  }

  async #own(context: string): Promise<ClusterTarget> {
    const config = await loadOwn(this.#options.kubeconfig);
    config.setCurrentContext(context);
    const { cluster, user } = entryOf(config, context);
    const allowInsecure = this.#options.allowed.insecure;
    return new KubeTarget({
      config,
      cluster,
      user,
      source: "own",
      policy: null,
      allowInsecure,
      plugins: this.#plugins,
    });
  }

  async #uploaded(
    text: string,
    context: string | null,
    secret: string,
    hosts: readonly string[],
  ): Promise<ClusterTarget> {
    const config = await parseUploaded(text);
    const { cluster, user } = entryOf(config, context);
    checkSecretHosts(secret, hosts, cluster.server);
    const allowInsecure = this.#options.allowed.insecure;
    const policy = this.#policy;
    return new KubeTarget({ config, cluster, user, source: "uploaded", policy, allowInsecure, plugins: this.#plugins });
  }
}

/** The workspace's own bound: where its secret may be used. */
function checkSecretHosts(secret: string, hosts: readonly string[], server: string): void {
  if (!URL.canParse(server)) throw new Refusal("misconfigured", "the kubeconfig's server is not an http(s) URL");
  const url = new URL(server);
  try {
    new HostPolicy(hosts).check(url);
  } catch {
    throw new Refusal(
      "misconfigured",
      `secret '${secret}' may not be used for ${url.host}; add ${url.host} to its hosts`,
    );
  }
}
