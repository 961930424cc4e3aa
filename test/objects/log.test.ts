import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { RunLog } from "../../durable-objects/log/object.ts";
import { LOG_BYTES, READ_BYTES } from "../../durable-objects/log/ring.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (data: Uint8Array): string => new TextDecoder().decode(data);
let minted = 0;
function freshLog(): DurableObjectStub<RunLog> {
  minted += 1;
  return env.RUN_LOG.getByName(`run_${minted}`);
}
const tail = async (log: DurableObjectStub<RunLog>, ...args: Parameters<RunLog["lastOutput"]>) =>
  log.lastOutput(...args);

describe("append", () => {
  it("joins what follows, drops what it has, and names the offset it wants at a gap", async () => {
    const log = freshLog();
    expect(await log.append(1, "stdout", 0, bytes("hello "))).toEqual({ ok: true, nextOffset: 6 });
    expect(await log.append(1, "stdout", 3, bytes("lo world"))).toEqual({ ok: true, nextOffset: 11 });
    expect(await log.append(1, "stdout", 0, bytes("hello world"))).toEqual({ ok: true, nextOffset: 11 });
    expect(await log.append(1, "stdout", 12, bytes("!"))).toEqual({ ok: false, nextOffset: 11 });
    expect(text((await tail(log, 1, "stdout", 100)).text)).toBe("hello world");
  });

  it("counts every epoch and stream for itself", async () => {
    const log = freshLog();
    await log.append(1, "stdout", 0, bytes("first"));
    expect(await log.append(1, "stderr", 0, bytes("warn"))).toEqual({ ok: true, nextOffset: 4 });
    expect(await log.append(2, "stdout", 0, bytes("second"))).toEqual({ ok: true, nextOffset: 6 });
    expect(text((await tail(log, 1, "both", 100)).text)).toBe("firstwarn");
    expect(await tail(log, null, "stdout", 3)).toEqual({ text: bytes("ond"), epoch: 2, droppedBytes: 0 });
  });

  it("refuses an epoch or an offset that is none", async () => {
    const log = freshLog();
    expect(await log.append(0, "stdout", 0, bytes("x"))).toEqual({ ok: false, nextOffset: 0 });
    expect(await log.append(1, "stdout", -1, bytes("x"))).toEqual({ ok: false, nextOffset: 0 });
    expect((await tail(log, null, "both", 10)).epoch).toBeNull();
  });

  it("keeps the newest 8 MiB over all epochs, and tells how much it let go", async () => {
    const log = freshLog();
    const megabyte = new Uint8Array(1024 * 1024).fill(97);
    await log.append(1, "stdout", 0, megabyte);
    for (let i = 0; i < 8; i++) await log.append(2, "stdout", i * megabyte.byteLength, megabyte);
    await log.append(2, "stderr", 0, bytes("the end"));
    const first = await tail(log, 1, "stdout", LOG_BYTES);
    expect(first.text.byteLength).toBe(0);
    expect(first.droppedBytes).toBe(megabyte.byteLength);
    const second = await tail(log, 2, "both", LOG_BYTES);
    expect(second.text.byteLength).toBeLessThanOrEqual(LOG_BYTES);
    expect(second.text.byteLength + second.droppedBytes).toBe(8 * megabyte.byteLength + 7);
    await runInDurableObject(log, (_object, state) => {
      const { size } = state.storage.sql.exec<{ size: number }>("SELECT sum(size) AS size FROM chunks").one();
      expect(size).toBeLessThanOrEqual(LOG_BYTES);
    });
    // What was dropped still counts: the stream goes on where it was.
    expect(await log.append(1, "stdout", megabyte.byteLength, bytes("x"))).toMatchObject({ ok: true });
  });
});

describe("read", () => {
  it("hands out chunks in order of arrival, and nothing twice", async () => {
    const log = freshLog();
    await log.append(1, "stdout", 0, bytes("a"));
    await log.append(1, "stderr", 0, bytes("b"));
    const first = await log.read(0, 0);
    expect(first.chunks.map((chunk) => [chunk.stream, chunk.offset, text(chunk.bytes)])).toEqual([
      ["stdout", 0, "a"],
      ["stderr", 0, "b"],
    ]);
    await log.append(1, "stdout", 1, bytes("c"));
    const second = await log.read(first.lastSeq, 0);
    expect(second.chunks.map((chunk) => text(chunk.bytes))).toEqual(["c"]);
    expect(await log.read(second.lastSeq, 0)).toEqual({ chunks: [], lastSeq: second.lastSeq });
  });

  it("answers a bounded piece of a long log at a time", async () => {
    const log = freshLog();
    const whole = new Uint8Array(900_000).map((_, i) => i % 251);
    await log.append(1, "stdout", 0, whole);
    let after = 0;
    let seen = 0;
    for (;;) {
      const { chunks, lastSeq } = await log.read(after, 0);
      if (chunks.length === 0) break;
      expect(chunks.reduce((sum, chunk) => sum + chunk.bytes.byteLength, 0)).toBeLessThanOrEqual(READ_BYTES);
      for (const chunk of chunks) {
        expect(chunk.offset).toBe(seen);
        expect(chunk.bytes[0]).toBe(seen % 251);
        seen += chunk.bytes.byteLength;
      }
      after = lastSeq;
    }
    expect(seen).toBe(900_000);
  });

  it("parks until output comes", async () => {
    const log = freshLog();
    const parked = log.read(0, 20_000);
    await log.append(1, "stdout", 0, bytes("now"));
    expect((await parked).chunks.map((chunk) => text(chunk.bytes))).toEqual(["now"]);
  });

  it("answers with nothing when the wait is over", async () => {
    expect(await freshLog().read(0, 20)).toEqual({ chunks: [], lastSeq: 0 });
  });

  it("does not let a reader from before the log's deletion wait for a number that never comes", async () => {
    const log = freshLog();
    const parked = log.read(1_000, 20_000);
    await log.append(1, "stdout", 0, bytes("again"));
    expect((await parked).chunks).toHaveLength(1);
  });
});

describe("what lasts", () => {
  it("goes on after eviction where it was", async () => {
    const log = freshLog();
    await log.append(3, "stdout", 0, bytes("kept "));
    await evictDurableObject(log);
    expect(await log.append(3, "stdout", 5, bytes("going"))).toEqual({ ok: true, nextOffset: 10 });
    expect(text((await tail(log, null, "both", 100)).text)).toBe("kept going");
  });

  it("is kept while the last append is younger than 30 days, and gone after", async () => {
    const log = freshLog();
    await log.append(1, "stdout", 0, bytes("old"));
    await runDurableObjectAlarm(log);
    expect(text((await tail(log, 1, "stdout", 9)).text)).toBe("old");
    await runInDurableObject(log, async (_object, state) => {
      expect(await state.storage.getAlarm()).toBeGreaterThan(Date.now() + 29 * 24 * 3_600_000);
      state.storage.kv.put("lastAppendAt", Date.now() - 31 * 24 * 3_600_000);
    });
    await runDurableObjectAlarm(log);
    expect(await tail(log, null, "both", 9)).toEqual({ text: new Uint8Array(0), epoch: null, droppedBytes: 0 });
    expect(await log.append(1, "stdout", 0, bytes("new"))).toEqual({ ok: true, nextOffset: 3 });
  });
});
