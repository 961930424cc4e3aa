import * as z from "zod";
import { EverdictError } from "../contracts/errors.ts";
import type { LogRpc } from "../contracts/log-rpc.ts";
import type { RelayRpc } from "../contracts/relay.ts";
import type { DispatcherRpc, QuotaRpc, SchedulerRpc } from "../contracts/rpc.ts";
import type { ScorecardRpc } from "../contracts/scorecard-rpc.ts";

/** Every variable that is read; a deployment is refused others. */
export const VARIABLES = [
  "EVERDICT_ENV",
  "EVERDICT_SIGNING_KEY",
  "EVERDICT_VAULT_KEYS",
  "EVERDICT_OIDC_ISSUER",
  "EVERDICT_OIDC_AUDIENCE",
  "EVERDICT_OIDC_JWKS",
  "EVERDICT_OIDC_CLIENT_ID",
  "EVERDICT_OIDC_CLIENT_SECRET",
  "EVERDICT_OIDC_SCOPES",
  "EVERDICT_OPERATORS",
  "EVERDICT_METRICS_TOKEN",
  "EVERDICT_PUBLIC_URL",
  "EVERDICT_COMPUTE",
  "EVERDICT_COMPUTE_RUNTIME",
  "EVERDICT_SANDBOX_DRIVER",
  "EVERDICT_FILE_EXECUTION_DRIVER",
] as const;

/** Bindings and variables of the Worker. Secrets SECRET_<NAME> and SECRET_USE_<NAME> come on top. */
export interface Env extends Partial<Record<(typeof VARIABLES)[number], string>> {
  DB: D1Database;
  SCHEDULER: DurableObjectNamespace;
  SCORECARD: DurableObjectNamespace;
  QUOTA: DurableObjectNamespace;
  RUN_LOG: DurableObjectNamespace;
  RELAY: DurableObjectNamespace;
  DISPATCHER: Service & DispatcherRpc;
  ASSETS?: Fetcher;
  /** Where the whole logs of units on clusters go; without it their last output is kept with the run. */
  LOGS?: R2Bucket;
  /** Runs `local` runtimes on the control-plane host; bound by the development server only. */
  LOCAL?: Fetcher;
}

const base64Key = z.string().regex(/^[A-Za-z0-9+/]{43}=$/, "must be 32 bytes in base64");

const VaultKeys = z.strictObject({
  current: z.string().min(1).max(40).describe("Id of the key that new values are sealed with"),
  keys: z.record(z.string().min(1).max(40), base64Key),
});
export type VaultKeys = z.infer<typeof VaultKeys>;

export interface Config {
  dev: boolean;
  /** 32 bytes, base64; log tokens, cursors and receipts are signed by keys derived from it. */
  signingKey: string;
  /** null: the vault is read-only-empty. */
  vault: VaultKeys | null;
  /** Whose tokens are taken as bearer tokens of persons. */
  oidc: { issuer: string; audience: string; jwks: string } | null;
  /** Where persons sign in; what else it takes is read from the issuer's discovery document. */
  signIn: { issuer: string; clientId: string; clientSecret: string | null; scopes: string } | null;
  operators: ReadonlySet<string>;
  publicUrl: string | null;
  compute: { kind: "docker" | "nomad"; runtime: string | null } | null;
}

const cache = new WeakMap<Env, Config>();

/** Parses the variables once an isolate. @throws EverdictError UNAVAILABLE naming the variable that is wrong */
export function configOf(env: Env): Config {
  const known = cache.get(env);
  if (known) return known;
  const config = parse(env);
  cache.set(env, config);
  return config;
}

function parse(env: Env): Config {
  const wrong = (message: string) =>
    new EverdictError("UNAVAILABLE", `the deployment is misconfigured: ${message}`, { retryAfterSec: 60 });
  const dev = env.EVERDICT_ENV === "dev";
  if (!base64Key.safeParse(env.EVERDICT_SIGNING_KEY ?? "").success)
    throw wrong("EVERDICT_SIGNING_KEY must be 32 bytes in base64");
  let vault: VaultKeys | null = null;
  if (env.EVERDICT_VAULT_KEYS) {
    let raw: unknown;
    try {
      raw = JSON.parse(env.EVERDICT_VAULT_KEYS);
    } catch {
      throw wrong("EVERDICT_VAULT_KEYS must be JSON");
    }
    const parsed = VaultKeys.safeParse(raw);
    if (!parsed.success || !(parsed.data.current in parsed.data.keys)) {
      throw wrong('EVERDICT_VAULT_KEYS must look like {"current":"k1","keys":{"k1":"<32 bytes base64>"}}');
    }
    vault = parsed.data;
  }
  const issuer = env.EVERDICT_OIDC_ISSUER;
  const { EVERDICT_OIDC_AUDIENCE: audience, EVERDICT_OIDC_JWKS: jwks, EVERDICT_OIDC_CLIENT_ID: clientId } = env;
  if (Boolean(audience) !== Boolean(jwks) || (issuer && !audience && !clientId)) {
    throw wrong(
      "EVERDICT_OIDC_ISSUER needs EVERDICT_OIDC_AUDIENCE and EVERDICT_OIDC_JWKS (a URL, or the key set itself) for bearer " +
        "tokens, or EVERDICT_OIDC_CLIENT_ID for signing in, or both",
    );
  }
  if (clientId && !issuer) throw wrong("EVERDICT_OIDC_CLIENT_ID needs EVERDICT_OIDC_ISSUER");
  if (issuer && !URL.canParse(issuer)) throw wrong("EVERDICT_OIDC_ISSUER must be a URL");
  const drivers = new Map(
    Object.entries({
      EVERDICT_COMPUTE: env.EVERDICT_COMPUTE,
      EVERDICT_SANDBOX_DRIVER: env.EVERDICT_SANDBOX_DRIVER,
      EVERDICT_FILE_EXECUTION_DRIVER: env.EVERDICT_FILE_EXECUTION_DRIVER,
    }).filter((entry): entry is [string, string] => Boolean(entry[1])),
  );
  for (const [name, kind] of drivers)
    if (kind !== "docker" && kind !== "nomad") throw wrong(`${name} must be docker or nomad`);
  const kinds = [...drivers];
  const odd = kinds.find(([, kind]) => kind !== kinds[0]?.[1]);
  if (odd && kinds[0])
    throw wrong(
      `${kinds[0][0]}=${kinds[0][1]} and ${odd[0]}=${odd[1]} name different kinds of compute; make them equal`,
    );
  const compute = env.EVERDICT_COMPUTE === "docker" || env.EVERDICT_COMPUTE === "nomad" ? env.EVERDICT_COMPUTE : null;
  if (compute === "nomad" && !/^_shared\/[a-z0-9][a-z0-9._-]*$/.test(env.EVERDICT_COMPUTE_RUNTIME ?? "")) {
    throw wrong("EVERDICT_COMPUTE=nomad needs EVERDICT_COMPUTE_RUNTIME=_shared/<runtime id>");
  }
  return {
    dev,
    signingKey: env.EVERDICT_SIGNING_KEY ?? "",
    vault,
    oidc: issuer && audience && jwks ? { issuer, audience, jwks } : null,
    signIn:
      issuer && clientId
        ? {
            issuer,
            clientId,
            clientSecret: env.EVERDICT_OIDC_CLIENT_SECRET || null,
            scopes: env.EVERDICT_OIDC_SCOPES || "openid",
          }
        : null,
    operators: new Set(
      (env.EVERDICT_OPERATORS ?? "")
        .split(",")
        .map((s) => s.trim())
        .filter(Boolean),
    ),
    publicUrl: env.EVERDICT_PUBLIC_URL ?? null,
    compute: compute ? { kind: compute, runtime: env.EVERDICT_COMPUTE_RUNTIME ?? null } : null,
  };
}

// SAFETY of the casts: the classes bound under these names implement exactly these interfaces (worker/index.ts).
export const schedulerOf = (env: Env, object: string): SchedulerRpc =>
  env.SCHEDULER.get(env.SCHEDULER.idFromName(object)) as unknown as SchedulerRpc;
export const scorecardOf = (env: Env, id: string): ScorecardRpc =>
  env.SCORECARD.get(env.SCORECARD.idFromName(id)) as unknown as ScorecardRpc;
export const quotaOf = (env: Env, workspace: string): QuotaRpc =>
  env.QUOTA.get(env.QUOTA.idFromName(workspace)) as unknown as QuotaRpc;
export const logOf = (env: Env, runId: string): LogRpc =>
  env.RUN_LOG.get(env.RUN_LOG.idFromName(runId)) as unknown as LogRpc;
export const relayOf = (env: Env, id: string): RelayRpc & Pick<Fetcher, "fetch"> =>
  env.RELAY.get(env.RELAY.idFromName(`relay:${id}`)) as unknown as RelayRpc & Pick<Fetcher, "fetch">;
