import { DurableObject } from "cloudflare:workers";
import type { LogRpc } from "../../contracts/log-rpc.ts";
import { Readers } from "./readers.ts";
import { LOG_BYTES, LogRing, type StreamName } from "./ring.ts";

/** How long output is kept after its last byte: longer than a sprint, so that a failure can still be read at its review. */
export const RETENTION_MS = 30 * 24 * 3_600_000;
/** How late the retention alarm may lag behind the last append, so that appends do not each write an alarm. */
const RETENTION_SLACK_MS = 24 * 3_600_000;
const MAX_READ_WAIT_MS = 25_000;
const MAX_EPOCH = 1_000_000;
const MAX_HOLD_MS = 60_000;
const MAX_CURSOR_CHARS = 1_000;

/** The output of one run: a capped ring by epoch and stream with readers that wait. */
export class RunLog extends DurableObject<unknown> implements LogRpc {
  #ring: LogRing;
  readonly #readers = new Readers();
  #armedFor: number | null = null;
  /** The newest attempt whose writer was revoked. */
  #closed = 0;
  /** Who takes the next step of following, by attempt. In memory: at worst two try, and one of them is refused. */
  readonly #holders = new Map<number, { holder: string; until: number }>();

  constructor(ctx: DurableObjectState, env: unknown) {
    super(ctx, env);
    this.#ring = new LogRing(ctx.storage.sql);
    ctx.blockConcurrencyWhile(async () => {
      this.#armedFor = await ctx.storage.getAlarm();
      this.#closed = (await ctx.storage.get<number>("closed")) ?? 0;
    });
  }

  async append(epoch: number, stream: StreamName, offset: number, bytes: Uint8Array): ReturnType<LogRpc["append"]> {
    if (!isWhole(epoch, 1, MAX_EPOCH) || !isWhole(offset, 0, Number.MAX_SAFE_INTEGER)) {
      return { ok: false, nextOffset: 0 };
    }
    if (epoch <= this.#closed) return { ok: false, nextOffset: 0, closed: true };
    const before = this.#ring.head;
    const answer = this.ctx.storage.transactionSync(() => this.#ring.append(epoch, stream, offset, bytes));
    if (this.#ring.head !== before) {
      await this.#keep();
      this.#readers.wake();
    }
    return answer;
  }

  async close(epoch: number): Promise<void> {
    if (!isWhole(epoch, 1, MAX_EPOCH) || epoch <= this.#closed) return;
    this.#closed = epoch;
    await this.ctx.storage.put("closed", epoch);
    await this.#keep();
  }

  async holdFollow(epoch: number, holder: string, holdMs: number): ReturnType<LogRpc["holdFollow"]> {
    const now = Date.now();
    const held = this.#holders.get(epoch);
    if (held && held.holder !== holder && held.until > now) return null;
    this.#holders.set(epoch, { holder, until: now + Math.min(Math.max(0, holdMs), MAX_HOLD_MS) });
    return this.#ring.followed(epoch) ?? { cursor: null, done: false };
  }

  async follow(...step: Parameters<LogRpc["follow"]>): Promise<boolean> {
    const [epoch, , to] = step;
    if (!isWhole(epoch, 1, MAX_EPOCH) || to.length > MAX_CURSOR_CHARS) return false;
    const taken = this.ctx.storage.transactionSync(() => this.#ring.follow(...step));
    if (taken) {
      await this.#keep();
      this.#readers.wake();
    }
    return taken;
  }

  async followed(epoch: number): ReturnType<LogRpc["followed"]> {
    return this.#ring.followed(epoch);
  }

  async read(after: number, waitMs: number): ReturnType<LogRpc["read"]> {
    // A log that was deleted starts again at 1; a reader from before it must not wait for numbers that never come.
    const from = Math.min(Math.max(0, after), this.#ring.head);
    let chunks = this.#ring.after(from);
    if (chunks.length === 0 && waitMs > 0) {
      await this.#readers.park(Math.min(waitMs, MAX_READ_WAIT_MS));
      chunks = this.#ring.after(from);
    }
    return { chunks, lastSeq: chunks.at(-1)?.seq ?? from };
  }

  async lastOutput(epoch: number | null, stream: StreamName, tailBytes: number): ReturnType<LogRpc["lastOutput"]> {
    return this.#ring.tail(epoch, stream, Math.min(Math.max(0, Math.floor(tailBytes)), LOG_BYTES));
  }

  override async alarm(): Promise<void> {
    const due = (await this.ctx.storage.get<number>("lastAppendAt")) ?? 0;
    if (Date.now() - due < RETENTION_MS) {
      this.#armedFor = null;
      await this.#arm(due + RETENTION_MS + RETENTION_SLACK_MS);
      return;
    }
    await this.ctx.storage.deleteAll();
    this.#armedFor = null;
    this.#ring = new LogRing(this.ctx.storage.sql);
  }

  async #keep(): Promise<void> {
    const now = Date.now();
    this.ctx.storage.kv.put("lastAppendAt", now);
    const due = now + RETENTION_MS;
    if (this.#armedFor === null || this.#armedFor < due) await this.#arm(due + RETENTION_SLACK_MS);
  }

  async #arm(at: number): Promise<void> {
    this.#armedFor = at;
    await this.ctx.storage.setAlarm(at);
  }
}

function isWhole(value: number, min: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= min && value <= max;
}
