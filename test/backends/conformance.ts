import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Backend, BackendAttempt, BackendOwner, SeenUnit, UnitEnd } from "../../worker/backends/backend.ts";
import { attemptOf, randomOwner, watched } from "./attempts.ts";
import { endedBadly, endsOf, endsWell, SCENARIOS } from "./scenarios.ts";
import type { Target } from "./target.ts";

const WAIT = { waitMs: 5_000 };
const END_MS = 120_000;

/** The cluster's own words for it stand in the failure's placement. */
function tellsTheFact(end: UnitEnd): void {
  if (end.kind !== "failure") throw new Error("has an Outcome");
  expect(end.failure.placement?.unit).toMatch(/^evd-/);
  expect(end.failure.placement?.events.join("\n")).toMatch(/\S{4}/);
}

/** Observes until every unit has ended. */
export async function observeEnds(
  backend: Backend,
  attempts: readonly BackendAttempt[],
  until: (seen: SeenUnit) => boolean = ({ state }) => state === "finished",
): Promise<Map<string, SeenUnit>> {
  const ends = new Map<string, SeenUnit>();
  const end = Date.now() + END_MS;
  while (ends.size < attempts.length) {
    const open = attempts.filter(({ job }) => !ends.has(job.name));
    const sighting = await backend.observe(
      open.map((attempt) => watched(attempt)),
      WAIT,
    );
    if (sighting.ok) for (const seen of sighting.units) if (until(seen)) ends.set(seen.name, seen);
    if (Date.now() > end)
      throw new Error(`still open: ${JSON.stringify(sighting.ok ? sighting.units : sighting.error)}`);
  }
  return ends;
}

/** The promises every backend keeps, on every cluster. */
export function backendConformance(name: string, open: () => Promise<Target>): void {
  describe(name, () => {
    let target: Target;
    let owner: BackendOwner;
    let backend: Backend;

    beforeAll(async () => {
      target = await open();
      owner = randomOwner();
      backend = target.backend(owner);
    });
    afterAll(() => target.close());

    const only = async (attempt: BackendAttempt): Promise<SeenUnit> => {
      const seen = (await observeEnds(backend, [attempt])).get(attempt.job.name);
      if (!seen) throw new Error("not seen");
      return seen;
    };
    const start = async (parts: Parameters<typeof attemptOf>[1] = {}): Promise<BackendAttempt> => {
      const attempt = attemptOf(owner, { image: target.image, ...parts });
      expect(await backend.start(attempt)).toMatchObject({ kind: "started", externalId: attempt.job.name });
      return attempt;
    };
    const gone = async (attempts: readonly BackendAttempt[]): Promise<void> => {
      const end = Date.now() + END_MS;
      for (;;) {
        const sighting = await backend.observe(
          attempts.map((attempt) => watched(attempt, true)),
          { waitMs: 1_000 },
        );
        if (sighting.ok && sighting.units.every(({ state }) => state === "stopped")) return;
        if (Date.now() > end) throw new Error(`not gone: ${JSON.stringify(sighting)}`);
      }
    };

    test("every scenario of a scorecard ends as what it is, and nothing is left once collected", async () => {
      const attempts = SCENARIOS.map((scenario) =>
        attemptOf(owner, { image: scenario.missingImage ? target.missingImage : target.image, ...scenario.parts }),
      );
      for (const attempt of attempts) expect(await backend.start(attempt)).toMatchObject({ kind: "started" });
      const ends = await observeEnds(backend, attempts);
      SCENARIOS.forEach((scenario, index) => {
        const seen = ends.get(attempts[index]?.job.name ?? "");
        scenario.check(endsOf(seen));
      });
      await backend.collect(attempts.map(({ job }) => job.name));
      await gone(attempts);
      expect(await target.leftovers(owner)).toEqual({ units: 0, running: 0, secrets: 0 });
    });

    test("a start that is repeated, or whose answer was lost, makes one unit and adopts it", async () => {
      const attempt = await start({ program: { command: "echo once" } });
      expect(await backend.start(attempt)).toMatchObject({ kind: "started", adopted: true });
      const lost = attemptOf(owner, { image: target.image, program: { command: "echo lost" } });
      target.loseNextAnswer();
      const first = await backend.start(lost);
      const again = first.kind === "started" ? first : await backend.start(lost);
      expect(again).toMatchObject({ kind: "started" });
      const ends = await observeEnds(backend, [attempt, lost]);
      expect(ends.size).toBe(2);
      await backend.collect([attempt.job.name, lost.job.name]);
      await gone([attempt, lost]);
    });

    test("a name that belongs to somebody else is a conflict and is left alone", async () => {
      const attempt = await start({ program: { command: "sleep 30" } });
      const stranger = target.backend({ deployment: "somebody-else", object: owner.object });
      expect(await stranger.start(attempt)).toMatchObject({
        kind: "failed",
        failure: { code: "NAME_CONFLICT", class: "config" },
      });
      await stranger.stop([attempt.job.name]);
      const sighting = await backend.observe([watched(attempt)], { waitMs: 0 });
      expect(sighting.ok && sighting.units[0]?.state).toMatch(/pending|running/);
      expect(sighting.ok && sighting.listed).toContain(attempt.job.name);
      await backend.stop([attempt.job.name]);
      await gone([attempt]);
    });

    test("stopped is told only when nothing runs any more", async () => {
      const attempt = await start({ program: { command: "trap '' TERM; sleep 60", graceSec: 1 } });
      await observeEnds(backend, [attempt], ({ state }) => state === "running");
      await backend.stop([attempt.job.name]);
      await backend.stop([attempt.job.name]);
      await gone([attempt]);
      expect(await target.leftovers(owner)).toMatchObject({ running: 0 });
    });

    test("a unit deleted by somebody else is absent or an infra failure, retryable, and never a measurement (K 81)", async () => {
      const attempt = await start({ program: { command: "sleep 60" } });
      await observeEnds(backend, [attempt], ({ state }) => state === "running");
      await target.removeUnit(attempt.job.name);
      const ends = await observeEnds(backend, [attempt], ({ state }) => /finished|absent|stopped/.test(state));
      const seen = ends.get(attempt.job.name);
      if (seen?.state !== "finished") return;
      endedBadly(endsOf(seen), { code: "EVICTED", class: "infra", retryable: true });
      tellsTheFact(endsOf(seen));
    });

    test("a pod or allocation evicted by somebody else is EVICTED, class infra, retryable (K 82, N 11)", async () => {
      const attempt = await start({ program: { command: "sleep 60" } });
      await observeEnds(backend, [attempt], ({ state }) => state === "running");
      await target.evictUnit(attempt.job.name);
      const end = endsOf(await only(attempt));
      endedBadly(end, { code: "EVICTED", class: "infra", retryable: true });
      tellsTheFact(end);
      await backend.collect([attempt.job.name]);
    });

    test("secrets reach the program by name, whatever their text is", async () => {
      const value = "s3cret-$(HOME)-${attr.kernel}\nwith a second line";
      const attempt = await start({ secrets: { TOKEN: value }, program: { command: "printf '%s' \"$TOKEN\"" } });
      const { outcome } = endsWell(endsOf(await only(attempt)));
      expect(outcome.stdout).toBe(value);
      await backend.collect([attempt.job.name]);
    });

    test("the live log shows what was printed so far", async () => {
      const attempt = await start({ program: { command: "echo so far; sleep 30" } });
      await observeEnds(backend, [attempt], ({ state }) => state === "running");
      const end = Date.now() + END_MS;
      let tail = await backend.logs(attempt.job.name, { tailBytes: 1_000 });
      while (!tail.text.includes("so far") && Date.now() < end) {
        await new Promise((resolve) => setTimeout(resolve, 200));
        tail = await backend.logs(attempt.job.name, { tailBytes: 1_000 });
      }
      expect(tail).toMatchObject({ live: true, text: expect.stringContaining("so far") });
      await backend.stop([attempt.job.name]);
      await gone([attempt]);
    });

    test("a log is followed step by step: each byte once, whoever takes the next step, and no result line", async () => {
      const lines = ["one", "two", "", "two", "three", "ünï", "last"];
      const said = lines.map((line) => `printf '%s\\n' '${line}'; sleep 0.3`).join("; ");
      const attempt = await start({ program: { command: `${said}; printf 'no end'; sleep 1; printf ' after all'` } });
      const raw: Uint8Array[] = [];
      let cursor: string | null = null;
      let lives = 0;
      const end = Date.now() + END_MS;
      for (let live = true; live && Date.now() < end; ) {
        const step = await backend.follow(attempt.job.name, cursor, (bytes, final) => {
          // Half of what is new is not wanted yet, and comes again.
          const taken = final ? bytes.length : Math.ceil(bytes.length / 2);
          raw.push(bytes.slice(0, taken));
          return taken;
        });
        ({ cursor, live } = step);
        if (live && raw.some(({ length }) => length > 0)) lives++;
        await new Promise((resolve) => setTimeout(resolve, 150));
      }
      expect(lives).toBeGreaterThan(2);
      const text = new TextDecoder().decode(Uint8Array.from(raw.flatMap((bytes) => [...bytes])));
      expect(text.trimEnd()).toBe(`${lines.join("\n")}\nno end after all`);
      expect(text).not.toContain("EVERDICT_RESULT");
      await observeEnds(backend, [attempt]);
      await backend.collect([attempt.job.name]);
      await gone([attempt]);
      const never = attemptOf(owner).job.name;
      await expect(backend.follow(never, null, () => 0)).rejects.toMatchObject({ code: "NOT_FOUND" });
    });

    test("a unit that never was is absent", async () => {
      const sighting = await backend.observe([watched(attemptOf(owner))], { waitMs: 0 });
      expect(sighting).toMatchObject({ ok: true, units: [{ state: "absent" }], listed: [] });
    });

    test("one pass costs the same number of calls for 1 unit and for 40", async () => {
      const attempts: BackendAttempt[] = [];
      for (let n = 0; n < 40; n++)
        attempts.push(
          await start({
            program: { command: "sleep 600" },
            job: { resources: { cpu: 900_000, memoryMb: 64, gpu: null } },
          }),
        );
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      const cost = async (count: number): Promise<number> => {
        const before = target.calls();
        const sighting = await backend.observe(
          attempts.slice(0, count).map((attempt) => watched(attempt)),
          { waitMs: 0 },
        );
        expect(sighting.ok && sighting.units.every(({ state }) => state === "pending")).toBe(true);
        return target.calls() - before;
      };
      expect(await cost(40)).toBe(await cost(1));
      await backend.stop(attempts.map(({ job }) => job.name));
      await gone(attempts);
    });

    test("a probe with the least rights passes, and one with an unknown token says so", async () => {
      const report = await backend.probe();
      expect(report).toMatchObject({ reachable: true, reason: null });
      const refused = await target.stranger(owner).probe();
      expect(refused).toMatchObject({ reachable: false, reason: "auth" });
    });
  });
}
