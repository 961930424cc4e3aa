import { and, eq } from "drizzle-orm";
import type * as z from "zod";
import { canonicalJson } from "../../contracts/canonical.ts";
import { EverdictError } from "../../contracts/errors.ts";
import type { Check as CheckSchema } from "../../contracts/operations/registry.ts";
import { reachability } from "../../contracts/reachability.ts";
import type { RuntimeSpec } from "../../contracts/runtime-spec.ts";
import { sha256 } from "../auth/digest.ts";
import { offlineWords, relayReason } from "../backends/transport/relay.ts";
import { type Context, iso } from "../context.ts";
import { registry, runtimeHealth } from "../store/schema.ts";
import { addressOf, type ClusterSpec, clusterBackend, clusterCredential, impasseOf } from "./cluster.ts";
import { type FoundRelay, findRelay, kubeconfigOf, relayState } from "./relay.ts";
import { relayCommand } from "./relay-command.ts";

type Check = z.infer<typeof CheckSchema>;

export interface ProbeResult {
  kind: string;
  reachable: boolean;
  detail: string;
  reason: string | null;
  checks: Check[];
  /** Least-privilege policy to paste, of a cluster. */
  policy?: string;
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
  if (reach.verdict === "blocked" && !ctx.config.dev) return blocked(spec, reach.reasons);
  if (spec.relay !== undefined) return probeThroughRelay(ctx, spec, spec.relay);
  const facts = (await kubeconfigOf(ctx, ctx.principal.workspace, spec))?.facts ?? null;
  const impasse = impasseOf(ctx.config, spec, facts?.reasons);
  if (impasse !== null) {
    checks.push({ name: "reachability", ok: false, detail: impasse.detail, fix: relayCommand(ctx, spec, facts) });
    return ended(spec.kind, impasse.reason, impasse.detail, checks);
  }
  checks.push({ name: "reachability", ok: true, detail: "dialled directly", fix: null });
  const { env, config, store, principal } = ctx;
  const address = addressOf(spec);
  const credential =
    address === null
      ? { token: null }
      : await clusterCredential(env, config, store, principal.workspace, spec, address);
  if ("fix" in credential) {
    checks.push({ name: "credential", ok: false, detail: credential.detail, fix: credential.fix });
    return ended(spec.kind, "credential", credential.detail, checks);
  }
  return ask(ctx, spec, checks);
}

/** An address that is dialled by nobody, through a relay or not. */
function blocked(spec: ClusterSpec, reasons: readonly string[]): ProbeResult {
  const detail = `the control plane does not dial this address (${reasons.join(", ")})`;
  const fix = `change '${spec.kind === "nomad" ? "addr" : "server"}' to the address under which other machines reach the cluster`;
  return ended(spec.kind, "blocked", detail, [{ name: "reachability", ok: false, detail, fix }]);
}

/** Through a relay: first whether it is there at all, then the cluster. */
async function probeThroughRelay(ctx: Context, spec: ClusterSpec, name: string): Promise<ProbeResult> {
  const checks: Check[] = [];
  const fail = (reason: string, detail: string, fix: string): ProbeResult => {
    checks.push({ name: "relay", ok: false, detail, fix });
    return ended(spec.kind, reason, detail, checks);
  };
  let relay: FoundRelay;
  try {
    relay = await findRelay(ctx.store, ctx.principal.workspace, name);
  } catch (error) {
    if (!(error instanceof EverdictError) || error.code !== "UPSTREAM_MISCONFIGURED") throw error;
    const facts = (await kubeconfigOf(ctx, ctx.principal.workspace, spec))?.facts ?? null;
    return fail("relay", error.message, relayCommand(ctx, spec, facts));
  }
  const state = await relayState(ctx.env, relay);
  if (!state.online)
    return fail("relay-offline", offlineWords(relay.label, state.lastSeenAt), "start it: everdict relay");
  const where = state.hostname === null ? "" : ` on ${state.hostname}`;
  checks.push({ name: "relay", ok: true, detail: `relay '${relay.label}' is connected${where}`, fix: null });
  try {
    return relayWords(await ask(ctx, spec, checks));
  } catch (error) {
    if (!(error instanceof EverdictError) || error.code !== "UPSTREAM_MISCONFIGURED") throw error;
    checks.push({ name: "credential", ok: false, detail: error.message, fix: "change what the message names" });
    return ended(spec.kind, "credential", error.message, checks);
  }
}

/** What a relay says of itself is its own reason, and its words name what to change. */
function relayWords(result: ProbeResult): ProbeResult {
  const checks = result.checks.map((check) =>
    !check.ok && relayReason(check.detail) !== null ? { ...check, fix: "change what the message names" } : check,
  );
  return { ...result, checks, reason: relayReason(result.detail) ?? result.reason };
}

async function ask(ctx: Context, spec: ClusterSpec, checks: Check[]): Promise<ProbeResult> {
  const { env, config, store, principal } = ctx;
  const backend = await clusterBackend(env, config, store, principal.workspace, spec, "probe000");
  const report = await backend.probe();
  const result = {
    kind: spec.kind,
    reachable: report.reachable,
    detail: report.detail,
    reason: report.reason,
    checks: [...checks, ...report.checks],
  };
  if (await isRegistered(ctx, spec)) await remember(ctx, spec, result, report.nodeOs);
  return { ...result, policy: report.policy };
}

/** What is known of a registered runtime: its health, and which systems its nodes have, which no claim of a spec replaces. */
async function remember(
  ctx: Context,
  spec: RuntimeSpec,
  result: ProbeResult,
  seenOs: readonly string[],
): Promise<void> {
  const nodeOs = (["windows", "macos"] as const).filter((os) => seenOs.includes(os));
  const health = {
    state: result.reachable ? "ok" : "open",
    detail: result.detail.slice(0, 500),
    checkedAt: iso(ctx.now()),
    nodeOs,
  };
  await ctx.store
    .insert(runtimeHealth)
    .values({ owner: ctx.principal.workspace, id: spec.id, ...health })
    .onConflictDoUpdate({ target: [runtimeHealth.owner, runtimeHealth.id], set: health })
    .run();
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
