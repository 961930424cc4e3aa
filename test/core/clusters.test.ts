import { expect, test } from "vitest";
import type { StartAnswer } from "../../contracts/rpc.ts";
import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import { healthOf } from "../../durable-objects/scheduler/circuit.ts";
import type { Effect } from "../../durable-objects/scheduler/events.ts";
import { runView } from "../../durable-objects/scheduler/views.ts";
import { clusterLab, entriesOf, entryOf, failedWith, type Lab, observedOf, only, startedOf, startsOf } from "./lab.ts";

const MINUTE = 60_000;

const unknownOf = (
  refs: AttemptRef[],
  retryAfterSec: number | null = null,
): { type: "startAnswers"; answers: StartAnswer[] } => ({
  type: "startAnswers",
  answers: refs.map((ref) => ({
    kind: "unknown",
    ...ref,
    error: { code: "UPSTREAM_TIMEOUT", message: "no answer", retryAfterSec },
  })),
});

const stopsOf = (effects: Effect[]) => effects.flatMap((effect) => (effect.kind === "stop" ? effect.units : []));
const observesOf = (effects: Effect[]) => effects.filter((effect) => effect.kind === "observe");

/** One run whose unit the cluster has confirmed. */
function started(lab: Lab, parts: Parameters<typeof entryOf>[0] = {}) {
  const entry = entryOf(parts);
  const ref = only(startsOf(lab.enqueue(entry)));
  lab.turn(startedOf([ref]));
  return { entry, ref, name: lab.state.entries.get(entry.runId)?.attempt?.unit?.name ?? "" };
}

/** Observe passes every second, each answered by `answer`, for as long as nothing ends. */
function watch(lab: Lab, ms: number, answer: () => Parameters<Lab["turn"]>[0] | null): void {
  const end = lab.now + ms;
  while (lab.now < end && lab.state.live.size > 0) {
    lab.advance(1_000);
    const event = answer();
    if (event) lab.turn(event);
  }
}

test("a unit's name is fixed by object, run and epoch", () => {
  const lab = clusterLab();
  const { entry, name } = started(lab);
  expect(name).toBe(`evd-0123abcd-${entry.runId.slice(4)}-1`);
});

test("a start whose answer was lost is repeated under the same epoch with growing pauses", () => {
  const lab = clusterLab();
  const ref = only(startsOf(lab.enqueue(entryOf())));
  lab.turn(unknownOf([ref]));
  expect(startsOf(lab.advance(900))).toEqual([]);
  expect(startsOf(lab.advance(200))).toEqual([ref]);
  lab.turn(unknownOf([ref]));
  expect(startsOf(lab.advance(1_500))).toEqual([]);
  expect(startsOf(lab.advance(600))).toEqual([ref]);
});

test("a start that nobody answered at all is repeated after its call has expired", () => {
  const lab = clusterLab();
  const ref = only(startsOf(lab.enqueue(entryOf())));
  lab.reload();
  expect(startsOf(lab.advance(44_000))).toEqual([]);
  expect(startsOf(lab.advance(2_000))).toEqual([ref]);
});

test("after 10 minutes without an answer the start is lost, which is retryable, and sweeps go on", () => {
  const lab = clusterLab({ slots: 1 });
  const entry = entryOf({ retries: 0 });
  let starts = startsOf(lab.enqueue(entry));
  const began = lab.now;
  while (lab.settlements.length === 0 && lab.now - began < 15 * MINUTE) {
    if (starts.length > 0) {
      lab.turn(unknownOf(starts));
      if (lab.settlements.length === 0) expect(lab.why(entry.runId)).toBe("cluster: not started yet, no answer");
    }
    starts = startsOf(lab.advance(1_000));
  }
  const { failure } = only(lab.settlements);
  expect(failure).toMatchObject({ code: "START_LOST", class: "infra", retryable: true });
  expect(failure?.message).toContain("no answer");
  expect(failure?.placement?.events[0]).toContain("no answer");
  expect(lab.now - began).toBeLessThan(11 * MINUTE);
  const late = `evd-0123abcd-${entry.runId.slice(4)}-1`;
  lab.advance(2 * MINUTE);
  expect(observesOf(lab.advance(2 * MINUTE)).length).toBeGreaterThan(0);
  const effects = lab.turn(observedOf([], "running", { listed: [late] }));
  expect(only(stopsOf(effects))).toMatchObject({ name: late, runId: entry.runId, epoch: 1 });
});

test("a cancelled run whose start was never answered says what it waits for, and ends as lost starts do", () => {
  const lab = clusterLab({ slots: 1 });
  const entry = entryOf();
  lab.turn(unknownOf(startsOf(lab.enqueue(entry))));
  lab.turn({ type: "cancel", runIds: [entry.runId], reason: "cancelled by dev" });
  const error = { code: "UPSTREAM_ERROR", message: "no such host", retryAfterSec: null };
  const began = lab.now;
  while (lab.settlements.length === 0 && lab.now - began < 15 * MINUTE) {
    lab.advance(5_000);
    if (lab.settlements.length > 0) break;
    lab.turn({ type: "observed", observation: { ok: false, error, units: [], listed: [] } });
    expect(runView(lab.state, entry.runId, lab.now)?.attempts.at(-1)?.reason).toBe(
      "cancelled by dev; waits to hear that it has stopped: UPSTREAM_ERROR: no such host",
    );
  }
  expect(lab.now - began).toBeLessThan(11 * MINUTE);
  expect(only(lab.settlements)).toMatchObject({ status: "cancelled", provenance: null });
  expect(only(lab.settlements).attempts.at(-1)?.reason).toContain("never said whether it had started");
  const late = `evd-0123abcd-${entry.runId.slice(4)}-1`;
  lab.advance(2 * MINUTE);
  expect(only(stopsOf(lab.turn(observedOf([], "running", { listed: [late] }))))).toMatchObject({ name: late });
});

test.each(["stopped", "finished"] as const)(
  "a unit that somebody had %s by control is theirs, not the cluster's",
  (how) => {
    const lab = clusterLab();
    const { ref, name } = started(lab);
    lab.turn(observedOf([ref], "running"));
    lab.turn({ type: "evicting", units: [name, "evd-0123abcd-other-1"], by: "ada" });
    lab.reload();
    lab.advance(2_000);
    lab.turn(observedOf([ref], how, how === "finished" ? { verdict: failedWith("infra") } : {}));
    expect(only(lab.settlements).failure).toMatchObject({
      code: "EVICTED",
      class: "infra",
      retryable: true,
      message: `ada had its unit '${name}' stopped by the runtime's control`,
    });
  },
);

test("an eviction that came to nothing is not blamed for what happens later, nor for what the job did itself", () => {
  const lab = clusterLab();
  const { ref, name } = started(lab);
  lab.turn({ type: "evicting", units: [name], by: "ada" });
  lab.turn(observedOf([ref], "finished", { verdict: failedWith("agent") }));
  expect(only(lab.settlements).failure?.code).toBe("BROKEN");
  const other = clusterLab();
  const second = started(other);
  other.turn({ type: "evicting", units: [second.name], by: "ada" });
  watch(other, 6 * MINUTE, () => observedOf([second.ref], "running"));
  other.turn(observedOf([second.ref], "finished", { verdict: failedWith("infra") }));
  expect(only(other.settlements).failure?.code).toBe("BROKEN");
});

test("where a unit runs is known from what is seen of it, even if its start was never answered", () => {
  const lab = clusterLab();
  const ref = only(startsOf(lab.enqueue(entryOf())));
  lab.turn(unknownOf([ref]));
  expect(runView(lab.state, ref.runId, lab.now)?.placed).toMatchObject({ node: null, ranOn: null });
  lab.turn(observedOf([ref], "running", { ranOn: "nomad:gpu@1.0.0" }));
  expect(runView(lab.state, ref.runId, lab.now)?.placed).toMatchObject({ node: "n1", ranOn: "nomad:gpu@1.0.0" });
  lab.turn(observedOf([ref], "finished", { ranOn: "nomad:gpu@1.0.0" }));
  expect(only(lab.settlements).provenance).toMatchObject({ ranOn: "nomad:gpu@1.0.0", attestation: "managed" });
});

test("a unit that was once seen is never started again", () => {
  const lab = clusterLab();
  const ref = only(startsOf(lab.enqueue(entryOf())));
  lab.turn(unknownOf([ref]));
  lab.turn(observedOf([ref], "running"));
  expect(startsOf(lab.advance(5 * MINUTE))).toEqual([]);
});

test("absent once is suspicion, absent twice within 10 s too, absent again after 10 s is the end", () => {
  const lab = clusterLab();
  const { ref } = started(lab);
  lab.advance(1_100);
  lab.turn(observedOf([ref], "absent"));
  lab.advance(9_000);
  lab.turn(observedOf([ref], "absent"));
  expect(lab.settlements).toHaveLength(0);
  lab.advance(1_500);
  lab.turn(observedOf([ref], "absent"));
  expect(only(lab.settlements).failure).toMatchObject({
    code: "UNIT_LOST",
    class: "infra",
    retryable: true,
    placement: { unit: expect.stringMatching(/^evd-/), events: [expect.stringContaining("is gone")] },
  });
});

test("an absence that was read before the unit was known, or is told twice, proves nothing", () => {
  const lab = clusterLab();
  const ref = only(startsOf(lab.enqueue(entryOf())));
  lab.advance(1_100);
  lab.turn(startedOf([ref]));
  lab.turn(observedOf([ref], "absent"));
  lab.advance(1_100);
  lab.turn(observedOf([ref], "absent"));
  lab.now += 11_000;
  lab.turn(observedOf([ref], "absent"));
  expect(lab.settlements).toHaveLength(0);
});

test("a unit that is seen between two absences is not absent", () => {
  const lab = clusterLab();
  const { ref } = started(lab);
  lab.advance(1_100);
  lab.turn(observedOf([ref], "absent"));
  lab.advance(5_000);
  lab.turn(observedOf([ref], "running"));
  lab.advance(6_000);
  lab.turn(observedOf([ref], "absent"));
  expect(lab.settlements).toHaveLength(0);
});

test("a unit last seen more than 10 minutes ago is told as OUTCOME_LOST and never repeated", () => {
  const lab = clusterLab();
  const { ref } = started(lab, { retries: 3, timeoutSec: 86_400 });
  lab.turn(observedOf([ref], "running"));
  lab.advance(11 * MINUTE);
  lab.turn(observedOf([ref], "absent"));
  lab.advance(11_000);
  lab.turn(observedOf([ref], "absent"));
  expect(only(lab.settlements).failure).toMatchObject({ code: "OUTCOME_LOST", retryable: false });
});

test("hours of failing listings end no attempt", () => {
  const lab = clusterLab();
  const { ref } = started(lab, { timeoutSec: 86_400 });
  const error = { code: "UPSTREAM_TIMEOUT", message: "no answer", retryAfterSec: null };
  const failing = { type: "observed" as const, observation: { ok: false, error, units: [], listed: [] } };
  for (let i = 0; i < 200; i++) {
    lab.advance(60_000);
    lab.turn(failing);
  }
  expect(lab.state.entries.get(ref.runId)?.attempt?.epoch).toBe(1);
  lab.turn(observedOf([ref], "finished"));
  expect(only(lab.settlements).status).toBe("succeeded");
});

test("observe passes are at least 1 s apart and never two at once", () => {
  const lab = clusterLab();
  const { ref } = started(lab);
  expect(observesOf(lab.advance(1_000))).toHaveLength(1);
  expect(observesOf(lab.advance(30_000))).toHaveLength(0);
  lab.turn(observedOf([ref], "running"));
  expect(observesOf(lab.advance(100))).toHaveLength(1);
  lab.turn(observedOf([ref], "running"));
  expect(observesOf(lab.advance(900))).toHaveLength(0);
});

test("a pass that never comes back is given up and another begins", () => {
  const lab = clusterLab();
  started(lab);
  lab.advance(1_000);
  lab.reload();
  expect(observesOf(lab.advance(60_000)).length).toBeGreaterThan(0);
});

test("nothing in flight costs no pass and no alarm", () => {
  const lab = clusterLab();
  const { ref } = started(lab);
  lab.turn(observedOf([ref], "finished"));
  lab.advance(10_000);
  expect(lab.advance(30 * MINUTE)).toEqual([]);
  expect(lab.state.armedWakeAt).toBeNull();
});

test("a cancelled unit keeps its slot until it is stopped; absence alone is not enough", () => {
  const lab = clusterLab({ slots: 1 });
  const { ref, name } = started(lab);
  lab.turn(observedOf([ref], "running"));
  lab.turn({ type: "cancel", runIds: [ref.runId], reason: "stop" });
  expect(only(stopsOf(lab.advance(100)))).toMatchObject({ ...ref, name });
  expect(startsOf(lab.enqueue(entryOf()))).toHaveLength(0);
  for (let i = 0; i < 3; i++) {
    lab.advance(11_000);
    lab.turn(observedOf([ref], "absent"));
  }
  expect(lab.settlements).toHaveLength(0);
  expect(startsOf(lab.turn(observedOf([ref], "stopped")))).toHaveLength(1);
  expect(only(lab.settlements).status).toBe("cancelled");
});

test("a stop is repeated until it is confirmed", () => {
  const lab = clusterLab();
  const { ref } = started(lab);
  lab.turn({ type: "cancel", runIds: [ref.runId], reason: "stop" });
  lab.advance(100);
  expect(stopsOf(lab.advance(60_000)).length).toBeGreaterThanOrEqual(2);
});

test("a unit that passes its deadline is stopped, and the run fails when that is confirmed", () => {
  const lab = clusterLab();
  const { ref } = started(lab, { timeoutSec: 60 });
  lab.turn(observedOf([ref], "running"));
  watch(lab, 429_000, () => observedOf([ref], "running"));
  expect(lab.state.entries.get(ref.runId)?.attempt?.state).toBe("running");
  watch(lab, 3_000, () => observedOf([ref], "running"));
  expect(lab.state.entries.get(ref.runId)?.attempt?.state).toBe("stopping");
  expect(lab.settlements).toHaveLength(0);
  lab.turn(observedOf([ref], "stopped"));
  expect(only(lab.settlements).failure?.code).toBe("DEADLINE_EXCEEDED");
});

test("a unit that finished while we were away counts, although its deadline has passed meanwhile", () => {
  const lab = clusterLab();
  const { ref } = started(lab, { timeoutSec: 60 });
  lab.turn(observedOf([ref], "running"));
  lab.advance(60 * MINUTE);
  expect(lab.state.entries.get(ref.runId)?.attempt?.state).toBe("stopping");
  lab.turn(observedOf([ref], "finished"));
  expect(only(lab.settlements).status).toBe("succeeded");
});

test("a unit that was gone when we came back after its deadline is told as OUTCOME_LOST", () => {
  const lab = clusterLab();
  const { ref } = started(lab, { timeoutSec: 60, retries: 2 });
  lab.turn(observedOf([ref], "running"));
  lab.advance(60 * MINUTE);
  lab.turn(observedOf([ref], "stopped"));
  expect(only(lab.settlements).failure?.code).toBe("OUTCOME_LOST");
});

test("a sweep stops strays of this object only, at most once a minute", () => {
  const lab = clusterLab();
  const { ref, name } = started(lab);
  const listed = [name, "evd-0123abcd-00stray-3", "evd-ffffffff-00stray-3", "something-else"];
  lab.advance(61_000);
  const effects = lab.turn(observedOf([ref], "running", { listed }));
  expect(only(stopsOf(effects))).toMatchObject({ runId: "run_00stray", epoch: 3, target: "gpu", workspace: "acme" });
  lab.now += 5_000;
  expect(stopsOf(lab.turn(observedOf([ref], "running", { listed })))).toHaveLength(0);
});

test("an answer for an old epoch changes nothing", () => {
  const lab = clusterLab();
  const { ref } = started(lab, { retries: 1 });
  lab.advance(1_100);
  lab.turn(observedOf([ref], "absent"));
  lab.advance(11_000);
  lab.turn(observedOf([ref], "absent"));
  const again = only(startsOf(lab.advance(5_000)));
  expect(again.epoch).toBe(2);
  lab.turn(startedOf([again]));
  lab.turn(observedOf([ref], "finished"));
  lab.turn({ type: "startAnswers", answers: [{ kind: "failed", ...ref, failure: failedWith("config").failure }] });
  expect(lab.settlements).toHaveLength(0);
  lab.turn(observedOf([again], "finished"));
  expect(only(lab.settlements)).toMatchObject({ status: "succeeded", epoch: 2, attempts: [{ state: "failed" }, {}] });
});

test("a failed start ends the attempt by its class: infra is retried, config is not", () => {
  const lab = clusterLab();
  const ref = only(startsOf(lab.enqueue(entryOf({ retries: 1 }))));
  lab.turn({ type: "startAnswers", answers: [{ kind: "failed", ...ref, failure: failedWith("infra").failure }] });
  expect(only(startsOf(lab.advance(3_000))).epoch).toBe(2);
  const other = only(startsOf(lab.enqueue(entryOf({ retries: 1 }))));
  lab.turn({ type: "startAnswers", answers: [{ kind: "failed", ...other, failure: failedWith("config").failure }] });
  expect(only(lab.settlements).failure?.class).toBe("config");
});

test("a start withheld after a lost one keeps its name, for the first may have taken effect", () => {
  const lab = clusterLab();
  const ref = only(startsOf(lab.enqueue(entryOf())));
  lab.turn(unknownOf([ref]));
  expect(startsOf(lab.advance(1_100))).toEqual([ref]);
  const withheld = {
    kind: "withheld" as const,
    ...ref,
    reason: "relay-offline" as const,
    detail: "gone",
    retryAfterSec: 5,
  };
  lab.turn({ type: "startAnswers", answers: [withheld] });
  expect(startsOf(lab.advance(6_000))).toEqual([ref]);
});

test("three errors in a row open the lane for 30 s; one probe then closes it by starting", () => {
  const lab = clusterLab({ slots: 10 });
  const starts = startsOf(lab.enqueue(entriesOf(3)));
  for (const ref of starts) lab.turn(unknownOf([ref]));
  expect(healthOf(lab.state, lab.now).state).toBe("open");
  const waiting = entriesOf(3);
  expect(startsOf(lab.enqueue(waiting))).toHaveLength(0);
  const tries = startsOf(lab.advance(31_000)).filter(({ runId }) => waiting.some((entry) => entry.runId === runId));
  expect(tries).toHaveLength(1);
  expect(lab.why(waiting[1]?.runId ?? "")).toMatch(/^circuit: one job tries/);
  const effects = lab.turn(startedOf(tries));
  expect(startsOf(effects)).toHaveLength(2);
  expect(healthOf(lab.state, lab.now).state).toBe("ok");
});

test("a probe that gets no answer opens the lane again", () => {
  const lab = clusterLab({ slots: 10 });
  for (const ref of startsOf(lab.enqueue(entriesOf(3)))) lab.turn(unknownOf([ref]));
  const entry = entryOf();
  lab.enqueue(entry);
  const probe = startsOf(lab.advance(31_000)).filter(({ runId }) => runId === entry.runId);
  lab.turn(unknownOf(probe));
  const next = entryOf();
  expect(startsOf(lab.enqueue(next))).toHaveLength(0);
  expect(lab.why(next.runId)).toMatch(/^circuit: .* next try at/);
});

test("a job's own failures never open the lane", () => {
  const lab = clusterLab({ slots: 10 });
  for (let i = 0; i < 6; i++) {
    const ref = only(startsOf(lab.enqueue(entryOf())));
    lab.turn({ type: "startAnswers", answers: [{ kind: "failed", ...ref, failure: failedWith("config").failure }] });
  }
  expect(healthOf(lab.state, lab.now).state).toBe("ok");
});

test("a 429 pauses the lane for as long as it says and does not count", () => {
  const lab = clusterLab({ slots: 10 });
  const [ref] = startsOf(lab.enqueue(entryOf()));
  if (!ref) throw new Error("a start");
  for (let i = 0; i < 5; i++) lab.turn(unknownOf([ref], 20));
  const entry = entryOf();
  expect(startsOf(lab.enqueue(entry))).toHaveLength(0);
  expect(lab.why(entry.runId)).toMatch(/^circuit: the cluster asked for a pause/);
  expect(healthOf(lab.state, lab.now).state).toBe("degraded");
  expect(startsOf(lab.advance(21_000)).map(({ runId }) => runId)).toContain(entry.runId);
});
