import { and, eq, inArray } from "drizzle-orm";
import type { SecretUse } from "../../contracts/operations/admin.ts";
import type { Store } from "../context.ts";
import type { Config, Env } from "../environment.ts";
import { secrets } from "../store/schema.ts";
import { open } from "./vault.ts";

export interface ResolvedSecret {
  value: string;
  use: SecretUse | null;
  hosts: string[];
  source: "vault" | "worker";
}

/**
 * A Worker secret SECRET_<NAME> of a per-workspace deploy, with its declared use. Without SECRET_USE_<NAME> it is usable
 * by nothing: nothing is trusted on first use.
 */
export function workerSecret(env: Env, name: string): ResolvedSecret | null {
  const bindings = env as unknown as Record<string, unknown>;
  const value = bindings[`SECRET_${name}`];
  if (typeof value !== "string" || name.startsWith("USE_")) return null;
  const declared = bindings[`SECRET_USE_${name}`];
  const match = /^(job|cluster|registry)(?::(.*))?$/.exec(typeof declared === "string" ? declared.trim() : "");
  const hosts = (match?.[2] ?? "")
    .split(",")
    .map((host) => host.trim())
    .filter(Boolean);
  const use = match?.[1] === "job" || match?.[1] === "cluster" || match?.[1] === "registry" ? match[1] : null;
  return { value, use: use !== "job" && hosts.length === 0 ? null : use, hosts, source: "worker" };
}

/** Names of all Worker secrets of this deployment. */
export function workerSecretNames(env: Env): string[] {
  return Object.keys(env)
    .filter((key) => key.startsWith("SECRET_") && !key.startsWith("SECRET_USE_"))
    .map((key) => key.slice("SECRET_".length))
    .sort();
}

/** Values by name; names that are not stored are missing in the answer. Worker secrets win over the vault. */
export async function resolveSecrets(
  env: Env,
  config: Config,
  store: Store,
  workspace: string,
  names: readonly string[],
): Promise<Map<string, ResolvedSecret>> {
  const out = new Map<string, ResolvedSecret>();
  const rest: string[] = [];
  for (const name of new Set(names)) {
    const own = workerSecret(env, name);
    if (own) out.set(name, own);
    else rest.push(name);
  }
  if (rest.length === 0 || !config.vault) return out;
  const rows = await store
    .select()
    .from(secrets)
    .where(and(eq(secrets.workspace, workspace), inArray(secrets.name, rest.slice(0, 90))))
    .all();
  for (const row of rows) {
    const value = await open(config.vault, workspace, row.name, row);
    const use = row.use === "job" || row.use === "cluster" || row.use === "registry" ? row.use : null;
    out.set(row.name, { value, use, hosts: row.hosts, source: "vault" });
  }
  return out;
}

/** Whether a credential may be sent to this host: a glob is a host, *.domain or host:port; port '*' is any. */
export function hostAllowed(globs: readonly string[], url: URL): boolean {
  const port = url.port || (url.protocol === "https:" ? "443" : "80");
  const host = url.hostname.toLowerCase();
  return globs.some((glob) => {
    const match = /^(\[[^\]]+\]|[^:]+)(?::(\*|\d+))?$/.exec(glob.toLowerCase());
    if (!match?.[1]) return false;
    const [, name, wanted] = match;
    if (wanted !== undefined && wanted !== "*" && wanted !== port) return false;
    return name.startsWith("*.") ? host.endsWith(name.slice(1)) && host.length > name.length - 1 : host === name;
  });
}
