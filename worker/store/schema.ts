import { sql } from "drizzle-orm";
import { index, integer, primaryKey, real, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";

/* Times are ISO 8601 UTC with milliseconds, which sort as text. JSON columns hold the wire's own shapes. */

export const workspaces = sqliteTable("workspaces", {
  id: text().primaryKey(),
  name: text().notNull(),
  createdAt: text().notNull(),
  weight: real().notNull().default(1),
  maxInFlight: integer(),
  queueDepth: integer().notNull().default(50_000),
  /** Runs it may submit in a calendar month, UTC; null: as many as it likes. */
  runsBudget: integer(),
});

/** Runs that each workspace submitted, by calendar month; counted whether or not there is a budget. */
export const runUsage = sqliteTable(
  "run_usage",
  {
    workspace: text().notNull(),
    /** `2026-11`, UTC. */
    month: text().notNull(),
    used: integer().notNull(),
    /** What was counted last: the rest of its transaction asks for it. */
    lastId: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.workspace, t.month] })],
);

export const members = sqliteTable(
  "members",
  { workspace: text().notNull(), subject: text().notNull(), role: text().notNull(), createdAt: text().notNull() },
  (t) => [primaryKey({ columns: [t.workspace, t.subject] }), index("members_by_subject").on(t.subject)],
);

export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text().primaryKey(),
    workspace: text().notNull(),
    name: text().notNull(),
    hash: text().notNull(),
    scope: text().notNull(),
    role: text().notNull(),
    personal: integer({ mode: "boolean" }).notNull(),
    /** Maker: who a personal key acts as. */
    issuer: text().notNull(),
    subject: text().notNull(),
    createdAt: text().notNull(),
    lastUsedAt: text(),
  },
  (t) => [uniqueIndex("api_keys_by_hash").on(t.hash), index("api_keys_by_workspace").on(t.workspace, t.id)],
);

/** Sessions that were signed out of before they expired. */
export const endedSessions = sqliteTable(
  "ended_sessions",
  { id: text().primaryKey(), expiresAt: text().notNull() },
  (t) => [index("ended_sessions_by_age").on(t.expiresAt)],
);

export const runners = sqliteTable(
  "runners",
  {
    id: text().primaryKey(),
    /** Name of its Scheduler object: runners:user:<hash> or runners:ws:<workspace>. */
    object: text().notNull(),
    owner: text().notNull(),
    label: text().notNull(),
    createdBy: text().notNull(),
    createdAt: text().notNull(),
  },
  (t) => [index("runners_by_object").on(t.object, t.id)],
);

/** Relays by the label that runtimes name; the token's hash is in the relay's own object. */
export const relays = sqliteTable(
  "relays",
  {
    id: text().primaryKey(),
    workspace: text().notNull(),
    label: text().notNull(),
    createdBy: text().notNull(),
    createdAt: text().notNull(),
  },
  (t) => [uniqueIndex("relays_by_label").on(t.workspace, t.label)],
);

export const secrets = sqliteTable(
  "secrets",
  {
    workspace: text().notNull(),
    name: text().notNull(),
    use: text().notNull(),
    hosts: text({ mode: "json" }).notNull().$type<string[]>(),
    keyId: text().notNull(),
    /** Base64 of 12 bytes IV, then AES-256-GCM ciphertext and tag; AAD = workspace/name. */
    sealed: text().notNull(),
    updatedAt: text().notNull(),
    updatedBy: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.workspace, t.name] })],
);

/** Runtimes, harnesses and datasets: one table, one implementation. */
export const registry = sqliteTable(
  "registry",
  {
    kind: text().notNull(),
    owner: text().notNull(),
    id: text().notNull(),
    version: text().notNull(),
    /** The spec in canonical JSON; of a dataset without its cases. */
    spec: text().notNull(),
    /** SHA-256 of the whole spec's canonical JSON. */
    hash: text().notNull(),
    tags: text({ mode: "json" }).notNull().$type<string[]>(),
    archived: integer({ mode: "boolean" }).notNull().default(false),
    /** Of a dataset: false until its last chunk of cases is there. */
    complete: integer({ mode: "boolean" }).notNull().default(true),
    cases: integer().notNull().default(0),
    createdAt: text().notNull(),
    createdBy: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.kind, t.owner, t.id, t.version] })],
);

export const datasetCases = sqliteTable(
  "dataset_cases",
  {
    owner: text().notNull(),
    dataset: text().notNull(),
    version: text().notNull(),
    seq: integer().notNull(),
    caseId: text().notNull(),
    body: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.owner, t.dataset, t.version, t.seq] })],
);

export const scorecards = sqliteTable(
  "scorecards",
  {
    id: text().primaryKey(),
    workspace: text().notNull(),
    status: text().notNull(),
    datasetOwner: text().notNull(),
    datasetId: text().notNull(),
    datasetVersion: text().notNull(),
    harnessOwner: text().notNull(),
    harnessId: text().notNull(),
    harnessVersion: text().notNull(),
    targets: text({ mode: "json" }).notNull().$type<string[]>(),
    /** The request named its targets; else each case goes where its placement says. */
    explicitTargets: integer({ mode: "boolean" }).notNull(),
    concurrency: integer().notNull(),
    retries: integer().notNull(),
    trials: integer().notNull(),
    priority: text().notNull(),
    queueTimeoutSec: integer(),
    /** Who submitted: resolves `self` targets when cases are fed. */
    principal: text({ mode: "json" }).notNull().$type<{ subject: string; person: string | null }>(),
    createdBy: text().notNull(),
    createdAt: text().notNull(),
    finishedAt: text(),
    progress: text({ mode: "json" }).notNull().$type<unknown>(),
    summary: text({ mode: "json" }).$type<unknown>(),
    /** Its object has the plan. */
    acknowledged: integer({ mode: "boolean" }).notNull().default(false),
    /** Set after the last run row: a plan that was cut off is not begun. */
    complete: integer({ mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    index("scorecards_by_workspace").on(t.workspace, t.id),
    index("scorecards_unacknowledged").on(t.acknowledged).where(sql`acknowledged = 0`),
  ],
);

export const runs = sqliteTable(
  "runs",
  {
    id: text().primaryKey(),
    workspace: text().notNull(),
    status: text().notNull(),
    target: text().notNull(),
    /** Scheduler object; null until a scorecard feeds the run. */
    object: text(),
    runtimeId: text(),
    runtimeVersion: text(),
    pinnedVersion: text(),
    harnessOwner: text(),
    harnessId: text().notNull(),
    harnessVersion: text().notNull(),
    /** An anonymous harness. */
    harnessSpec: text(),
    caseId: text().notNull(),
    /** The case of a single run; a scorecard's is in dataset_cases. */
    caseBody: text(),
    trial: integer().notNull(),
    scorecardId: text(),
    /** Position in the scorecard. */
    seq: integer(),
    retries: integer().notNull(),
    queueTimeoutSec: integer(),
    priority: text().notNull(),
    createdBy: text().notNull(),
    createdAt: text().notNull(),
    startedAt: text(),
    finishedAt: text(),
    epoch: integer().notNull().default(0),
    /** What it declares to need, MiB; null: nothing, or not fed yet. */
    memoryMb: integer(),
    result: text(),
    failure: text(),
    failureClass: text(),
    provenance: text(),
    attempts: text().notNull().default("[]"),
    score: real(),
    pass: integer({ mode: "boolean" }),
    /** Replaced in its scorecard by a retry. */
    replaced: integer({ mode: "boolean" }).notNull().default(false),
    /** Its Scheduler has it. */
    acknowledged: integer({ mode: "boolean" }).notNull().default(false),
  },
  (t) => [
    index("runs_by_workspace").on(t.workspace, t.id),
    index("runs_by_scorecard").on(t.scorecardId, t.seq),
    index("runs_unacknowledged")
      .on(t.createdAt)
      .where(sql`acknowledged = 0 and scorecard_id is null and status = 'queued'`),
  ],
);

/** Last output of a run; the live log is in its log object. */
export const runOutput = sqliteTable("run_output", {
  runId: text().primaryKey(),
  epoch: integer().notNull(),
  stdout: text().notNull(),
  stderr: text().notNull(),
});

export const audit = sqliteTable(
  "audit",
  {
    id: text().primaryKey(),
    workspace: text().notNull(),
    at: text().notNull(),
    actor: text().notNull(),
    action: text().notNull(),
    target: text(),
    requestId: text().notNull(),
    detail: text({ mode: "json" }).$type<Record<string, unknown>>(),
  },
  (t) => [index("audit_by_workspace").on(t.workspace, t.id)],
);

/** Answers to requests with an Idempotency-Key, kept for 24 h. */
export const idempotency = sqliteTable(
  "idempotency",
  {
    /** SHA-256 of subject, workspace, operation and key. */
    key: text().primaryKey(),
    bodyHash: text().notNull(),
    /** Ids made for the request derive from it, so that a repeat after a crash makes the same ones. */
    seed: text().notNull(),
    status: integer(),
    answer: text(),
    createdAt: text().notNull(),
  },
  (t) => [index("idempotency_by_age").on(t.createdAt)],
);

/** Objects with live state, for the cron sweep: an alarm is a hint that may be lost. */
export const activeObjects = sqliteTable(
  "active_objects",
  { kind: text().notNull(), name: text().notNull(), since: text().notNull() },
  (t) => [primaryKey({ columns: [t.kind, t.name] })],
);

/** Last probe or dispatch health of a runtime. */
export const runtimeHealth = sqliteTable(
  "runtime_health",
  {
    owner: text().notNull(),
    id: text().notNull(),
    state: text().notNull(),
    detail: text(),
    checkedAt: text().notNull(),
    nodeOs: text({ mode: "json" }).notNull().$type<("windows" | "macos")[]>(),
  },
  (t) => [primaryKey({ columns: [t.owner, t.id] })],
);
