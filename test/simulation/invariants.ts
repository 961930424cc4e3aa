import { usageOf } from "../../durable-objects/scheduler/capacity.ts";
import type { Effect } from "../../durable-objects/scheduler/events.ts";
import { allBuckets } from "../../durable-objects/scheduler/queue.ts";
import { isWaiting, type State } from "../../durable-objects/scheduler/state.ts";
import type { MemoryRows } from "../core/lab.ts";

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

/** Holds after every turn. */
export function checkAlways(state: State, rows: MemoryRows, effects: Effect[]): void {
  let granted = false;
  const starts = new Set<string>();
  for (const effect of effects) {
    if (effect.kind !== "grant") continue;
    granted = true;
    const key = `${effect.runId}/${effect.epoch}`;
    must(!starts.has(key), `${key} was granted twice`);
    starts.add(key);
  }
  must(rows.live() === state.live.size, `rows say ${rows.live()} live, memory ${state.live.size}`);
  for (const entry of state.live.values()) {
    const { attempt, hold } = entry;
    must((attempt === null) !== (hold === null), `${entry.runId} is live with both or neither attempt and hold`);
    must(state.entries.get(entry.runId) === entry, `${entry.runId} is live and forgotten`);
    if (attempt) must(attempt.epoch === entry.epoch, `${entry.runId} runs epoch ${attempt.epoch} of ${entry.epoch}`);
  }
  if (granted && state.kind === "push" && state.envelope) {
    const used = usageOf(state);
    const { slots, memoryBudgetMb } = state.envelope;
    must(used.slots <= slots, `${used.slots} slots of ${slots} are in use after an admission`);
    // An envelope that shrank below what runs still admits what asks for no memory.
    const asks = effects.some((effect) => effect.kind === "grant" && asksMemory(state, effect.runId));
    const fits = memoryBudgetMb === null || used.memoryMb <= memoryBudgetMb;
    must(!asks || fits, `${used.memoryMb} MB of ${memoryBudgetMb} in use`);
  }
  if (granted && state.kind === "runner") checkInstances(state, effects);
}

const asksMemory = (state: State, runId: string): boolean =>
  state.entries.get(runId)?.demand.ask.memoryMb.declared ?? false;

function checkInstances(state: State, effects: Effect[]): void {
  const held = new Map<string, { slots: number; memoryMb: number }>();
  for (const { attempt, demand } of state.live.values()) {
    if (!attempt) continue;
    const key = `${attempt.runnerId}/${attempt.instanceId}`;
    const sum = held.get(key) ?? { slots: 0, memoryMb: 0 };
    sum.slots += 1;
    if (demand.ask.memoryMb.declared) sum.memoryMb += demand.ask.memoryMb.value;
    held.set(key, sum);
  }
  for (const effect of effects) {
    if (effect.kind !== "grant") continue;
    const attempt = state.entries.get(effect.runId)?.attempt;
    const instance = state.instances.get(`${attempt?.runnerId}/${attempt?.instanceId}`);
    if (!attempt || !instance) continue;
    const sum = held.get(instance.key);
    must((sum?.slots ?? 0) <= instance.slots.total, `${instance.key} holds ${sum?.slots} of ${instance.slots.total}`);
    if (instance.memoryMb)
      must((sum?.memoryMb ?? 0) <= instance.memoryMb.total, `${instance.key} holds ${sum?.memoryMb} MB`);
    const demand = state.entries.get(effect.runId)?.demand;
    must(
      !demand?.runnerId || demand.runnerId === instance.runnerId,
      `${effect.runId} went to a runner it is not bound to`,
    );
  }
}

/** Holds too, and costs more to look at: every order and sum agrees with the entries. */
export function checkDeeply(state: State): void {
  let inBuckets = 0;
  for (const bucket of allBuckets(state)) {
    inBuckets += bucket.entries.size;
    must(bucket.entries.size > 0, "an empty bucket stands in its batch");
    must(bucket.benched === state.bench.has(bucket), "a bucket is benched and not on the bench, or the reverse");
    must(
      bucket.tenant.buckets.has(bucket) !== bucket.benched,
      "a bucket stands neither in the fair order nor on the bench",
    );
    must(bucket.batch.buckets.has(bucket) !== bucket.benched, "a bucket's batch does not know whether it is benched");
    for (const entry of bucket.entries) must(isWaiting(entry), `${entry.runId} waits and runs at once`);
  }
  const live = state.live.size;
  const all = state.entries.size;
  must(
    inBuckets + state.delayed.size + live === all,
    `${inBuckets} + ${state.delayed.size} + ${live} of ${all} entries`,
  );
  let ranked = 0;
  for (const ranks of state.ranks.values()) ranked += ranks.size;
  must(ranked === all - live, `${ranked} entries have a position, ${all - live} wait`);
  const refs = new Map<string, number>();
  const tenants = new Map<string, number>();
  for (const { demand, jobHash } of state.entries.values()) {
    const key = `${demand.workspace}/${jobHash}`;
    refs.set(key, (refs.get(key) ?? 0) + 1);
    tenants.set(demand.workspace, (tenants.get(demand.workspace) ?? 0) + 1);
  }
  must(refs.size === state.jobs.size, `${state.jobs.size} jobs are stored, ${refs.size} are named`);
  for (const [key, count] of refs) must(state.jobs.get(key)?.refs === count, `job ${key} counts its references wrong`);
  for (const tenant of state.tenants.values()) {
    const count = tenants.get(tenant.workspace) ?? 0;
    must(tenant.entries === count, `workspace ${tenant.workspace} counts ${tenant.entries} of ${count} entries`);
    must(state.fair.has(tenant) === tenant.buckets.size > 0, `${tenant.workspace} is out of the fair order`);
  }
}
