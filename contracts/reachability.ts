import type { RuntimeSpec } from "./runtime-spec.ts";

export interface Reachability {
  /** direct: the edge dials it itself; relay: only through a relay; blocked: never. */
  verdict: "direct" | "relay" | "blocked";
  reasons: string[];
}

const PRIVATE_SUFFIXES = [
  ".internal",
  ".local",
  ".lan",
  ".intranet",
  ".corp",
  ".home",
  ".private",
  ".home.arpa",
  ".svc",
  ".cluster.local",
];
const METADATA_NAMES = new Set(["metadata.google.internal", "metadata", "instance-data", "metadata.azure.com"]);

type HostKind = "public-name" | "private-name" | "public-ip" | "private-ip" | "loopback" | "link-local" | "metadata";

function ipv4Kind(parts: number[]): HostKind {
  const [a = 0, b = 0, c = 0, d = 0] = parts;
  if (a === 169 && b === 254) return c === 169 && d === 254 ? "metadata" : "link-local";
  if (a === 100 && b === 100 && c === 100 && d === 200) return "metadata";
  if (a === 127 || a === 0) return "loopback";
  if (a === 10 || (a === 172 && b >= 16 && b < 32) || (a === 192 && b === 168) || (a === 100 && b >= 64 && b < 128))
    return "private-ip";
  return "public-ip";
}

function ipv6Groups(host: string): number[] | null {
  const [head = "", tail] = host.split("::");
  const read = (text: string) => (text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16)));
  const left = read(head);
  const right = tail === undefined ? [] : read(tail);
  const groups =
    tail === undefined ? left : [...left, ...Array(Math.max(0, 8 - left.length - right.length)).fill(0), ...right];
  return groups.length === 8 && groups.every((group) => group >= 0 && group <= 0xffff) ? groups : null;
}

function ipv6Kind(groups: number[]): HostKind {
  const [first = 0] = groups;
  const embedded = [(groups[6] ?? 0) >> 8, (groups[6] ?? 0) & 255, (groups[7] ?? 0) >> 8, (groups[7] ?? 0) & 255];
  const zeros = groups.slice(0, 5).every((group) => group === 0);
  if (zeros && (groups[5] === 0xffff || groups[5] === 0)) {
    if (groups[5] === 0 && groups[6] === 0 && (groups[7] === 1 || groups[7] === 0)) return "loopback";
    return ipv4Kind(embedded);
  }
  if (first === 0x64 && groups[1] === 0xff9b) return ipv4Kind(embedded);
  if (first === 0xfd00 && groups[1] === 0xec2) return "metadata";
  if ((first & 0xffc0) === 0xfe80) return "link-local";
  return (first & 0xfe00) === 0xfc00 ? "private-ip" : "public-ip";
}

/** What a host of an already parsed URL is; the URL parser has turned decimal, octal and hex addresses into dotted ones. */
export function hostKind(hostname: string): HostKind {
  const host = hostname.toLowerCase().replace(/\.$/, "");
  if (METADATA_NAMES.has(host)) return "metadata";
  if (host.startsWith("[")) {
    const groups = ipv6Groups(host.slice(1, -1));
    return groups === null ? "private-ip" : ipv6Kind(groups);
  }
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(host)) return ipv4Kind(host.split(".").map(Number));
  if (host === "localhost" || host.endsWith(".localhost")) return "loopback";
  if (!host.includes(".") || PRIVATE_SUFFIXES.some((suffix) => host.endsWith(suffix))) return "private-name";
  return "public-name";
}

const OF_HOST: Record<HostKind, Reachability> = {
  "public-name": { verdict: "direct", reasons: [] },
  "private-name": { verdict: "relay", reasons: ["private-name"] },
  "public-ip": { verdict: "relay", reasons: ["ip-address"] },
  "private-ip": { verdict: "relay", reasons: ["private-address"] },
  loopback: { verdict: "blocked", reasons: ["loopback"] },
  "link-local": { verdict: "blocked", reasons: ["link-local"] },
  metadata: { verdict: "blocked", reasons: ["metadata-service"] },
};

/** Why a host cannot be dialled by the edge itself; empty when it can. */
export const hostReasons = (hostname: string): string[] => OF_HOST[hostKind(hostname)].reasons;

/**
 * How a deployed control plane reaches a cluster, decided before saving. A Worker's fetch reaches neither bare addresses
 * (error 1003), loopback nor private names, and trusts no private CA (Cloudflare Workers documentation).
 */
export function reachability(spec: RuntimeSpec): Reachability {
  if (spec.kind === "local") return { verdict: "direct", reasons: [] };
  const address = spec.kind === "nomad" ? spec.addr : spec.server;
  const reasons: string[] = [];
  if (spec.kind === "k8s" && spec.kubeconfigSecret !== undefined) reasons.push("kubeconfig");
  else if (spec.kind === "k8s" && spec.server === undefined && spec.context !== undefined) reasons.push("context");
  const host = address === undefined ? OF_HOST["public-name"] : OF_HOST[hostKind(new URL(address).hostname)];
  if (spec.relay !== undefined) {
    // The relay's own operator decides which hosts it dials; nobody's metadata service is among them.
    return host.reasons.includes("metadata-service")
      ? host
      : { verdict: "relay", reasons: [...reasons, ...host.reasons, "named"] };
  }
  if (host.verdict === "blocked") return host;
  const all = [...reasons, ...host.reasons];
  return { verdict: all.length > 0 ? "relay" : "direct", reasons: all };
}
