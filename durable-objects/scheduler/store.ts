import type { JobTemplate } from "../../contracts/job.ts";
import type { GradingSpec, RunDigest, Settlement } from "../../contracts/rpc.ts";
import { type Changes, type EntryRow, loadState } from "./rows.ts";
import type { State } from "./state.ts";

const SCHEMA = [
  "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
  `CREATE TABLE IF NOT EXISTS entries (run_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, demand INTEGER NOT NULL,
    job_hash TEXT NOT NULL, enqueued_at INTEGER NOT NULL, live INTEGER NOT NULL, state TEXT) WITHOUT ROWID`,
  "CREATE INDEX IF NOT EXISTS live_entries ON entries (live) WHERE live = 1",
  "CREATE TABLE IF NOT EXISTS gradings (run_id TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID",
  "CREATE TABLE IF NOT EXISTS jobs (key TEXT PRIMARY KEY, bytes INTEGER NOT NULL, json TEXT NOT NULL)",
  "CREATE TABLE IF NOT EXISTS demands (id INTEGER PRIMARY KEY, json TEXT NOT NULL)",
  "CREATE TABLE IF NOT EXISTS tenants (workspace TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID",
  "CREATE TABLE IF NOT EXISTS runners (id TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID",
  "CREATE TABLE IF NOT EXISTS terminals (run_id TEXT PRIMARY KEY, ended_at INTEGER NOT NULL, json TEXT NOT NULL) WITHOUT ROWID",
  "CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL UNIQUE, json TEXT NOT NULL)",
  "CREATE TABLE IF NOT EXISTS digests (run_id TEXT PRIMARY KEY, scorecard_id TEXT NOT NULL, json TEXT NOT NULL) WITHOUT ROWID",
];

/** A row of SQLite in an object holds 2 MB; what a settlement may take of it, in UTF-16 units of JSON. */
const MAX_SETTLEMENT_CHARS = 1_800_000;
const MAX_STREAM_CHARS = 65_536;
/** Largest batch of settlements in one call: an RPC message holds 32 MiB. */
const BATCH_CHARS = 8_000_000;

/** What a turn writes besides the rows of the state. */
export interface Writes {
  jobs: { key: string; bytes: number; json: string }[];
  gradings: { runId: string; json: string }[];
  settlements: Settlement[];
}

/** The object's SQLite storage; every method is synchronous. */
export class Store {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  #meta = "";

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    for (const statement of SCHEMA) this.#sql.exec(statement);
  }

  readMeta(key: string): string | null {
    for (const row of this.#sql.exec<{ value: string }>("SELECT value FROM meta WHERE key = ?", key)) return row.value;
    return null;
  }

  writeMeta(key: string, value: string): void {
    this.#sql.exec("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value);
  }

  /** Loads the state of an object that has a name. */
  load(object: string, objectHash: string): State {
    const sql = this.#sql;
    return loadState({
      object,
      objectHash,
      meta: this.readMeta("core"),
      demands: column(sql.exec("SELECT json FROM demands")),
      tenants: column(sql.exec("SELECT json FROM tenants")),
      runners: column(sql.exec("SELECT json FROM runners")),
      terminals: column(sql.exec("SELECT json FROM terminals ORDER BY ended_at")),
      jobs: jobRows(sql.exec("SELECT key, bytes FROM jobs")),
      entries: entryRows(
        sql.exec("SELECT run_id, seq, demand, job_hash, enqueued_at, live, state FROM entries ORDER BY seq"),
      ),
    });
  }

  /** Writes one turn in one transaction: all of it becomes durable, or nothing. */
  write(changes: Changes, writes: Writes): void {
    this.#storage.transactionSync(() => {
      this.#writeStored(writes);
      this.#writeChanges(changes);
    });
  }

  #writeStored(writes: Writes): void {
    const sql = this.#sql;
    for (const job of writes.jobs)
      sql.exec("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?)", job.key, job.bytes, job.json);
    for (const grading of writes.gradings)
      sql.exec("INSERT OR REPLACE INTO gradings VALUES (?, ?)", grading.runId, grading.json);
    for (const settlement of writes.settlements)
      sql.exec("INSERT OR IGNORE INTO outbox (run_id, json) VALUES (?, ?)", settlement.runId, fitted(settlement));
  }

  #writeChanges(changes: Changes): void {
    const sql = this.#sql;
    if (changes.meta !== this.#meta) {
      this.writeMeta("core", changes.meta);
      this.#meta = changes.meta;
    }
    for (const row of changes.demands) sql.exec("INSERT OR REPLACE INTO demands VALUES (?, ?)", row.id, row.json);
    for (const row of changes.tenants)
      sql.exec("INSERT OR REPLACE INTO tenants VALUES (?, ?)", row.workspace, row.json);
    for (const row of changes.runners) sql.exec("INSERT OR REPLACE INTO runners VALUES (?, ?)", row.id, row.json);
    for (const row of changes.entries)
      sql.exec(
        "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)",
        row.runId,
        row.seq,
        row.demand,
        row.jobHash,
        row.enqueuedAt,
        row.live,
        row.state,
      );
    for (const row of changes.terminals)
      sql.exec("INSERT OR REPLACE INTO terminals VALUES (?, ?, ?)", row.runId, row.endedAt, row.json);
    for (const runId of changes.gone) {
      sql.exec("DELETE FROM entries WHERE run_id = ?", runId);
      sql.exec("DELETE FROM gradings WHERE run_id = ?", runId);
    }
    for (const id of changes.demandsGone) sql.exec("DELETE FROM demands WHERE id = ?", id);
    for (const id of changes.runnersGone) sql.exec("DELETE FROM runners WHERE id = ?", id);
    for (const runId of changes.terminalsGone) sql.exec("DELETE FROM terminals WHERE run_id = ?", runId);
    for (const key of changes.jobsGone) sql.exec("DELETE FROM jobs WHERE key = ?", key);
  }

  /** Live attempts according to the rows. */
  liveRows(): number {
    return this.#sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM entries WHERE live = 1").one().n;
  }

  job(key: string): JobTemplate | null {
    for (const row of this.#sql.exec<{ json: string }>("SELECT json FROM jobs WHERE key = ?", key))
      return JSON.parse(row.json);
    return null;
  }

  grading(runId: string): GradingSpec {
    for (const row of this.#sql.exec<{ json: string }>("SELECT json FROM gradings WHERE run_id = ?", runId))
      return JSON.parse(row.json);
    return {};
  }

  /** A settlement that D1 does not have yet. */
  settlement(runId: string): Settlement | null {
    for (const row of this.#sql.exec<{ json: string }>("SELECT json FROM outbox WHERE run_id = ?", runId))
      return JSON.parse(row.json);
    return null;
  }

  /** The oldest settlements of the outbox, as many as one call may carry. */
  outbox(limit: number): Settlement[] {
    const batch: Settlement[] = [];
    let chars = 0;
    for (const row of this.#sql.exec<{ json: string }>("SELECT json FROM outbox ORDER BY seq LIMIT ?", limit)) {
      chars += row.json.length;
      if (batch.length > 0 && chars > BATCH_CHARS) break;
      batch.push(JSON.parse(row.json));
    }
    return batch;
  }

  outboxSize(): number {
    return this.#sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM outbox").one().n;
  }

  /** Takes settlements that D1 has out of the outbox; those of a scorecard go on to it. */
  markStored(settlements: Settlement[], digestOf: (settlement: Settlement) => RunDigest): void {
    this.#storage.transactionSync(() => {
      for (const settlement of settlements) {
        this.#sql.exec("DELETE FROM outbox WHERE run_id = ?", settlement.runId);
        if (settlement.scorecardId === null) continue;
        const digest = JSON.stringify(digestOf(settlement));
        this.#sql.exec(
          "INSERT OR REPLACE INTO digests VALUES (?, ?, ?)",
          settlement.runId,
          settlement.scorecardId,
          digest,
        );
      }
    });
  }

  /** Digests that their scorecard was not told yet. */
  digests(limit: number): { scorecardId: string; digest: RunDigest }[] {
    const rows = this.#sql.exec<{ scorecard_id: string; json: string }>(
      "SELECT scorecard_id, json FROM digests LIMIT ?",
      limit,
    );
    return [...rows].map((row) => ({ scorecardId: row.scorecard_id, digest: JSON.parse(row.json) }));
  }

  deleteDigests(runIds: string[]): void {
    this.#storage.transactionSync(() => {
      for (const runId of runIds) this.#sql.exec("DELETE FROM digests WHERE run_id = ?", runId);
    });
  }
}

/** The JSON of a settlement, its output cut when it would not fit a row. */
function fitted(settlement: Settlement): string {
  const json = JSON.stringify(settlement);
  if (json.length <= MAX_SETTLEMENT_CHARS / 3) return json;
  const stdout = settlement.stdout.slice(-MAX_STREAM_CHARS);
  const stderr = settlement.stderr.slice(-MAX_STREAM_CHARS);
  return JSON.stringify({ ...settlement, stdout, stderr });
}

function* column(rows: Iterable<Record<string, SqlStorageValue>>): Generator<string> {
  for (const row of rows) if (typeof row.json === "string") yield row.json;
}

function* jobRows(rows: Iterable<Record<string, SqlStorageValue>>): Generator<{ key: string; bytes: number }> {
  for (const row of rows) yield { key: String(row.key), bytes: Number(row.bytes) };
}

function* entryRows(rows: Iterable<Record<string, SqlStorageValue>>): Generator<EntryRow> {
  for (const row of rows)
    yield {
      runId: String(row.run_id),
      seq: Number(row.seq),
      demand: Number(row.demand),
      jobHash: String(row.job_hash),
      enqueuedAt: Number(row.enqueued_at),
      live: row.live === 1 ? 1 : 0,
      state: typeof row.state === "string" ? row.state : null,
    };
}
