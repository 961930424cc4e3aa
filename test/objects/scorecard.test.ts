import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { FeedAnswer } from "../../contracts/rpc.ts";
import type { RunDigest, ScorecardEnd, ScorecardEvent, ScorecardPlan } from "../../contracts/scorecard-rpc.ts";
import type { ScorecardCoordinator } from "../../durable-objects/scorecard/object.ts";
import { resetScript, script } from "./dispatcher.ts";

afterEach(resetScript);

let minted = 0;

/** A scorecard of its own, with what its Dispatcher was asked. */
function fresh(runs: number, over: Partial<ScorecardPlan> = {}) {
  minted += 1;
  const id = `sc_${minted}`;
  const plan: ScorecardPlan = {
    id,
    workspace: "acme",
    targets: ["gpu"],
    concurrency: 4,
    runs: Array.from({ length: runs }, (_, i) => ({ runId: `${id}_${i}`, caseId: `c${i}`, trial: 1 })),
    ...over,
  };
  const seen = { fed: [] as string[], cancelled: [] as string[], ends: [] as ScorecardEnd[], active: [] as boolean[] };
  script.feed = async (scorecard, items) => {
    if (scorecard === id) seen.fed.push(...items.map((item) => item.runId));
    return items.map(({ runId }) => ({ runId, ok: true }));
  };
  script.cancelRuns = async (scorecard, runIds) => {
    if (scorecard === id) seen.cancelled.push(...runIds);
  };
  script.finishScorecard = async (scorecard, end) => {
    if (scorecard === id) seen.ends.push(end);
    return true;
  };
  script.markActive = async (_kind, name, active) => {
    if (name === id) seen.active.push(active);
  };
  return { plan, seen, stub: env.SCORECARD.getByName(id), run: (n: number) => `${id}_${n}` };
}

const measured = (runId: string, over: Partial<RunDigest> = {}): RunDigest => ({
  runId,
  status: "succeeded",
  score: 1,
  pass: true,
  durationMs: 100,
  failureClass: null,
  failureCode: null,
  failureStage: null,
  ...over,
});

/** Reads the stream as a client would until it ends. */
async function follow(stub: DurableObjectStub<ScorecardCoordinator>): Promise<ScorecardEvent[]> {
  const all: ScorecardEvent[] = [];
  for (let after = 0; ; ) {
    const events = await stub.events(after, 5_000);
    all.push(...events);
    after = events.at(-1)?.seq ?? after;
    if (events.some((event) => event.event === "end")) return all;
  }
}

describe("a scorecard from begin to end", () => {
  it("feeds, follows, sums up, stores its end, and then says so", async () => {
    const { plan, seen, stub, run } = fresh(6);
    expect(await stub.live()).toBeNull();
    await stub.begin(plan);
    await vi.waitFor(() => expect(seen.fed).toEqual([run(0), run(1), run(2), run(3)]));
    const following = follow(stub);
    await stub.started([run(0)]);
    expect(await stub.live()).toMatchObject({ status: "running", progress: { total: 6, queued: 5, running: 1 } });
    for (let i = 0; i < 6; i++) {
      await vi.waitFor(() => expect(seen.fed).toContain(run(i)));
      await stub.settled([measured(run(i), i === 5 ? { score: 0, pass: false } : {})]);
    }
    const events = await following;
    expect(events.at(-1)?.event).toBe("end");
    const numbers = events.map((event) => event.seq);
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    expect(seen.ends).toHaveLength(1);
    expect(seen.ends[0]).toMatchObject({ status: "succeeded", summary: { measured: 6 } });
    expect(await stub.live()).toMatchObject({
      status: "succeeded",
      summary: { measured: 6, passRate: 5 / 6, durationMs: { p50: 100, p95: 100 } },
      finishedAt: seen.ends[0]?.finishedAt,
    });
    await vi.waitFor(() => expect(seen.active).toEqual([true, false]));
    expect(await stub.sweep()).toEqual({ active: false });
  });

  it("says why a run is not in a queue yet", async () => {
    const { plan, seen, stub, run } = fresh(50);
    await stub.begin(plan);
    await vi.waitFor(() => expect(seen.fed).toHaveLength(4));
    await vi.waitFor(async () =>
      expect(await stub.waiting([run(41), run(0)])).toEqual([
        {
          runId: run(41),
          waiting: {
            position: null,
            reason: "concurrency",
            detail: "4 of 4 of this scorecard's runs are in flight; 37 are before it",
            etaSec: null,
          },
        },
        { runId: run(0), waiting: null },
      ]),
    );
  });

  it("answers a parked reader when something happens, and with nothing when its wait is over", async () => {
    const { plan, stub, run } = fresh(1);
    await stub.begin(plan);
    const head = (await stub.events(0, 0)).at(-1)?.seq ?? 0;
    expect(await stub.events(head, 20)).toEqual([]);
    const parked = stub.events(head, 20_000);
    await stub.started([run(0)]);
    expect((await parked)[0]).toMatchObject({ event: "run", data: { id: run(0), status: "running" } });
  });
});

describe("cancel", () => {
  it("ends unfed runs at once and fed ones when their Scheduler says so", async () => {
    const { plan, seen, stub, run } = fresh(5, { concurrency: 1 });
    await stub.begin(plan);
    await vi.waitFor(() => expect(seen.fed).toEqual([run(0)]));
    const live = await stub.cancel();
    expect(live.progress).toMatchObject({ cancelled: 4, queued: 1 });
    await vi.waitFor(() => expect(seen.cancelled).toHaveLength(5));
    expect(seen.ends).toEqual([]);
    await stub.settled([measured(run(0), { status: "cancelled", score: null, pass: null, durationMs: null })]);
    await vi.waitFor(() => expect(seen.ends).toMatchObject([{ status: "cancelled", progress: { cancelled: 5 } }]));
    expect(seen.fed).toEqual([run(0)]);
  });
});

describe("what fails on the way", () => {
  it("goes on with the other targets while the feed of one throws", async () => {
    const { plan, seen, stub, run } = fresh(20, { targets: ["dead", "alive"], concurrency: 4 });
    script.feed = async (_id, items) => {
      if (items[0]?.target === "dead") throw new Error("no route");
      seen.fed.push(...items.map((item) => item.runId));
      return items.map(({ runId }) => ({ runId, ok: true }));
    };
    await stub.begin(plan);
    const settled = new Set<string>();
    await vi.waitFor(async () => {
      const open = seen.fed.filter((runId) => !settled.has(runId));
      for (const runId of open) settled.add(runId);
      if (open.length > 0) await stub.settled(open.map((runId) => measured(runId)));
      expect(settled.size).toBeGreaterThanOrEqual(18);
    });
    const bound = Array.from({ length: 20 }, (_, i) => run(i)).filter((runId) => !settled.has(runId));
    const waiting = await stub.waiting(bound);
    expect(waiting[0]?.waiting).toMatchObject({ reason: "backoff", detail: expect.stringContaining("no route") });
    // The dead target comes back: what was bound to it is fed there.
    script.feed = async (_id, items) => {
      seen.fed.push(...items.map((item) => item.runId));
      return items.map(({ runId }): FeedAnswer => ({ runId, ok: true }));
    };
    await vi.waitFor(
      async () => {
        await runDurableObjectAlarm(stub);
        expect(seen.fed).toEqual(expect.arrayContaining(bound));
      },
      { timeout: 5_000, interval: 200 },
    );
  });

  it("stores its end again until the Worker takes it, and shows no end before", async () => {
    const { plan, seen, stub, run } = fresh(1);
    let tries = 0;
    script.finishScorecard = async (_id, end) => {
      tries += 1;
      seen.ends.push(end);
      if (tries === 1) throw new Error("database unreachable");
      return tries > 2;
    };
    await stub.begin(plan);
    await stub.settled([measured(run(0))]);
    await vi.waitFor(() => expect(tries).toBe(1));
    expect(await stub.live()).toMatchObject({ status: "running", summary: null });
    await vi.waitFor(
      async () => {
        await runDurableObjectAlarm(stub);
        expect((await stub.live())?.status).toBe("succeeded");
      },
      { timeout: 8_000, interval: 200 },
    );
    expect(tries).toBe(3);
    expect(new Set(seen.ends.map((end) => end.finishedAt)).size).toBe(1);
  });

  it("survives eviction at every step and repeats what was not answered", async () => {
    const { plan, seen, stub, run } = fresh(4, { concurrency: 2 });
    let hang = true;
    script.feed = async (_id, items) => {
      seen.fed.push(...items.map((item) => item.runId));
      if (hang) throw new Error("cut");
      return items.map(({ runId }) => ({ runId, ok: true }));
    };
    await stub.begin(plan);
    await vi.waitFor(() => expect(seen.fed).toEqual([run(0), run(1)]));
    hang = false;
    await evictDurableObject(stub);
    await stub.begin(plan);
    await vi.waitFor(() => expect(seen.fed).toEqual([run(0), run(1), run(0), run(1)]));
    await stub.started([run(0), run(1)]);
    const { head } = await evictAndLook(stub);
    await stub.settled([measured(run(0))]);
    await evictAndLook(stub);
    await stub.settled([measured(run(0)), measured(run(1), { score: 0.5, pass: false })]);
    await vi.waitFor(() => expect(seen.fed).toEqual(expect.arrayContaining([run(2), run(3)])));
    await evictAndLook(stub);
    await stub.settled([measured(run(2)), measured(run(3))]);
    await vi.waitFor(async () => expect((await stub.live())?.status).toBe("succeeded"));
    await evictAndLook(stub);
    expect(await stub.live()).toMatchObject({ status: "succeeded", summary: { measured: 4, meanScore: 0.875 } });
    // A reader from before the evictions gets the state of what changed since, then the end.
    const events = await stub.events(head, 0);
    const told = events.flatMap((event) => (event.event === "run" ? [event.data.id] : []));
    expect(new Set(told)).toEqual(new Set([run(0), run(1), run(2), run(3)]));
    expect(events.at(-1)?.event).toBe("end");
  });

  async function evictAndLook(stub: DurableObjectStub<ScorecardCoordinator>): Promise<{ head: number }> {
    const head = (await stub.events(0, 0)).at(-1)?.seq ?? 0;
    const before = await stub.live();
    await evictDurableObject(stub);
    expect(await stub.live()).toEqual(before);
    return { head };
  }
});

describe("fifty thousand runs", () => {
  it("begin, and one of them ends, without rewriting the others", async () => {
    const { plan, seen, stub, run } = fresh(50_000, { concurrency: 10 });
    await stub.begin(plan);
    await vi.waitFor(() => expect(seen.fed).toHaveLength(10));
    const written = await runInDurableObject(stub, async (object, state) => {
      const before = state.storage.sql.exec("SELECT 1").rowsWritten;
      expect(before).toBe(0);
      let rows = 0;
      const exec = state.storage.sql.exec.bind(state.storage.sql);
      const spy = vi.spyOn(state.storage.sql, "exec").mockImplementation((query, ...bindings) => {
        const cursor = exec(query, ...bindings);
        rows += cursor.rowsWritten;
        return cursor;
      });
      await object.settled([measured(run(0))]);
      spy.mockRestore();
      return rows;
    });
    expect(written).toBeGreaterThan(0);
    expect(written).toBeLessThan(10);
    await evictDurableObject(stub);
    expect((await stub.live())?.progress).toMatchObject({ total: 50_000, succeeded: 1 });
    await runInDurableObject(stub, (_object, state) => {
      const counted = state.storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM runs").one().n;
      expect(counted).toBe(50_000);
    });
  });
});
