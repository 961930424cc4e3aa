import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { BackendAttempt, BackendOwner } from "../../worker/backends/backend.ts";
import { attemptOf, randomOwner, watched } from "../backends/attempts.ts";
import { observeEnds } from "../backends/conformance.ts";
import { endedBadly, endsOf, SCENARIOS, type Scenario } from "../backends/scenarios.ts";
import { type KubernetesTarget, kubernetesTarget } from "./kubernetes-target.ts";

const CASES = 50;
const IN_FLIGHT = 200;
/** Jobs, pods, and warnings while some unit has no pod yet. */
const LISTINGS = 3;

const UNSCHEDULABLE: Scenario = {
  name: "more cpu than any node has",
  parts: { job: { resources: { cpu: 900_000, memoryMb: 64, gpu: null } } },
  check: (end) => endedBadly(end, { code: "UNSCHEDULABLE_CPU", class: "infra" }, /Insufficient cpu.*/),
};

describe.skipIf(!process.env.KUBECONFIG)("load on a real Kubernetes (KUBECONFIG)", () => {
  let target: KubernetesTarget;
  let owner: BackendOwner;
  beforeAll(async () => {
    target = await kubernetesTarget();
    owner = randomOwner();
  });
  afterAll(() => target.close());

  const gone = async (attempts: readonly BackendAttempt[]): Promise<void> => {
    const backend = target.backend(owner);
    let open = [...attempts];
    for (const end = Date.now() + 120_000; Date.now() < end; ) {
      const sighting = await backend.observe(
        open.map((attempt) => watched(attempt, true)),
        { waitMs: 1_000 },
      );
      const stopped = new Set(
        sighting.ok ? sighting.units.filter((seen) => seen.state === "stopped").map(({ name }) => name) : [],
      );
      open = open.filter(({ job }) => !stopped.has(job.name));
      if (open.length === 0) return;
    }
    throw new Error("not gone");
  };

  test(`a scorecard of ${CASES} cases of every kind is classified rightly, and nothing is left`, async () => {
    const backend = target.backendOf(target.spec({ placementTimeoutSec: 30 }), owner);
    const kinds = [...SCENARIOS, UNSCHEDULABLE];
    const cases = Array.from({ length: CASES }, (_, index) => kinds[index % kinds.length] ?? UNSCHEDULABLE);
    const attempts: BackendAttempt[] = [];
    for (const { missingImage, parts } of cases) {
      const attempt = attemptOf(owner, { image: missingImage ? target.missingImage : target.image, ...parts });
      expect(await backend.start(attempt)).toMatchObject({ kind: "started" });
      attempts.push(attempt);
    }
    const ends = await observeEnds(backend, attempts);
    cases.forEach(({ check }, index) => {
      check(endsOf(ends.get(attempts[index]?.job.name ?? "")));
    });
    await backend.collect(attempts.map(({ job }) => job.name));
    await gone(attempts);
    expect(await target.leftovers(owner)).toEqual({ units: 0, running: 0, secrets: 0 });
  });

  test(`a pass costs at most ${LISTINGS} requests, for 10 jobs in flight as for ${IN_FLIGHT}`, async () => {
    const backend = target.backend(owner);
    const attempts: BackendAttempt[] = [];
    const cost = async (): Promise<number> => {
      const before = target.calls();
      const sighting = await backend.observe(
        attempts.map((attempt) => watched(attempt)),
        { waitMs: 0 },
      );
      expect(sighting.ok && sighting.units.length).toBe(attempts.length);
      return target.calls() - before;
    };
    const add = async (count: number): Promise<void> => {
      while (attempts.length < count) {
        const batch = Array.from({ length: 10 }, () =>
          attemptOf(owner, { image: target.image, ...UNSCHEDULABLE.parts }),
        );
        await Promise.all(batch.map((attempt) => backend.start(attempt)));
        attempts.push(...batch);
      }
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    };
    await add(10);
    const few = await cost();
    await add(IN_FLIGHT);
    const many = await cost();
    process.stdout.write(`requests a pass: ${few} for 10 jobs in flight, ${many} for ${IN_FLIGHT}\n`);
    expect(Math.max(few, many)).toBeLessThanOrEqual(LISTINGS);
    await backend.stop(attempts.map(({ job }) => job.name));
    await gone(attempts);
  });
});
