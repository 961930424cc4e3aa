/* What the Worker and a run's log say to each other; see rpc.ts for the rules. */

export interface LogChunk {
  epoch: number;
  /** both: as a cluster keeps them, which does not tell them apart. */
  stream: "stdout" | "stderr" | "both";
  /** Byte offset of the chunk in its stream. */
  offset: number;
  bytes: Uint8Array;
  /** Position in the log of this run over all epochs and streams; the SSE id. */
  seq: number;
}

export interface LogRpc {
  /** Overlaps are dropped; a gap answers ok:false with the offset wanted next; `closed`: nothing is taken any more. */
  append(
    epoch: number,
    stream: "stdout" | "stderr",
    offset: number,
    bytes: Uint8Array,
  ): Promise<{ ok: boolean; nextOffset: number; closed?: boolean }>;
  /** Takes nothing more of this attempt and those before it: whoever writes was revoked. */
  close(epoch: number): Promise<void>;
  /**
   * One of those who follow an attempt's log on a cluster takes the next step, for all: whoever holds it, for so long.
   * @returns null while another one holds it; else where to go on
   */
  holdFollow(epoch: number, holder: string, holdMs: number): Promise<{ cursor: string | null; done: boolean } | null>;
  /**
   * Output of the step from one cursor to the next; `done`: it is all.
   * @returns false when another one took the step first: nothing was stored
   */
  follow(epoch: number, from: string | null, to: string, done: boolean, bytes: Uint8Array): Promise<boolean>;
  /** How far an attempt's log on a cluster was followed; null: by nobody. */
  followed(epoch: number): Promise<{ cursor: string; done: boolean } | null>;
  /** Chunks after `seq`, at most ~256 KiB; parks up to waitMs when there are none. */
  read(after: number, waitMs: number): Promise<{ chunks: LogChunk[]; lastSeq: number }>;
  /** Last `tailBytes` of a stream, or of both in order of arrival; epoch null is the latest. `droppedBytes` fell out of the ring. */
  lastOutput(
    epoch: number | null,
    stream: "stdout" | "stderr" | "both",
    tailBytes: number,
  ): Promise<{ text: Uint8Array; epoch: number | null; droppedBytes: number }>;
}
