import { type LookupAddress, lookup as systemLookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { hostKind } from "../../contracts/reachability.ts";
import { Refusal } from "./refusal.ts";

interface Glob {
  host: string;
  port: string | null;
}

const GLOB = /^(\[[0-9a-f:.]+\]|\*\.[a-z0-9.-]+|[a-z0-9._-]+)(?::(\d{1,5}|\*))?$/;

/**
 * A host as an operator writes it: name, *.domain or address, with a port or without.
 * @throws Error in words that say what is wrong
 */
export function hostGlob(text: string): Glob {
  const match = GLOB.exec(text.trim().toLowerCase());
  if (!match?.[1])
    throw new Error(`'${text}' is not a host: give name, *.domain or address, for example 10.0.0.5:6443`);
  return { host: match[1], port: match[2] === undefined || match[2] === "*" ? null : match[2] };
}

const portOf = (url: URL): string => url.port || (url.protocol === "https:" ? "443" : "80");

/** Address as URLs write it. */
const urlHost = (address: string): string => (isIP(address) === 6 ? `[${address.toLowerCase()}]` : address);

const matches = (globs: readonly Glob[], host: string, port: string): boolean =>
  globs.some(
    (glob) =>
      (glob.port === null || glob.port === port) &&
      (glob.host.startsWith("*.")
        ? isIP(host) === 0 && host.endsWith(glob.host.slice(1)) && host.length >= glob.host.length
        : glob.host === host),
  );

/** Addresses that no name may lead to: what they mean depends on the machine, not on the network. */
const NEVER_BY_NAME = new Set(["loopback", "link-local", "metadata"]);

/** Which hosts this relay dials: those its operator named, checked by name and again by the address they resolve to. */
export class HostPolicy {
  readonly #globs: readonly Glob[];
  readonly #resolve: typeof systemLookup;

  constructor(globs: readonly string[], resolve: typeof systemLookup = systemLookup) {
    this.#globs = globs.map(hostGlob);
    this.#resolve = resolve;
  }

  /** @throws Refusal when the operator did not name it */
  check(url: URL, what = "host"): void {
    const host = url.hostname.toLowerCase().replace(/\.$/, "");
    if (matches(this.#globs, host, portOf(url))) return;
    throw new Refusal(
      "refused",
      `${what} ${url.host} is not allowed on this relay; its operator adds --allow-host ${host}:${portOf(url)}`,
    );
  }

  /**
   * For the dialler: what it gets is what was checked, so a name that resolves to another address later changes nothing.
   * @param port of the connection it is for
   */
  lookup(port: string): LookupFunction {
    return (hostname, options, callback) => {
      this.#resolve(hostname, { ...options, all: true }, (error, found) => {
        if (error) {
          callback(error, "", 0);
          return;
        }
        const bad = found.find(({ address }) => !this.#mayLeadTo(address, port));
        const [first] = found;
        if (bad || !first) {
          callback(
            new Refusal(
              "refused",
              `${hostname} resolves to ${bad?.address ?? "nothing"}, which a name may not lead to on this relay; its operator adds --allow-host ${urlHost(bad?.address ?? "<address>")}:${port} if that is meant`,
            ),
            "",
            0,
          );
          return;
        }
        if (options.all) callback(null, found as LookupAddress[]);
        else callback(null, first.address, first.family);
      });
    };
  }

  #mayLeadTo(address: string, port: string): boolean {
    const host = urlHost(address);
    return !NEVER_BY_NAME.has(hostKind(host)) || matches(this.#globs, host, port);
  }
}
