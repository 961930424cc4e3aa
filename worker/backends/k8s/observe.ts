import type { BackendOwner, ObserveOptions, SeenUnit, Sighting, WatchedUnit } from "../backend.ts";
import { ClusterError, faultOf } from "../transport/cluster-error.ts";
import { type KubeEvent, type KubeJob, type Pod, timeOf, trueCondition } from "./api-types.ts";
import type { K8sClient } from "./client.ts";
import { collectEnd } from "./collect.ts";
import { type Folded, type FoldOptions, foldUnit, type UnitObjects } from "./fold.ts";
import { MAIN, nameOf, refOfLabels } from "./labels.ts";
import { type Listing, listUnits, listWarnings } from "./listing.ts";
import { sweepLeftovers } from "./remove.ts";
import { RIGHTS } from "./rights.ts";
import { standing, waitForNews } from "./watch.ts";

/** A Worker has six connections at once; reads of ends leave room for others. */
const READS_AT_ONCE = 4;
/** Ends collected in one pass; the others are told as running and come in the next. */
const MAX_ENDS = 100;
const MAX_WAIT_MS = 20_000;
/** Shorter waits are not worth a watch. */
const MIN_WAIT_MS = 1_000;
/** A start this fresh is news: the pass before cannot have told it. */
const FRESH_MS = 3_000;

export interface ObserverContext {
  client: K8sClient;
  owner: BackendOwner;
  placementTimeoutSec: number;
}

/** One pass: two listings whatever the number of units, one more for warnings when a unit cannot start, one read per end. */
export async function observeUnits(
  context: ObserverContext,
  units: readonly WatchedUnit[],
  options: ObserveOptions,
): Promise<Sighting> {
  const { client, owner } = context;
  try {
    let listing = await listUnits(client, owner);
    let folded = await foldAll(context, units, listing);
    const waitMs = Math.min(options.waitMs, MAX_WAIT_MS);
    if (waitMs >= MIN_WAIT_MS && units.length > 0 && !hasNews(folded, listing)) {
      const known = new Map(listing.pods.map((pod) => [pod.metadata.uid, standing(pod)]));
      await waitForNews(client, owner, listing.resourceVersion, known, waitMs).catch(ignoreCluster);
      listing = await listUnits(client, owner);
      folded = await foldAll(context, units, listing);
    }
    if (options.sweep === true) {
      const asked = new Set(units.map(({ name }) => name));
      await sweepLeftovers(client, owner, listing, asked).catch(ignoreCluster);
    }
    return { ok: true, units: await tell(context, folded, listing), listed: listedNames(listing, owner) };
  } catch (error) {
    return { ok: false, error: faultOf(error) };
  }
}

/** A watch or a sweep that fails costs time, no news: the listings say what is. */
function ignoreCluster(error: unknown): void {
  if (!(error instanceof ClusterError)) throw error;
}

type FoldedUnit = { unit: WatchedUnit; folded: Folded };

async function foldAll(
  { client, owner, placementTimeoutSec }: ObserverContext,
  units: readonly WatchedUnit[],
  listing: Listing,
): Promise<FoldedUnit[]> {
  const byName = groupByName(listing, owner);
  const options: FoldOptions = { nowMs: listing.nowMs, placementTimeoutSec };
  const fold = (unit: WatchedUnit, events: readonly KubeEvent[] | null): FoldedUnit => {
    const objects: UnitObjects = { ...(byName.get(unit.name) ?? { job: null, pods: [] }), events };
    return { unit, folded: foldUnit(unit, objects, options) };
  };
  const first = units.map((unit) => fold(unit, null));
  if (!first.some(({ folded }) => folded.kind === "alive" && folded.wantsEvents)) return first;
  const events = await warnings(client);
  if (events === null) return first;
  return first.map((it) => (it.folded.kind === "alive" && it.folded.wantsEvents ? fold(it.unit, events) : it));
}

/** Without them a unit is shown with fewer words, never judged. */
async function warnings(client: K8sClient): Promise<KubeEvent[] | null> {
  try {
    return await listWarnings(client);
  } catch (error) {
    ignoreCluster(error);
    return null;
  }
}

function groupByName(listing: Listing, owner: BackendOwner): Map<string, { job: KubeJob | null; pods: Pod[] }> {
  const groups = new Map<string, { job: KubeJob | null; pods: Pod[] }>();
  for (const job of listing.jobs) groups.set(job.metadata.name, { job, pods: [] });
  for (const pod of listing.pods) {
    const ref = refOfLabels(pod.metadata.labels, owner);
    if (ref === null) continue;
    const name = nameOf(owner, ref);
    const group = groups.get(name) ?? { job: null, pods: [] };
    group.pods.push(pod);
    groups.set(name, group);
  }
  return groups;
}

function hasNews(folded: readonly FoldedUnit[], listing: Listing): boolean {
  if (folded.some(({ folded: { kind } }) => kind !== "alive")) return true;
  return listing.pods.some((pod) => {
    const main = pod.status.containerStatuses?.find(({ name }) => name === MAIN);
    const startedAt = timeOf(main?.state.running?.startedAt);
    return startedAt !== null && listing.nowMs - startedAt < FRESH_MS;
  });
}

/** Units that may still run: phase and conditions lag behind the container's end by 1 to 2 s. */
function listedNames(listing: Listing, owner: BackendOwner): string[] {
  const over = new Set<string>();
  const names = new Set<string>();
  for (const pod of listing.pods) {
    const ref = refOfLabels(pod.metadata.labels, owner);
    if (ref === null) continue;
    const main = pod.status.containerStatuses?.find(({ name }) => name === MAIN);
    const ended = main?.state.terminated != null || /^(Succeeded|Failed)$/.test(pod.status.phase ?? "");
    (ended ? over : names).add(nameOf(owner, ref));
  }
  for (const { metadata, status } of listing.jobs) {
    if (refOfLabels(metadata.labels, owner) === null || over.has(metadata.name)) continue;
    const ended = trueCondition(status.conditions, "Complete") ?? trueCondition(status.conditions, "Failed");
    if (ended === null) names.add(metadata.name);
  }
  return [...names];
}

async function tell({ client }: ObserverContext, folded: readonly FoldedUnit[], listing: Listing): Promise<SeenUnit[]> {
  const seen: SeenUnit[] = [];
  const slow: FoldedUnit[] = [];
  for (const it of folded) {
    const told = tellNow(it);
    if (told !== null) seen.push(told);
    else if (it.folded.kind === "missing" || slow.length < MAX_ENDS) slow.push(it);
    else seen.push({ ...baseOf(it.unit), state: "running" });
  }
  for (let at = 0; at < slow.length; at += READS_AT_ONCE) {
    const batch = slow.slice(at, at + READS_AT_ONCE);
    for (const told of await Promise.all(batch.map((it) => tellAfterRead(client, it, listing.nowMs))))
      if (told !== null) seen.push(told);
  }
  return seen;
}

const baseOf = ({ runId, epoch, name }: WatchedUnit) => ({ runId, epoch, name, node: null, detail: null, end: null });

/** @returns null when only a further read says what it is */
function tellNow({ unit, folded }: FoldedUnit): SeenUnit | null {
  const base = baseOf(unit);
  if (folded.kind === "alive") return { ...base, state: folded.state, node: folded.node, detail: folded.detail };
  if (folded.kind === "stopped") return { ...base, state: "stopped" };
  if (folded.kind !== "failed") return null;
  return { ...base, state: "finished", node: folded.node, end: { kind: "failure", failure: folded.failure } };
}

async function tellAfterRead(client: K8sClient, { unit, folded }: FoldedUnit, nowMs: number): Promise<SeenUnit | null> {
  const base = baseOf(unit);
  if (folded.kind === "ended") {
    const { end } = folded;
    const collected = await collectEnd(client, end, unit.nonce, nowMs);
    if (collected.kind === "later") return { ...base, state: "running", node: end.node, detail: collected.detail };
    return { ...base, state: "finished", node: end.node, end: collected.end };
  }
  try {
    await client.call(RIGHTS.getJob, { name: unit.name });
    return { ...base, state: "pending", detail: "was created a moment ago" };
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    // Any other answer is no evidence: the unit is not told of at all.
    return error.reason === "NotFound" ? { ...base, state: "absent" } : null;
  }
}
