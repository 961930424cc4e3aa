import * as z from "zod";
import { OUTCOME_STREAM_BYTES, type Outcome } from "../../contracts/job.ts";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import { type ApiClient, ApiError } from "../api-client.ts";
import { Backoff, sleep } from "../backoff.ts";
import { Masker } from "../mask.ts";

/** Output is gathered this long before it is sent. */
const FLUSH_MS = 500;
/** Largest chunk of the protocol. */
const CHUNK_BYTES = 1024 * 1024;
/** Unsent bytes of one stream that are kept: both streams together fill what the control plane keeps of a run. The newest win. */
const BUFFER_BYTES = 4 * 1024 * 1024 - CHUNK_BYTES;
const CALL_MS = 30_000;

const Appended = z.object({ nextOffset: z.number().int().min(0) });

export interface LogUploads {
  client: ApiClient;
  flushMs?: number;
}

/**
 * Unsent part of one stream: the chunk that is being sent, then the newest bytes behind it. What falls out between them
 * is told in words: offsets count what is uploaded, so that no gap is left open.
 */
class StreamBuffer {
  readonly stream: "stdout" | "stderr";
  readonly #masker: Masker;
  #chunk: Buffer = Buffer.alloc(0);
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #dropped = 0;
  /** Offset of the first unsent byte in the uploaded stream. */
  base = 0;

  constructor(stream: "stdout" | "stderr", patterns: readonly Buffer[]) {
    this.stream = stream;
    this.#masker = new Masker(patterns);
  }

  get empty(): boolean {
    return this.#chunk.length === 0 && this.#waitingBytes === 0;
  }

  write(bytes: Uint8Array): void {
    this.#add(this.#masker.push(bytes));
  }

  end(): void {
    this.#add(this.#masker.end());
  }

  #add(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    for (let over = this.#waitingBytes - BUFFER_BYTES; over > 0; over = this.#waitingBytes - BUFFER_BYTES) {
      const [oldest] = this.#waiting;
      if (!oldest) return;
      const gone = Math.min(over, oldest.length);
      if (gone === oldest.length) this.#waiting.shift();
      else this.#waiting[0] = oldest.subarray(gone);
      this.#waitingBytes -= gone;
      this.#dropped += gone;
    }
  }

  /** The next chunk, not yet forgotten. */
  peek(): Buffer {
    if (this.#chunk.length > 0 || this.#waitingBytes === 0) return this.#chunk;
    const note = this.#dropped > 0 ? Buffer.from(`\n[${this.#dropped} bytes are missing here]\n`) : Buffer.alloc(0);
    this.#dropped = 0;
    const whole = Buffer.concat([note, ...this.#waiting]);
    this.#chunk = whole.subarray(0, CHUNK_BYTES);
    const rest = whole.subarray(CHUNK_BYTES);
    this.#waiting = rest.length > 0 ? [rest] : [];
    this.#waitingBytes = rest.length;
    return this.#chunk;
  }

  /** The server has everything before this offset. */
  acknowledge(offset: number): void {
    const known = Math.min(Math.max(0, offset - this.base), this.#chunk.length);
    this.#chunk = this.#chunk.subarray(known);
    this.base += known;
  }

  discard(): void {
    this.#chunk = Buffer.alloc(0);
    this.#waiting = [];
    this.#waitingBytes = 0;
  }
}

/** Uploads the output of one attempt: masked, in order, by offset, gathered, in bounded memory. */
export class LogUploader {
  readonly #uploads: LogUploads;
  readonly #ref: AttemptRef;
  readonly #token: string;
  readonly #streams: Record<"stdout" | "stderr", StreamBuffer>;
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> | null = null;
  #sent = false;

  /** @param patterns what must not be shown (maskPatterns) */
  constructor(uploads: LogUploads, ref: AttemptRef, token: string, patterns: readonly Buffer[]) {
    this.#uploads = uploads;
    this.#ref = ref;
    this.#token = token;
    this.#streams = { stdout: new StreamBuffer("stdout", patterns), stderr: new StreamBuffer("stderr", patterns) };
  }

  write(stream: "stdout" | "stderr", bytes: Uint8Array): void {
    this.#streams[stream].write(bytes);
    if (this.#timer === null && this.#running === null) {
      this.#timer = setTimeout(() => this.#begin(), this.#uploads.flushMs ?? FLUSH_MS);
    }
  }

  /**
   * Sends the rest, or nothing at all when the Outcome holds the whole output already.
   * @param maxMs what is not sent by then is given up
   */
  async finish(outcome: Outcome | null, maxMs: number): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    const whole =
      outcome !== null &&
      outcome.truncated === undefined &&
      outcome.stdoutBytes <= OUTCOME_STREAM_BYTES &&
      outcome.stderrBytes <= OUTCOME_STREAM_BYTES;
    if (whole && !this.#sent && this.#running === null) {
      this.#streams.stdout.discard();
      this.#streams.stderr.discard();
      return;
    }
    for (const stream of [this.#streams.stdout, this.#streams.stderr]) stream.end();
    const timer = setTimeout(() => this.#stop.abort(), maxMs);
    await this.#running;
    this.#begin();
    await this.#running;
    clearTimeout(timer);
  }

  #begin(): void {
    this.#timer = null;
    this.#running ??= this.#drain().finally(() => {
      this.#running = null;
    });
  }

  async #drain(): Promise<void> {
    const backoff = new Backoff(500, 15_000);
    const streams = [this.#streams.stdout, this.#streams.stderr];
    while (!this.#stop.signal.aborted) {
      const next = streams.find((stream) => !stream.empty);
      if (!next) return;
      const wait = await this.#send(next, backoff);
      if (wait === null) return;
      await sleep(wait, this.#stop.signal);
    }
  }

  /** @returns ms to wait before the next chunk; null when this log takes nothing more */
  async #send(stream: StreamBuffer, backoff: Backoff): Promise<number | null> {
    this.#sent = true;
    const { runId, epoch } = this.#ref;
    const path = `/runner/attempts/${runId}/${epoch}/log?stream=${stream.stream}&offset=${stream.base}`;
    try {
      const answer = await this.#uploads.client.post(path, {
        token: this.#token,
        body: stream.peek(),
        contentType: "application/octet-stream",
        timeoutMs: CALL_MS,
        signal: this.#stop.signal,
      });
      const appended = Appended.safeParse(answer.json);
      stream.acknowledge(appended.success ? appended.data.nextOffset : stream.base + stream.peek().length);
      backoff.reset();
      return this.#streams.stdout.empty && this.#streams.stderr.empty ? 0 : (this.#uploads.flushMs ?? FLUSH_MS) / 5;
    } catch (error) {
      if (!(error instanceof ApiError) || error.transient) {
        return backoff.next(error instanceof ApiError ? error.retryAfterSec : null);
      }
      return this.#refused(stream, error, backoff);
    }
  }

  /** A 409 says where the server's copy ends; any other refusal ends the upload, the result still carries the tails. */
  #refused(stream: StreamBuffer, error: ApiError, backoff: Backoff): number | null {
    const wanted = Appended.safeParse(error.data);
    if (error.status === 409 && wanted.success) {
      if (wanted.data.nextOffset > stream.base) {
        stream.acknowledge(wanted.data.nextOffset);
        return 0;
      }
      // It lost what it had acknowledged: go on from there, what is gone is gone.
      if (wanted.data.nextOffset < stream.base) {
        stream.base = wanted.data.nextOffset;
        return backoff.next();
      }
    }
    this.#stop.abort();
    return null;
  }
}
