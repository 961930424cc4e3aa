import { expect, test } from "vitest";
import type { NewEntry } from "../../durable-objects/scheduler/events.ts";
import { clusterLab, entriesOf, entryOf, type Lab, LIMITS, observedOf, startedOf, startsOf } from "./lab.ts";

/** Runs admissions one slot at a time and tells whose runs were admitted, in order. */
function admissions(lab: Lab, count: number): NewEntry["runId"][] {
  const order: string[] = [];
  let running = [...lab.state.live.values()].map(({ runId, epoch }) => ({ runId, epoch }));
  while (order.length < count && running.length > 0) {
    const [first, ...rest] = running;
    if (!first) break;
    order.push(first.runId);
    lab.now += 10;
    const effects = lab.turn(observedOf([first], "finished"));
    const starts = startsOf(effects);
    lab.turn(startedOf(starts));
    running = [...rest, ...starts];
  }
  return order;
}

function workspaces(entries: NewEntry[]): (runId: string) => string {
  const owner = new Map(entries.map((entry) => [entry.runId, entry.workspace]));
  return (runId) => owner.get(runId) ?? "?";
}

test("20 runs of one workspace against 2 000 of another finish in about their fair share of the time", () => {
  const lab = clusterLab({ slots: 4 });
  const many = entriesOf(2_000, { workspace: "big", batchId: "sc_big", priority: "batch" });
  const few = entriesOf(20, { workspace: "small", batchId: "sc_small", priority: "batch" });
  lab.enqueue(many);
  lab.enqueue(few);
  const owner = workspaces([...many, ...few]);
  const order = admissions(lab, 60).map(owner);
  const last = order.lastIndexOf("small");
  expect(order.filter((workspace) => workspace === "small")).toHaveLength(20);
  expect(last).toBeLessThan(46);
});

test("equal workspaces get equal shares within 2 %", () => {
  const lab = clusterLab({ slots: 4 });
  const entries = ["a", "b", "c"].flatMap((workspace) => entriesOf(700, { workspace }));
  lab.enqueue(entries);
  const owner = workspaces(entries);
  const counts = new Map<string, number>();
  for (const runId of admissions(lab, 1_500)) counts.set(owner(runId), (counts.get(owner(runId)) ?? 0) + 1);
  for (const count of counts.values()) expect(Math.abs(count - 500)).toBeLessThanOrEqual(10);
});

test("weights share capacity in proportion", () => {
  const lab = clusterLab({ slots: 4 });
  const heavy = entriesOf(900, { workspace: "heavy" });
  const light = entriesOf(900, { workspace: "light" });
  lab.enqueue(heavy, null, { ...LIMITS, weight: 3 });
  lab.enqueue(light);
  const owner = workspaces([...heavy, ...light]);
  const order = admissions(lab, 800).map(owner);
  const share = order.filter((workspace) => workspace === "heavy").length / order.length;
  expect(share).toBeGreaterThan(0.73);
  expect(share).toBeLessThan(0.77);
});

test("whoever takes half the memory pays for half the slots", () => {
  const lab = clusterLab({ slots: 8, memoryBudgetMb: 8_192 });
  const large = entriesOf(400, { workspace: "large", memoryMb: 4_096 });
  const small = entriesOf(400, { workspace: "small", memoryMb: 512 });
  lab.enqueue([...large, ...small]);
  const owner = workspaces([...large, ...small]);
  const order = admissions(lab, 300).map(owner);
  const ratio = order.filter((name) => name === "small").length / order.filter((name) => name === "large").length;
  expect(ratio).toBeGreaterThan(5);
});

test("a workspace that was idle saves up no credit", () => {
  const lab = clusterLab({ slots: 1 });
  const busy = entriesOf(300, { workspace: "busy" });
  lab.enqueue(busy);
  admissions(lab, 200);
  const late = entriesOf(50, { workspace: "late" });
  lab.enqueue(late);
  const owner = workspaces([...busy, ...late]);
  const order = admissions(lab, 40).map(owner);
  const share = order.filter((workspace) => workspace === "late").length;
  expect(share).toBeGreaterThanOrEqual(18);
  expect(share).toBeLessThanOrEqual(22);
});

test("interactive runs go before batch runs, and every fourth admission is the oldest of any class", () => {
  const lab = clusterLab({ slots: 1 });
  const batch = entriesOf(20, { batchId: "sc_1", priority: "batch" });
  const interactive = entriesOf(20, { priority: "interactive" });
  lab.enqueue([...batch, ...interactive]);
  const names = new Set(batch.map((entry) => entry.runId));
  const order = admissions(lab, 12).map((runId) => (names.has(runId) ? "b" : "i"));
  expect(order.join("")).toBe("iiibiiibiiib");
});

test("batches of a workspace share, each first in first out", () => {
  const lab = clusterLab({ slots: 1 });
  const first = entriesOf(50, { batchId: "sc_1", priority: "batch" });
  const second = entriesOf(5, { batchId: "sc_2", priority: "batch" });
  lab.enqueue([...first, ...second]);
  const order = admissions(lab, 20);
  const ids = (entries: NewEntry[]) => entries.map(({ runId }) => runId);
  expect(order.filter((runId) => ids(second).includes(runId))).toEqual(ids(second));
  const ofFirst = order.filter((runId) => ids(first).includes(runId));
  expect(ofFirst).toEqual(ids(first).slice(0, ofFirst.length));
});

test("a batch that is fed one run at a time does not jump the others", () => {
  const lab = clusterLab({ slots: 1 });
  lab.enqueue(entriesOf(100, { batchId: "sc_big", priority: "batch" }));
  let fed = 0;
  let running = [...lab.state.live.values()].map(({ runId, epoch }) => ({ runId, epoch }));
  const feed = () => {
    const waits = [...lab.state.entries.values()].some((entry) => entry.demand.batchId === "sc_fed");
    if (!waits) lab.enqueue(entryOf({ batchId: "sc_fed", priority: "batch" }));
  };
  for (let i = 0; i < 40; i++) {
    feed();
    const starts = startsOf(lab.turn(observedOf(running, "finished")));
    for (const { runId } of starts) if (lab.state.entries.get(runId)?.demand.batchId === "sc_fed") fed += 1;
    lab.turn(startedOf(starts));
    running = starts;
  }
  expect(fed).toBeLessThanOrEqual(21);
});

test("a promoted run goes to the head of its own workspace only", () => {
  const lab = clusterLab({ slots: 1 });
  const mine = entriesOf(10, { workspace: "a" });
  const theirs = entriesOf(10, { workspace: "b" });
  lab.enqueue([...mine, ...theirs]);
  const last = mine.at(-1)?.runId ?? "";
  expect(lab.turn({ type: "promote", runId: last })).toContainEqual({ kind: "promoted", done: true });
  const owner = workspaces([...mine, ...theirs]);
  const order = admissions(lab, 6);
  expect(order.filter((runId) => owner(runId) === "a")[1]).toBe(last);
  expect(order.filter((runId) => owner(runId) === "b")).toHaveLength(3);
});

test("promoting a run that does not wait here is refused", () => {
  const lab = clusterLab();
  const entry = entryOf();
  lab.enqueue(entry);
  expect(lab.turn({ type: "promote", runId: entry.runId })).toContainEqual({ kind: "promoted", done: false });
});
