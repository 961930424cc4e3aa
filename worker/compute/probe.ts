import { and, eq } from "drizzle-orm";
import type * as z from "zod";
import { canonicalJson } from "../../contracts/canonical.ts";
import type { Check as CheckSchema } from "../../contracts/operations/registry.ts";
import { reachability } from "../../contracts/reachability.ts";
import { type RuntimeSpec, runtimeSecretNames } from "../../contracts/runtime-spec.ts";
import { sha256 } from "../auth/digest.ts";
import { type Context, iso } from "../context.ts";
import { hostAllowed, resolveSecrets } from "../secrets/resolve.ts";
import { registry, runtimeHealth } from "../store/schema.ts";

/** Whole probe, so that an unreachable address does not hang the caller. */
const PROBE_MS = 10_000;
/** More than a version document needs; nothing of a body is shown but known fields. */
const MAX_BODY_BYTES = 64 * 1024;

type Check = z.infer<typeof CheckSchema>;

export interface ProbeResult {
  kind: string;
  reachable: boolean;
  detail: string;
  reason: string | null;
  checks: Check[];
}

const ended = (kind: string, reason: string | null, detail: string, checks: Check[]): ProbeResult => ({
  kind,
  reachable: reason === null,
  detail,
  reason,
  checks,
});

/** Asks the cluster whether it answers, with the stored credential and only where its secret may be sent. Runs no job. */
export async function probe(ctx: Context, spec: RuntimeSpec): Promise<ProbeResult> {
  const checks: Check[] = [];
  if (spec.kind === "local") return probeLocal(ctx);
  const reach = reachability(spec);
  const needsRelay = spec.relay !== undefined || (spec.kind === "k8s" && spec.server === undefined);
  if (needsRelay || (!ctx.config.dev && reach.verdict !== "direct")) {
    const why = reach.reasons.join(", ") || "named";
    checks.push({
      name: "reachability",
      ok: false,
      detail: `not directly reachable: ${why}`,
      fix: "run a relay beside the cluster and name it in 'relay'",
    });
    return ended(
      spec.kind,
      needsRelay ? "relay" : "blocked",
      `the control plane cannot dial this cluster itself (${why})`,
      checks,
    );
  }
  checks.push({ name: "reachability", ok: true, detail: "dialled directly", fix: null });
  const address = new URL(spec.kind === "nomad" ? spec.addr : (spec.server ?? ""));
  const credential = await clusterCredential(ctx, spec, address);
  if ("fix" in credential) {
    checks.push({ name: "credential", ok: false, detail: credential.detail, fix: credential.fix });
    return ended(spec.kind, "credential", credential.detail, checks);
  }
  return ask(ctx, spec, address, credential.token, checks);
}

async function probeLocal(ctx: Context): Promise<ProbeResult> {
  if (!ctx.env.LOCAL) {
    const detail = "local runtimes run on the control-plane host and exist in development only";
    return ended("local", "unavailable", detail, [
      { name: "local", ok: false, detail, fix: "pair a self-hosted runner: everdict runner" },
    ]);
  }
  return ended("local", null, "in-process on the control-plane host", [
    { name: "local", ok: true, detail: "executor bound", fix: null },
  ]);
}

/** The cluster token, only if its secret has use 'cluster' and lists this very host. */
async function clusterCredential(
  ctx: Context,
  spec: RuntimeSpec,
  address: URL,
): Promise<{ token: string | null } | { detail: string; fix: string }> {
  const name = runtimeSecretNames(spec).find(({ field }) => field === "authSecret")?.name;
  if (name === undefined) return { token: null };
  const secret = (await resolveSecrets(ctx.env, ctx.config, ctx.store, ctx.principal.workspace, [name])).get(name);
  if (!secret)
    return {
      detail: `secret '${name}' is not stored`,
      fix: `PUT /secrets/${name} with use 'cluster' and hosts ["${address.hostname}"]`,
    };
  if (secret.use !== "cluster")
    return {
      detail: `secret '${name}' has use '${secret.use ?? "none"}' and is never sent to a cluster`,
      fix: `store it with use 'cluster' and hosts ["${address.hostname}"]`,
    };
  if (!hostAllowed(secret.hosts, address))
    return { detail: `secret '${name}' may not be sent to ${address.host}`, fix: `add ${address.host} to its hosts` };
  return { token: secret.value };
}

async function ask(
  ctx: Context,
  spec: Exclude<RuntimeSpec, { kind: "local" }>,
  address: URL,
  token: string | null,
  checks: Check[],
): Promise<ProbeResult> {
  const path = spec.kind === "nomad" ? "/v1/agent/self" : "/version";
  const headers: Record<string, string> = { accept: "application/json" };
  if (token !== null && spec.kind === "nomad") headers["x-nomad-token"] = token;
  if (token !== null && spec.kind === "k8s") headers.authorization = `Bearer ${token}`;
  let result: ProbeResult;
  try {
    const answer = await fetch(new URL(address.pathname.replace(/\/$/, "") + path, address), {
      headers,
      redirect: "manual",
      signal: AbortSignal.timeout(PROBE_MS),
    });
    result = await judge(spec, answer, checks);
  } catch (error) {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    const detail = late
      ? `no answer within ${PROBE_MS / 1_000} s`
      : "the connection could not be made (name, port, certificate or network)";
    checks.push({
      name: "connect",
      ok: false,
      detail,
      fix: "check the address and that the cluster's API is open to the control plane, or use a relay",
    });
    result = ended(spec.kind, late ? "timeout" : "connect", detail, checks);
  }
  if (!(await isRegistered(ctx, spec))) return result;
  const state = {
    state: result.reachable ? "ok" : "open",
    detail: result.detail.slice(0, 500),
    checkedAt: iso(ctx.now()),
    nodeOs: [],
  };
  await ctx.store
    .insert(runtimeHealth)
    .values({ owner: ctx.principal.workspace, id: spec.id, ...state })
    .onConflictDoUpdate({
      target: [runtimeHealth.owner, runtimeHealth.id],
      set: { state: state.state, detail: state.detail, checkedAt: state.checkedAt },
    })
    .run();
  return result;
}

/** Whether exactly this spec is registered: a probe of another one says nothing about the runtime of that name. */
async function isRegistered(ctx: Context, spec: RuntimeSpec): Promise<boolean> {
  const row = await ctx.store
    .select({ hash: registry.hash })
    .from(registry)
    .where(
      and(
        eq(registry.kind, "runtime"),
        eq(registry.owner, ctx.principal.workspace),
        eq(registry.id, spec.id),
        eq(registry.version, spec.version),
      ),
    )
    .get();
  return row?.hash === (await sha256(canonicalJson(spec)));
}

async function judge(spec: RuntimeSpec, answer: Response, checks: Check[]): Promise<ProbeResult> {
  checks.push({ name: "connect", ok: true, detail: `HTTP ${answer.status}`, fix: null });
  if (answer.status === 401 || answer.status === 403) {
    await answer.body?.cancel();
    const detail = `the cluster refused the credential (HTTP ${answer.status})`;
    checks.push({ name: "auth", ok: false, detail, fix: "check the secret named in authSecret and its rights" });
    return ended(spec.kind, "auth", detail, checks);
  }
  if (answer.status !== 200) {
    await answer.body?.cancel();
    const detail = `the address answers HTTP ${answer.status}, which is not the API of ${spec.kind}`;
    checks.push({ name: "api", ok: false, detail, fix: "check address, port and path" });
    return ended(spec.kind, "api", detail, checks);
  }
  checks.push({ name: "auth", ok: true, detail: "accepted", fix: null });
  return ended(spec.kind, null, versionText(spec.kind, (await answer.text()).slice(0, MAX_BODY_BYTES)), checks);
}

function versionText(kind: string, body: string): string {
  try {
    const parsed: unknown = JSON.parse(body);
    const at = (value: unknown, ...keys: string[]): string | null => {
      let here: unknown = value;
      for (const key of keys)
        here = typeof here === "object" && here !== null ? (here as Record<string, unknown>)[key] : undefined;
      return typeof here === "string" ? here.slice(0, 60) : null;
    };
    const version = kind === "nomad" ? at(parsed, "config", "Version", "Version") : at(parsed, "gitVersion");
    const region = kind === "nomad" ? at(parsed, "config", "Region") : null;
    return `${kind === "nomad" ? "nomad" : "kubernetes"} ${version ?? "of unknown version"}${region ? `, region ${region}` : ""}`;
  } catch {
    return `${kind} answers`;
  }
}
