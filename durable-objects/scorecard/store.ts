import { FAILURE_CLASSES, type FailureClass } from "../../contracts/run.ts";
import type { ScorecardEnd, ScorecardLive } from "../../contracts/scorecard-rpc.ts";
import { emptyState, type RunState, restoreRun, type ScorecardRun, type ScorecardState, targetOf } from "./state.ts";

/** Rows in one statement: about 400 kB of JSON, below the 2 MB an SQL value may have. */
const ROWS_PER_WRITE = 2_000;

/** All of a scorecard that is not a run; small, and written with every change. */
interface Meta {
  id: string;
  workspace: string;
  concurrency: number;
  status: ScorecardLive["status"];
  cancelRequested: boolean;
  end: ScorecardEnd | null;
  markedActive: boolean;
  head: number;
  progressSeq: number;
  endSeq: number;
  targets: { name: string; offered: boolean; completed: number; busyMs: number; infraInRow: number; infraAt: number }[];
}

interface Row extends Record<string, SqlStorageValue> {
  ordinal: number;
  run_id: string;
  case_id: string;
  trial: number;
  state: string;
  target: string | null;
  cancel: string;
  replaced: number;
  score: number | null;
  pass: number | null;
  duration_ms: number | null;
  failure_class: string | null;
  failure_code: string | null;
  seq: number;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS runs (
    ordinal INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    case_id TEXT NOT NULL,
    trial INTEGER NOT NULL,
    state TEXT NOT NULL,
    target TEXT,
    cancel TEXT NOT NULL,
    replaced INTEGER NOT NULL,
    score REAL,
    pass INTEGER,
    duration_ms INTEGER,
    failure_class TEXT,
    failure_code TEXT,
    seq INTEGER NOT NULL
  )`;

const UPSERT = `
  INSERT INTO runs
  SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
         value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13
  FROM json_each(?) WHERE true
  ON CONFLICT (ordinal) DO UPDATE SET
    state = excluded.state, target = excluded.target, cancel = excluded.cancel, replaced = excluded.replaced,
    score = excluded.score, pass = excluded.pass, duration_ms = excluded.duration_ms,
    failure_class = excluded.failure_class, failure_code = excluded.failure_code, seq = excluded.seq`;

/** The rows of one scorecard: one per run, and one value for the rest. */
export class ScorecardStore {
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    storage.sql.exec(SCHEMA);
  }

  /** Stores what changed, all or nothing, and forgets that it had. */
  save(state: ScorecardState): void {
    this.#storage.transactionSync(() => {
      let rows: unknown[] = [];
      const flush = (): void => {
        if (rows.length > 0) this.#storage.sql.exec(UPSERT, JSON.stringify(rows));
        rows = [];
      };
      for (const run of state.changed) {
        rows.push(rowOf(run));
        if (rows.length === ROWS_PER_WRITE) flush();
      }
      flush();
      this.#storage.kv.put("scorecard", metaOf(state));
    });
    state.changed.clear();
  }

  /**
   * The state as it was stored. A feed that was out may have been carried out, and says so.
   * @param now epoch milliseconds, from which busy time counts
   */
  load(now: number): ScorecardState {
    const state = emptyState();
    const meta = this.#storage.kv.get<Meta>("scorecard");
    if (!meta) return state;
    const { targets, ...rest } = meta;
    Object.assign(state, rest);
    for (const { name, ...record } of targets) Object.assign(targetOf(state, name, now), record);
    for (const row of this.#storage.sql.exec<Row>("SELECT * FROM runs ORDER BY ordinal")) {
      restoreRun(state, runOf(row), now);
    }
    state.recentFrom = state.head;
    return state;
  }
}

function metaOf(state: ScorecardState): Meta {
  const { id, workspace, concurrency, status, cancelRequested, end, markedActive, head, progressSeq, endSeq } = state;
  const targets = [...state.targets.values()].map(({ name, offered, completed, busyMs, infraInRow, infraAt }) => ({
    name,
    offered,
    completed,
    busyMs,
    infraInRow,
    infraAt,
  }));
  return { id, workspace, concurrency, status, cancelRequested, end, markedActive, head, progressSeq, endSeq, targets };
}

function rowOf(run: ScorecardRun): unknown[] {
  return [
    run.ordinal,
    run.runId,
    run.caseId,
    run.trial,
    run.state,
    run.target,
    run.cancel,
    run.replaced ? 1 : 0,
    run.score,
    run.pass === null ? null : run.pass ? 1 : 0,
    run.durationMs,
    run.failureClass,
    run.failureCode,
    run.seq,
  ];
}

function runOf(row: Row): ScorecardRun {
  const state = stateOf(row.state);
  return {
    ordinal: row.ordinal,
    runId: row.run_id,
    caseId: row.case_id,
    trial: row.trial,
    state,
    target: row.target,
    perhapsFed: state === "feeding",
    cancel: row.cancel === "wanted" || row.cancel === "told" ? row.cancel : "no",
    replaced: row.replaced === 1,
    score: row.score,
    pass: row.pass === null ? null : row.pass === 1,
    durationMs: row.duration_ms,
    failureClass: classOf(row.failure_class),
    failureCode: row.failure_code,
    seq: row.seq,
  };
}

const STATES: readonly RunState[] = ["queued", "feeding", "fed", "running", "succeeded", "failed", "cancelled"];

function stateOf(text: string): RunState {
  const state = STATES.find((known) => known === text);
  if (!state) throw new Error(`a stored run has the unknown state '${text}'`);
  return state;
}

const classOf = (text: string | null): FailureClass | null => FAILURE_CLASSES.find((known) => known === text) ?? null;
