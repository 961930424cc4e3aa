import type { AttemptRef } from "../../contracts/runner-protocol.ts";

/** Rows that no Scheduler has confirmed for this long belong to an object that is gone; they are confirmed every minute. */
const STALE_MS = 3_600_000;

const SCHEMA = [
  `CREATE TABLE IF NOT EXISTS places (object TEXT NOT NULL, run_id TEXT NOT NULL, epoch INTEGER NOT NULL,
    confirmed_at INTEGER NOT NULL, PRIMARY KEY (object, run_id, epoch)) WITHOUT ROWID`,
  "CREATE TABLE IF NOT EXISTS denied (object TEXT PRIMARY KEY) WITHOUT ROWID",
];

/** The workspace's in-flight places as rows: who holds one is known, so nothing can leak unseen. */
export class Places {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    for (const statement of SCHEMA) this.#sql.exec(statement);
  }

  /** Grants places in order until `maxInFlight` are held; idempotent by (run, epoch). Remembers an object it denied. */
  acquire(object: string, maxInFlight: number, refs: AttemptRef[], now: number) {
    return this.#storage.transactionSync(() => {
      this.#sql.exec("DELETE FROM places WHERE confirmed_at < ?", now - STALE_MS);
      const granted: AttemptRef[] = [];
      const denied: AttemptRef[] = [];
      let held = this.held();
      for (const { runId, epoch } of refs) {
        const has = this.#has(object, runId, epoch);
        if (has || held < maxInFlight) granted.push({ runId, epoch });
        else denied.push({ runId, epoch });
        if (has || held >= maxInFlight) continue;
        this.#sql.exec("INSERT INTO places VALUES (?, ?, ?, ?)", object, runId, epoch, now);
        held += 1;
      }
      if (denied.length > 0) this.#sql.exec("INSERT OR IGNORE INTO denied VALUES (?)", object);
      return { granted, denied };
    });
  }

  /** Frees places. @returns objects to be told, each once */
  release(object: string, refs: AttemptRef[]): string[] {
    return this.#storage.transactionSync(() => {
      const before = this.held();
      for (const { runId, epoch } of refs)
        this.#sql.exec("DELETE FROM places WHERE object = ? AND run_id = ? AND epoch = ?", object, runId, epoch);
      return this.held() < before ? this.#takeDenied() : [];
    });
  }

  /** Replaces what one object holds by its live rows. @returns objects to be told, each once */
  reconcile(object: string, live: AttemptRef[], now: number): string[] {
    return this.#storage.transactionSync(() => {
      const before = this.held();
      this.#sql.exec("DELETE FROM places WHERE object = ?", object);
      for (const { runId, epoch } of live)
        this.#sql.exec("INSERT OR IGNORE INTO places VALUES (?, ?, ?, ?)", object, runId, epoch, now);
      return this.held() < before ? this.#takeDenied() : [];
    });
  }

  held(): number {
    return this.#sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM places").one().n;
  }

  #has(object: string, runId: string, epoch: number): boolean {
    const rows = this.#sql.exec(
      "SELECT 1 FROM places WHERE object = ? AND run_id = ? AND epoch = ?",
      object,
      runId,
      epoch,
    );
    return [...rows].length > 0;
  }

  #takeDenied(): string[] {
    const objects = [...this.#sql.exec<{ object: string }>("SELECT object FROM denied")].map((row) => row.object);
    this.#sql.exec("DELETE FROM denied");
    return objects;
  }
}
