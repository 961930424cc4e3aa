import type { LogChunk } from "../../contracts/log-rpc.ts";

/** Bytes of output kept for one run over all epochs and streams: a day of a chatty agent's tail, far below the 10 GB of an object. */
export const LOG_BYTES = 8 * 1024 * 1024;
/** Chunks kept, so that a writer of single bytes cannot make 8 MiB into millions of rows. */
export const LOG_CHUNKS = 40_000;
/** A stored chunk; small enough that an answer of READ_BYTES holds several, and that dropping the oldest drops little. */
export const CHUNK_BYTES = 32 * 1024;
/** Largest answer of one read. */
export const READ_BYTES = 256 * 1024;
/** Attempts whose streams are tracked; the oldest one's chunks and counters go first. */
export const LOG_EPOCHS = 200;

export type StreamName = LogChunk["stream"];
type Selection = StreamName;

interface ChunkRow extends Record<string, SqlStorageValue> {
  seq: number;
  epoch: number;
  stream: string;
  offset: number;
  bytes: ArrayBuffer;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS chunks (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch INTEGER NOT NULL,
    stream TEXT NOT NULL,
    offset INTEGER NOT NULL,
    size INTEGER NOT NULL,
    bytes BLOB NOT NULL
  );
  CREATE TABLE IF NOT EXISTS streams (
    epoch INTEGER NOT NULL,
    stream TEXT NOT NULL,
    next_offset INTEGER NOT NULL,
    dropped_bytes INTEGER NOT NULL,
    PRIMARY KEY (epoch, stream)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS follows (
    epoch INTEGER PRIMARY KEY,
    cursor TEXT NOT NULL,
    done INTEGER NOT NULL
  ) WITHOUT ROWID;
`;

/** The output of one run as a ring in SQLite: by epoch and stream, capped over all of them, oldest chunks first out. */
export class LogRing {
  readonly #sql: SqlStorage;
  #keptBytes: number;
  #keptChunks: number;
  #head: number;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    sql.exec(SCHEMA);
    const kept = sql
      .exec<{ bytes: number; chunks: number }>("SELECT coalesce(sum(size), 0) AS bytes, count(*) AS chunks FROM chunks")
      .one();
    this.#keptBytes = kept.bytes;
    this.#keptChunks = kept.chunks;
    this.#head = sql
      .exec<{ seq: number }>("SELECT coalesce(max(seq), 0) AS seq FROM sqlite_sequence WHERE name = 'chunks'")
      .one().seq;
  }

  /** Sequence number of the newest chunk ever written; 0 when there was none. */
  get head(): number {
    return this.#head;
  }

  /**
   * Adds what is new of `bytes`. What lies before the stream's end was stored already and is dropped; a gap stores
   * nothing.
   * @param offset byte offset of `bytes` in its stream
   * @returns the offset wanted next, and whether `bytes` joined the stream
   */
  append(epoch: number, stream: StreamName, offset: number, bytes: Uint8Array): { ok: boolean; nextOffset: number } {
    const end = this.#nextOffset(epoch, stream);
    if (offset > end) return { ok: false, nextOffset: end };
    const fresh = bytes.subarray(Math.min(end - offset, bytes.byteLength));
    for (let from = 0; from < fresh.byteLength; from += CHUNK_BYTES) {
      this.#insert(epoch, stream, end + from, fresh.subarray(from, from + CHUNK_BYTES));
    }
    const nextOffset = end + fresh.byteLength;
    if (fresh.byteLength > 0) {
      this.#sql.exec(
        `INSERT INTO streams (epoch, stream, next_offset, dropped_bytes) VALUES (?1, ?2, ?3, 0)
         ON CONFLICT (epoch, stream) DO UPDATE SET next_offset = ?3`,
        epoch,
        stream,
        nextOffset,
      );
      this.#shrink();
      this.#forgetOldEpochs();
    }
    return { ok: true, nextOffset };
  }

  /** How far an attempt's log on a cluster was followed. */
  followed(epoch: number): { cursor: string; done: boolean } | null {
    const row = this.#sql
      .exec<{ cursor: string; done: number }>("SELECT cursor, done FROM follows WHERE epoch = ?", epoch)
      .toArray()[0];
    return row ? { cursor: row.cursor, done: row.done === 1 } : null;
  }

  /** Adds the output of a step and moves its cursor. @returns false when the step was taken already */
  follow(epoch: number, from: string | null, to: string, done: boolean, bytes: Uint8Array): boolean {
    if ((this.followed(epoch)?.cursor ?? null) !== from) return false;
    this.append(epoch, "both", this.#nextOffset(epoch, "both"), bytes);
    this.#sql.exec("INSERT OR REPLACE INTO follows (epoch, cursor, done) VALUES (?, ?, ?)", epoch, to, done ? 1 : 0);
    return true;
  }

  /** Chunks after `seq` in order of arrival, up to READ_BYTES but at least one. */
  after(seq: number): LogChunk[] {
    const chunks: LogChunk[] = [];
    let size = 0;
    for (const row of this.#sql.exec<ChunkRow>(
      "SELECT seq, epoch, stream, offset, bytes FROM chunks WHERE seq > ? ORDER BY seq",
      seq,
    )) {
      size += row.bytes.byteLength;
      if (size > READ_BYTES && chunks.length > 0) break;
      chunks.push(chunkOf(row));
    }
    return chunks;
  }

  /**
   * The last `tailBytes` of one attempt's output.
   * @param epoch null is the newest one with output
   * @returns bytes, which may begin inside a character; `epoch` null when there is no output; `droppedBytes` fell out of the ring
   */
  tail(
    epoch: number | null,
    stream: Selection,
    tailBytes: number,
  ): { text: Uint8Array; epoch: number | null; droppedBytes: number } {
    const wanted = epoch ?? this.#newestEpoch(stream);
    if (wanted === null) return { text: new Uint8Array(0), epoch: null, droppedBytes: 0 };
    const parts: Uint8Array[] = [];
    let room = tailBytes;
    for (const row of this.#sql.exec<ChunkRow>(
      `SELECT seq, epoch, stream, offset, bytes FROM chunks
       WHERE epoch = ?1 AND (?2 = 'both' OR stream = ?2) ORDER BY seq DESC`,
      wanted,
      stream,
    )) {
      if (room <= 0) break;
      const bytes = new Uint8Array(row.bytes);
      const part = bytes.subarray(Math.max(0, bytes.byteLength - room));
      parts.push(part);
      room -= part.byteLength;
    }
    const droppedBytes = this.#sql
      .exec<{ dropped: number }>(
        `SELECT coalesce(sum(dropped_bytes), 0) AS dropped FROM streams
         WHERE epoch = ?1 AND (?2 = 'both' OR stream = ?2)`,
        wanted,
        stream,
      )
      .one().dropped;
    return { text: joined(parts.reverse()), epoch: wanted, droppedBytes };
  }

  #nextOffset(epoch: number, stream: StreamName): number {
    const row = this.#sql
      .exec<{ next: number }>("SELECT next_offset AS next FROM streams WHERE epoch = ? AND stream = ?", epoch, stream)
      .toArray()[0];
    return row?.next ?? 0;
  }

  #newestEpoch(stream: Selection): number | null {
    return this.#sql
      .exec<{ epoch: number | null }>(
        "SELECT max(epoch) AS epoch FROM streams WHERE ?1 = 'both' OR stream = ?1",
        stream,
      )
      .one().epoch;
  }

  #insert(epoch: number, stream: StreamName, offset: number, bytes: Uint8Array): void {
    this.#head = this.#sql
      .exec<{ seq: number }>(
        "INSERT INTO chunks (epoch, stream, offset, size, bytes) VALUES (?, ?, ?, ?, ?) RETURNING seq",
        epoch,
        stream,
        offset,
        bytes.byteLength,
        bytes.slice().buffer,
      )
      .one().seq;
    this.#keptBytes += bytes.byteLength;
    this.#keptChunks += 1;
  }

  #shrink(): void {
    while (this.#keptBytes > LOG_BYTES || this.#keptChunks > LOG_CHUNKS) {
      const oldest = this.#sql
        .exec<{ seq: number; epoch: number; stream: string; size: number }>(
          "DELETE FROM chunks WHERE seq = (SELECT min(seq) FROM chunks) RETURNING seq, epoch, stream, size",
        )
        .toArray()[0];
      if (!oldest) return;
      this.#keptBytes -= oldest.size;
      this.#keptChunks -= 1;
      this.#sql.exec(
        "UPDATE streams SET dropped_bytes = dropped_bytes + ? WHERE epoch = ? AND stream = ?",
        oldest.size,
        oldest.epoch,
        oldest.stream,
      );
    }
  }

  #forgetOldEpochs(): void {
    const limit = this.#sql
      .exec<{ epoch: number }>("SELECT DISTINCT epoch FROM streams ORDER BY epoch DESC LIMIT 1 OFFSET ?", LOG_EPOCHS)
      .toArray()[0];
    if (!limit) return;
    const gone = this.#sql
      .exec<{ size: number }>("DELETE FROM chunks WHERE epoch <= ? RETURNING size", limit.epoch)
      .toArray();
    for (const { size } of gone) this.#keptBytes -= size;
    this.#keptChunks -= gone.length;
    this.#sql.exec("DELETE FROM streams WHERE epoch <= ?", limit.epoch);
    this.#sql.exec("DELETE FROM follows WHERE epoch <= ?", limit.epoch);
  }
}

function chunkOf(row: ChunkRow): LogChunk {
  return {
    seq: row.seq,
    epoch: row.epoch,
    stream: row.stream === "stderr" || row.stream === "both" ? row.stream : "stdout",
    offset: row.offset,
    bytes: new Uint8Array(row.bytes),
  };
}

function joined(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  return whole;
}
