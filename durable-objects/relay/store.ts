import * as z from "zod";
import type { RelayRecord, RelayState } from "../../contracts/relay.ts";
import { RelayHello } from "../../contracts/relay-protocol.ts";

type LastError = RelayState["lastError"];

const Row = z.object({
  id: z.string(),
  label: z.string(),
  workspace: z.string(),
  tokenHash: z.string(),
  generation: z.number(),
  lastSeenAt: z.number().nullable(),
});
export type RelayRow = z.infer<typeof Row>;

/** One that is not told tries by itself, every 30 s. */
const MAX_AWAITED = 256;

/** What of a relay outlives its object's sleep: who it is, and when it was last seen. No credential of a cluster. */
export class RelayStore {
  readonly #kv: SyncKvStorage;
  #row: RelayRow | null;

  constructor(kv: SyncKvStorage) {
    this.#kv = kv;
    const parsed = Row.safeParse(kv.get("relay"));
    this.#row = parsed.success ? parsed.data : null;
  }

  get row(): RelayRow | null {
    return this.#row;
  }

  /** Pairs, or pairs anew with another token. */
  pair(relay: RelayRecord): void {
    const old = this.#row;
    this.#write({
      ...relay,
      generation: old?.generation ?? 0,
      lastSeenAt: old?.lastSeenAt ?? null,
    });
  }

  /** Number of a new connection. */
  nextGeneration(row: RelayRow): number {
    const generation = row.generation + 1;
    this.#write({ ...row, generation });
    return generation;
  }

  /** When it was heard of last. */
  seen(at: number): void {
    if (this.#row && at > (this.#row.lastSeenAt ?? 0)) this.#write({ ...this.#row, lastSeenAt: at });
  }

  greeted(hello: RelayHello, at: number): void {
    this.#kv.put("hello", hello);
    this.seen(at);
  }

  /** What the newest connection greeted with. */
  get hello(): RelayHello | null {
    const parsed = RelayHello.safeParse(this.#kv.get("hello"));
    return parsed.success ? parsed.data : null;
  }

  /** Schedulers that are to be told when it is back. */
  get awaitedBy(): string[] {
    const parsed = z.array(z.string()).safeParse(this.#kv.get("awaitedBy"));
    return parsed.success ? parsed.data : [];
  }

  noteAwaited(object: string): void {
    const known = this.awaitedBy;
    if (this.#row !== null && known.length < MAX_AWAITED && !known.includes(object))
      this.#kv.put("awaitedBy", [...known, object]);
  }

  forgetAwaited(): void {
    this.#kv.delete("awaitedBy");
  }

  noteError(error: NonNullable<LastError>): void {
    this.#kv.put("lastError", error);
  }

  get lastError(): LastError {
    return this.#kv.get<NonNullable<LastError>>("lastError") ?? null;
  }

  forget(): void {
    this.#row = null;
  }

  #write(row: RelayRow): void {
    this.#row = row;
    this.#kv.put("relay", row);
  }
}
