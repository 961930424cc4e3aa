import { and, asc, eq, gt, sql } from "drizzle-orm";
import { canonicalJson } from "../../contracts/canonical.ts";
import { Dataset, datasetIssues, datasetSecretNames, EvalCase } from "../../contracts/case.ts";
import { EverdictError, type Issue, issuesOf } from "../../contracts/errors.ts";
import { HarnessSpec, harnessIssues, harnessSecretNames } from "../../contracts/harness.ts";
import { LIMITS } from "../../contracts/names.ts";
import type { BodyOf, OutputOf, ParamsOf, QueryOf } from "../../contracts/operations/operation.ts";
import type { REGISTRY_OPERATIONS } from "../../contracts/operations/registry.ts";
import { type Reachability, reachability } from "../../contracts/reachability.ts";
import {
  advertisedCapabilities,
  RuntimeSpec,
  runtimeIssues,
  runtimeSecretNames,
} from "../../contracts/runtime-spec.ts";
import { sign } from "../auth/digest.ts";
import type { KubeconfigFacts } from "../compute/kubeconfig-facts.ts";
import { type ProbeResult, probe } from "../compute/probe.ts";
import { kubeconfigOf, pairedRelay, relaysOf } from "../compute/relay.ts";
import { relayCommand } from "../compute/relay-command.ts";
import { envelopeOf, runtimeObject } from "../compute/resolve.ts";
import type { Context } from "../context.ts";
import { schedulerOf } from "../environment.ts";
import { regexIssue } from "../grading/regex.ts";
import { readCursor, writeCursor } from "../http/cursor.ts";
import { Reply } from "../http/reply.ts";
import {
  existingVersions,
  find,
  list,
  type Registration,
  type RegistryKind,
  register,
  setArchived,
  setTags,
} from "../registry/registry.ts";
import { datasetCases, runtimeHealth } from "../store/schema.ts";
import { runtimeWarnings } from "./runtime-warnings.ts";
import { missingSecrets, misusedSecrets, type NamedSecret } from "./secret-warnings.ts";

type Ops = typeof REGISTRY_OPERATIONS;

const refuse = (what: string, issues: Issue[]): void => {
  if (issues.length > 0) throw new EverdictError("BAD_REQUEST", `the ${what} cannot be registered`, { issues });
};

function registered({ row, created }: Registration, warnings: string[]): Reply<OutputOf<Ops["create_runtime"]>> {
  const { id, version, owner, createdAt, createdBy } = row;
  return new Reply({ id, version, owner, createdAt, createdBy, warnings }, created ? 201 : 200);
}

/** Rules of a runtime beyond its shape, in the profile of this deployment. */
function allRuntimeIssues(ctx: Context, spec: RuntimeSpec): Issue[] {
  const issues = runtimeIssues(spec);
  if (ctx.config.dev) return issues;
  if (spec.kind === "local")
    issues.push({
      path: "kind",
      message: "a local runtime works in development only; pair a self-hosted runner instead (everdict runner)",
    });
  const verdict = reachability(spec);
  if (verdict.verdict === "blocked") {
    issues.push({
      path: spec.kind === "nomad" ? "addr" : "server",
      message: `must not be dialled by the control plane (${verdict.reasons.join(", ")})`,
    });
  }
  return issues;
}

export async function createRuntime(ctx: Context, { body }: { body: BodyOf<Ops["create_runtime"]> }) {
  refuse("runtime", allRuntimeIssues(ctx, body));
  const done = await register(ctx, "runtime", body, body);
  await pushEnvelope(ctx, body.id);
  return registered(done, await runtimeWarnings(ctx, body, await missingSecrets(ctx, runtimeSecretNames(body))));
}

/** A new or archived version changes the envelope from the next pump on. */
async function pushEnvelope(ctx: Context, id: string): Promise<void> {
  let row: Awaited<ReturnType<typeof find>>;
  try {
    row = await find(ctx.store, "runtime", ctx.principal.workspace, id, "latest");
  } catch (error) {
    if (error instanceof EverdictError && error.code === "NOT_FOUND") return;
    throw error;
  }
  const spec = RuntimeSpec.parse(JSON.parse(row.spec));
  const object = runtimeObject(spec, row.owner, ctx.principal.workspace);
  await schedulerOf(ctx.env, object).setEnvelope(object, envelopeOf(spec));
}

export async function createHarness(ctx: Context, { body }: { body: BodyOf<Ops["create_harness"]> }) {
  refuse("harness", harnessIssues(body));
  const missing = await missingSecrets(ctx, harnessSecretNames(body));
  return registered(await register(ctx, "harness", body, body), await harnessWarnings(ctx, body, missing));
}

/** Secrets that would keep runs from being taken. */
const secretWarnings = async (ctx: Context, named: readonly NamedSecret[], missing: string[]): Promise<string[]> => [
  ...missing.map((name) => `secret '${name}' is not stored yet; runs are refused until an admin stores it`),
  ...(await misusedSecrets(ctx, named)),
];

/** A placeholder in the quoted program text of an interpreter that the command starts. */
const NESTED_CODE =
  /\b(?:(?:sh|bash|dash|zsh|python3?|perl|ruby|node|php)\s+(?:-\S+\s+)*-[ce]|eval)\s+(?:"[^"]*\{\{|[^"'|;&\n]*\{\{)/;

async function harnessWarnings(ctx: Context, spec: HarnessSpec, missing: string[]): Promise<string[]> {
  const warnings = await secretWarnings(ctx, harnessSecretNames(spec), missing);
  if (spec.kind === "command" && NESTED_CODE.test(spec.command)) {
    warnings.push(
      "a placeholder stands inside the code of another interpreter (sh -c, python -c, eval …): it is data for this shell and code for that one; pass it as an argument instead, for example sh -c 'echo \"$1\"' _ {{task}}",
    );
  }
  if (spec.kind === "service")
    warnings.push("topologies of services are registered and checked; this version does not run them yet");
  return warnings;
}

function allDatasetIssues(dataset: Dataset): Issue[] {
  const issues = datasetIssues(dataset);
  for (const [index, evalCase] of dataset.cases.entries()) {
    for (const [g, grader] of evalCase.graders.entries()) {
      const message = grader.kind === "regex" ? regexIssue(grader.pattern, grader.flags) : null;
      if (message !== null) issues.push({ path: `cases.${index}.graders.${g}.pattern`, message });
    }
    if (issues.length >= 100) break;
  }
  return issues.slice(0, 100);
}

/** Rows of one statement stay below this, with room under D1's 2 MB a bound value. */
const CHUNK_CHARS = 700_000;

export async function createDataset(ctx: Context, { body }: { body: BodyOf<Ops["create_dataset"]> }) {
  refuse("dataset", allDatasetIssues(body));
  const { cases, ...head } = body;
  const owner = ctx.principal.workspace;
  const write = async () => {
    const { store } = ctx;
    await store
      .delete(datasetCases)
      .where(
        and(eq(datasetCases.owner, owner), eq(datasetCases.dataset, body.id), eq(datasetCases.version, body.version)),
      )
      .run();
    let chunk: [number, string, string][] = [];
    let size = 0;
    const flush = async () => {
      if (chunk.length === 0) return;
      await store.run(sql`insert or replace into dataset_cases (owner, dataset, version, seq, case_id, body)
        select ${owner}, ${body.id}, ${body.version}, value ->> 0, value ->> 1, value ->> 2 from json_each(${JSON.stringify(chunk)})`);
      chunk = [];
      size = 0;
    };
    for (const [seq, evalCase] of cases.entries()) {
      const text = JSON.stringify(evalCase);
      if (size + text.length > CHUNK_CHARS) await flush();
      chunk.push([seq, evalCase.id, text]);
      size += text.length;
    }
    await flush();
  };
  const done = await register(ctx, "dataset", body, head, { count: cases.length, write });
  const named = datasetSecretNames(body);
  return registered(done, await secretWarnings(ctx, named, await missingSecrets(ctx, named)));
}

async function validation<S extends { id: string; version: string }>(
  ctx: Context,
  kind: RegistryKind,
  schema: { safeParse(value: unknown): { success: true; data: S } | { success: false; error: import("zod").ZodError } },
  body: unknown,
  rules: (spec: S) => Issue[],
  missing: (spec: S) => Promise<string[]>,
  warnings: (spec: S, missing: string[]) => string[] | Promise<string[]>,
) {
  const parsed = schema.safeParse(body);
  const spec = parsed.success ? parsed.data : null;
  const errors = parsed.success ? rules(parsed.data) : issuesOf(parsed.error);
  const id =
    spec?.id ??
    (typeof body === "object" && body !== null && "id" in body && typeof body.id === "string" ? body.id : "");
  const existing = id === "" ? [] : await existingVersions(ctx, kind, id);
  const missingNames = spec ? await missing(spec) : [];
  return {
    spec: errors.length === 0 ? spec : null,
    answer: {
      ok: errors.length === 0,
      errors,
      warnings: spec ? await warnings(spec, missingNames) : [],
      existingVersions: existing,
      versionExists: spec !== null && existing.includes(spec.version),
      missingSecrets: missingNames,
    },
  };
}

/** Proof that this very spec passed a check, good for an hour: the save gate of the dashboard asks for it. */
async function receipt(ctx: Context, spec: RuntimeSpec): Promise<string> {
  const until = Math.floor(ctx.now() / 1_000) + 3_600;
  return `${until}.${await sign(ctx.config.signingKey, "receipt", `${ctx.principal.workspace}\n${until}\n${canonicalJson(spec)}`)}`;
}

/** What to run when a runtime needs a relay that is not there; null when nothing is to be done. */
async function missingRelay(
  ctx: Context,
  spec: RuntimeSpec,
  { verdict }: Reachability,
  facts: KubeconfigFacts | null,
): Promise<string | null> {
  if (spec.kind === "local" || verdict !== "relay") return null;
  const relay = spec.relay === undefined ? null : await pairedRelay(ctx.store, ctx.principal.workspace, spec.relay);
  return relay ? null : relayCommand(ctx, spec, facts);
}

export async function validateRuntime(
  ctx: Context,
  { body }: { body: unknown },
): Promise<OutputOf<Ops["validate_runtime"]>> {
  const { spec, answer } = await validation(
    ctx,
    "runtime",
    RuntimeSpec,
    body,
    (s) => allRuntimeIssues(ctx, s),
    (s) => missingSecrets(ctx, runtimeSecretNames(s)),
    (s, missing) => runtimeWarnings(ctx, s, missing),
  );
  const parsed = RuntimeSpec.safeParse(body);
  const reach = parsed.success ? reachability(parsed.data) : { verdict: "blocked" as const, reasons: ["invalid-spec"] };
  const kubeconfig = parsed.success ? await kubeconfigOf(ctx, ctx.principal.workspace, parsed.data) : null;
  const facts = kubeconfig?.facts ?? null;
  const command = parsed.success ? await missingRelay(ctx, parsed.data, reach, facts) : null;
  const reasons = [...new Set([...reach.reasons, ...(facts?.reasons ?? [])])];
  return {
    ...answer,
    reachability: { ...reach, reasons, command },
    receipt: spec === null ? null : await receipt(ctx, spec),
  };
}

export async function probeRuntime(
  ctx: Context,
  { body }: { body: BodyOf<Ops["probe_runtime"]> },
): Promise<OutputOf<Ops["probe_runtime"]>> {
  refuse("runtime", runtimeIssues(body));
  const result: ProbeResult = await probe(ctx, body);
  return { ...result, receipt: result.reachable ? await receipt(ctx, body) : null };
}

export async function validateHarness(ctx: Context, { body }: { body: unknown }) {
  const { answer } = await validation(
    ctx,
    "harness",
    HarnessSpec,
    body,
    harnessIssues,
    (s) => missingSecrets(ctx, harnessSecretNames(s)),
    (s, missing) => harnessWarnings(ctx, s, missing),
  );
  return answer;
}

export async function validateDataset(ctx: Context, { body }: { body: unknown }) {
  const { answer } = await validation(
    ctx,
    "dataset",
    Dataset,
    body,
    allDatasetIssues,
    (s) => missingSecrets(ctx, datasetSecretNames(s)),
    (s, missing) => secretWarnings(ctx, datasetSecretNames(s), missing),
  );
  return answer;
}

type ListInput = { query: QueryOf<Ops["list_runtimes"]> };

export async function listRuntimes(ctx: Context, { query }: ListInput): Promise<OutputOf<Ops["list_runtimes"]>> {
  const page = await list(ctx, "runtime", query);
  const health = await ctx.store
    .select()
    .from(runtimeHealth)
    .where(sql`${runtimeHealth.owner} in (${ctx.principal.workspace}, '_shared')`)
    .all();
  const relays = await relaysOf(
    ctx,
    page.items.map(({ row, owner }) => ({ owner, spec: RuntimeSpec.parse(JSON.parse(row.spec)) })),
  );
  const items = page.items.map(({ row, ...item }, index) => {
    const spec = RuntimeSpec.parse(JSON.parse(row.spec));
    const known = health.find((candidate) => candidate.owner === item.owner && candidate.id === item.id);
    const state: "ok" | "degraded" | "open" | "unknown" =
      known?.state === "ok" || known?.state === "degraded" || known?.state === "open" ? known.state : "unknown";
    return {
      ...item,
      kind: spec.kind,
      capabilities: advertisedCapabilities(spec, known?.nodeOs ?? []),
      health: known ? { state, detail: known.detail, checkedAt: known.checkedAt } : null,
      relay: relays[index] ?? null,
    };
  });
  return { items, nextCursor: page.nextCursor };
}

export async function listHarnesses(ctx: Context, { query }: ListInput): Promise<OutputOf<Ops["list_harnesses"]>> {
  const page = await list(ctx, "harness", query);
  return {
    items: page.items.map(({ row, ...item }) => ({ ...item, kind: HarnessSpec.parse(JSON.parse(row.spec)).kind })),
    nextCursor: page.nextCursor,
  };
}

export async function listDatasets(ctx: Context, { query }: ListInput): Promise<OutputOf<Ops["list_datasets"]>> {
  const page = await list(ctx, "dataset", query);
  return { items: page.items.map(({ row, ...item }) => ({ ...item, cases: row.cases })), nextCursor: page.nextCursor };
}

async function entry<S>(
  ctx: Context,
  kind: RegistryKind,
  params: { id: string; version: string },
  read: (row: Awaited<ReturnType<typeof find>>) => Promise<S> | S,
) {
  const row = await find(ctx.store, kind, ctx.principal.workspace, params.id, params.version);
  const { id, version, owner, createdAt, createdBy, archived, tags } = row;
  return { id, version, owner, createdAt, createdBy, archived, tags, spec: await read(row) };
}

type EntryInput = { params: ParamsOf<Ops["get_runtime"]> };
export async function getRuntime(ctx: Context, { params }: EntryInput): Promise<OutputOf<Ops["get_runtime"]>> {
  const found = await entry(ctx, "runtime", params, (row) => RuntimeSpec.parse(JSON.parse(row.spec)));
  const [relay] = await relaysOf(ctx, [found]);
  return { ...found, relay: relay ?? null };
}
export const getHarness = (ctx: Context, { params }: EntryInput) =>
  entry(ctx, "harness", params, (row) => HarnessSpec.parse(JSON.parse(row.spec)));
export const getDataset = (ctx: Context, { params }: EntryInput) =>
  entry(ctx, "dataset", params, async (row) => {
    const rows = await ctx.store
      .select({ body: datasetCases.body })
      .from(datasetCases)
      .where(
        and(eq(datasetCases.owner, row.owner), eq(datasetCases.dataset, row.id), eq(datasetCases.version, row.version)),
      )
      .orderBy(asc(datasetCases.seq))
      .all();
    return Dataset.parse({ ...JSON.parse(row.spec), cases: rows.map(({ body }) => JSON.parse(body)) });
  });

export async function listDatasetCases(
  ctx: Context,
  { params, query }: { params: ParamsOf<Ops["list_dataset_cases"]>; query: QueryOf<Ops["list_dataset_cases"]> },
) {
  const row = await find(ctx.store, "dataset", ctx.principal.workspace, params.id, params.version);
  const limit = query.limit ?? LIMITS.pageDefault;
  const scope = `cases:${row.owner}:${row.id}:${row.version}`;
  const after = await readCursor(ctx, scope, query.cursor);
  const rows = await ctx.store
    .select({ seq: datasetCases.seq, body: datasetCases.body })
    .from(datasetCases)
    .where(
      and(
        eq(datasetCases.owner, row.owner),
        eq(datasetCases.dataset, row.id),
        eq(datasetCases.version, row.version),
        after ? gt(datasetCases.seq, Number(after[0])) : undefined,
      ),
    )
    .orderBy(asc(datasetCases.seq))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map(({ body }) => EvalCase.parse(JSON.parse(body))),
    nextCursor: rows.length > limit && last ? await writeCursor(ctx, scope, [last.seq]) : null,
  };
}

export const replaceTags =
  (kind: RegistryKind) =>
  async (ctx: Context, { params, body }: { params: { id: string; version: string }; body: { tags: string[] } }) => {
    await setTags(ctx, kind, params.id, params.version, body.tags);
    return { ...params, tags: body.tags };
  };

export const archive =
  (kind: RegistryKind) =>
  async (
    ctx: Context,
    { params, body }: { params: { id: string }; body: { version?: string | undefined; archived: boolean } },
  ) => {
    const archived = await setArchived(ctx, kind, params.id, body.version, body.archived);
    if (kind === "runtime") await pushEnvelope(ctx, params.id);
    return { id: params.id, archived };
  };
