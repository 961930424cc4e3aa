import type { JobFacts } from "../../contracts/job.ts";
import type { GradingSpec, Settlement } from "../../contracts/rpc.ts";
import type { RunDigest } from "../../contracts/scorecard-rpc.ts";
import { type Changes, type EntryRow, loadState } from "./rows.ts";
import type { State } from "./state.ts";

const SCHEMA = [
  "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
  `CREATE TABLE IF NOT EXISTS entries (run_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, demand INTEGER NOT NULL,
    job_hash TEXT NOT NULL, enqueued_at INTEGER NOT NULL, live INTEGER NOT NULL, state TEXT) WITHOUT ROWID`,
  "CREATE INDEX IF NOT EXISTS live_entries ON entries (live) WHERE live = 1",
  "CREATE TABLE IF NOT EXISTS gradings (run_id TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID",
  `CREATE TABLE IF NOT EXISTS stored_jobs (key TEXT PRIMARY KEY, bytes INTEGER NOT NULL, facts TEXT NOT NULL,
    program TEXT NOT NULL)`,
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

/** Parameters that a statement may bind in an object. */
const MAX_BOUND = 100;
/** From so many ids on, one statement deletes them all. */
const BULK = 4;

/** A Job as it is kept: its facts, and its program as the JSON text that goes to the wire. */
export interface StoredJob {
  facts: JobFacts;
  programJson: string;
}

/** What a turn writes besides the rows of the state. */
export interface Writes {
  jobs: { key: string; bytes: number; job: StoredJob }[];
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
    this.#splitJobs();
  }

  /** Objects of the first version kept a job as one document. */
  #splitJobs(): void {
    const old = [...this.#sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'jobs'")];
    if (old.length === 0) return;
    this.#storage.transactionSync(() => {
      this.#sql.exec(`INSERT OR IGNORE INTO stored_jobs
        SELECT key, bytes, json_remove(json, '$.program'), json_quote(json ->> '$.program') FROM jobs`);
      this.#sql.exec("DROP TABLE jobs");
    });
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
      jobs: jobRows(sql.exec("SELECT key, bytes FROM stored_jobs")),
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
    for (const { key, bytes, job } of writes.jobs) {
      const facts = JSON.stringify(job.facts);
      this.#sql.exec("INSERT OR REPLACE INTO stored_jobs VALUES (?, ?, ?, ?)", key, bytes, facts, job.programJson);
    }
    this.#put("gradings", 2, writes.gradings, ({ runId, json }) => [runId, json]);
    this.#put("outbox (run_id, json)", 2, writes.settlements, (ended) => [ended.runId, fitted(ended)], "IGNORE");
  }

  #writeChanges(changes: Changes): void {
    if (changes.meta !== this.#meta) {
      this.writeMeta("core", changes.meta);
      this.#meta = changes.meta;
    }
    this.#put("demands", 2, changes.demands, ({ id, json }) => [id, json]);
    this.#put("tenants", 2, changes.tenants, ({ workspace, json }) => [workspace, json]);
    this.#put("runners", 2, changes.runners, ({ id, json }) => [id, json]);
    this.#put("entries", 7, changes.entries, (row) => [
      row.runId,
      row.seq,
      row.demand,
      row.jobHash,
      row.enqueuedAt,
      row.live,
      row.state,
    ]);
    this.#put("terminals", 3, changes.terminals, ({ runId, endedAt, json }) => [runId, endedAt, json]);
    this.#drop("entries", "run_id", changes.gone);
    this.#drop("gradings", "run_id", changes.gone);
    this.#drop("demands", "id", changes.demandsGone);
    this.#drop("runners", "id", changes.runnersGone);
    this.#drop("terminals", "run_id", changes.terminalsGone);
    this.#drop("stored_jobs", "key", changes.jobsGone);
  }

  /** Writes rows, as many by one statement as it may bind: a statement costs more than a row. */
  #put<T>(
    into: string,
    columns: number,
    rows: readonly T[],
    valuesOf: (row: T) => readonly (string | number | null)[],
    otherwise: "REPLACE" | "IGNORE" = "REPLACE",
  ): void {
    const together = Math.floor(MAX_BOUND / columns);
    const places = `(${Array.from({ length: columns }, () => "?").join(", ")})`;
    const insert = `INSERT OR ${otherwise} INTO ${into} VALUES ${places}`;
    let next = 0;
    if (rows.length >= together) {
      const many = insert + `, ${places}`.repeat(together - 1);
      for (; next + together <= rows.length; next += together)
        this.#sql.exec(many, ...rows.slice(next, next + together).flatMap(valuesOf));
    }
    for (const row of rows.slice(next)) this.#sql.exec(insert, ...valuesOf(row));
  }

  #drop(table: string, key: string, ids: readonly (string | number)[]): void {
    if (ids.length < BULK) for (const id of ids) this.#sql.exec(`DELETE FROM ${table} WHERE ${key} = ?`, id);
    else this.#sql.exec(`DELETE FROM ${table} WHERE ${key} IN (SELECT value FROM json_each(?))`, JSON.stringify(ids));
  }

  /** Live attempts according to the rows. */
  liveRows(): number {
    return this.#sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM entries WHERE live = 1").one().n;
  }

  job(key: string): StoredJob | null {
    const rows = this.#sql.exec<{ facts: string; program: string }>(
      "SELECT facts, program FROM stored_jobs WHERE key = ?",
      key,
    );
    for (const { facts, program } of rows) return { facts: JSON.parse(facts), programJson: program };
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
      this.#drop(
        "outbox",
        "run_id",
        settlements.map(({ runId }) => runId),
      );
      const told = settlements.filter(({ scorecardId }) => scorecardId !== null);
      this.#put("digests", 3, told, (ended) => [ended.runId, ended.scorecardId, JSON.stringify(digestOf(ended))]);
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
    this.#drop("digests", "run_id", runIds);
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
