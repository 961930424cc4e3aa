import type { AttemptRef } from "../../contracts/runner-protocol.ts";
import type { Backend } from "../backends/backend.ts";
import { joinBytes } from "../backends/transport/read-body.ts";
import { type Env, logOf } from "../environment.ts";
import type { Masking } from "../secrets/masking.ts";

/*
 * The live log of a unit on a cluster: steps along it are taken by whoever watches, one at a time, masked, and stored in
 * the run's log object, so that all who watch read the same and can go on where they stopped.
 */

/** Of one whole log; a kubelet and a Nomad node keep less. */
const MAX_LOG_BYTES = 24 * 1024 * 1024;
/** Steps of one go; each takes up to 1 MiB. */
const MAX_STEPS = 40;

export interface FollowedUnit extends AttemptRef {
  /** On the cluster. */
  name: string;
}

interface Step {
  cursor: string;
  live: boolean;
  more: boolean;
  bytes: Uint8Array;
}

async function stepOf(
  backend: Backend,
  name: string,
  from: string | null,
  masking: Masking,
  flush: boolean,
): Promise<Step> {
  const parts: Uint8Array[] = [];
  const step = await backend.follow(name, from, (raw, final) => {
    const { shown, used } = masking.piece(raw, final || flush);
    parts.push(shown);
    return used;
  });
  return { ...step, bytes: joinBytes(parts) };
}

/**
 * Takes what there is and stores it.
 * @returns whether the unit goes on
 * @throws ClusterError
 */
export async function followOn(
  env: Env,
  backend: Backend,
  masking: Masking,
  unit: FollowedUnit,
  from: string | null,
): Promise<{ cursor: string | null; live: boolean }> {
  let cursor = from;
  for (let n = 0; n < MAX_STEPS; n++) {
    const step = await stepOf(backend, unit.name, cursor, masking, false);
    const done = !step.live && !step.more;
    if (step.cursor !== cursor || step.bytes.length > 0 || done) {
      if (!(await logOf(env, unit.runId).follow(unit.epoch, cursor, step.cursor, done, step.bytes)))
        return { cursor: null, live: step.live };
      cursor = step.cursor;
    }
    if (!step.more) return { cursor, live: step.live };
  }
  return { cursor, live: true };
}

/** The rest of a followed log whose unit has ended, before the unit is removed. @throws ClusterError */
export async function finishFollowing(env: Env, backend: Backend, masking: Masking, unit: FollowedUnit): Promise<void> {
  const log = logOf(env, unit.runId);
  for (let n = 0; n < MAX_STEPS; n++) {
    const at = await log.followed(unit.epoch);
    if (at?.done) return;
    const from = at?.cursor ?? null;
    const step = await stepOf(backend, unit.name, from, masking, false);
    const over = !step.more;
    // What was held back is all that is left: nothing comes after it, whatever the cluster's phase says yet.
    const rest = over && step.live ? await stepOf(backend, unit.name, step.cursor, masking, true) : null;
    const bytes = rest ? joinBytes([step.bytes, rest.bytes]) : step.bytes;
    await log.follow(unit.epoch, from, rest?.cursor ?? step.cursor, over, bytes);
  }
}

const keyOf = (workspace: string, { runId, epoch }: AttemptRef): string => `logs/${workspace}/${runId}/${epoch}.txt`;

/** The whole log of an ended unit, masked, into the bucket. @throws ClusterError */
export async function archiveLog(
  bucket: R2Bucket,
  backend: Backend,
  masking: Masking,
  workspace: string,
  unit: FollowedUnit,
): Promise<void> {
  const parts: Uint8Array[] = [];
  let cursor: string | null = null;
  let bytes = 0;
  for (let more = true; more && bytes < MAX_LOG_BYTES; ) {
    const step: Step = await stepOf(backend, unit.name, cursor, masking, false);
    parts.push(step.bytes);
    bytes += step.bytes.length;
    ({ cursor, more } = step);
    if (!more && step.live) parts.push((await stepOf(backend, unit.name, cursor, masking, true)).bytes);
  }
  await bucket.put(keyOf(workspace, unit), joinBytes(parts), {
    httpMetadata: { contentType: "text/plain; charset=utf-8" },
  });
}

/** The last bytes of an archived log; null when there is none. */
export async function archivedTail(
  bucket: R2Bucket,
  workspace: string,
  ref: AttemptRef,
  tailBytes: number,
): Promise<Uint8Array | null> {
  const found = await bucket.get(keyOf(workspace, ref), { range: { suffix: Math.max(1, tailBytes) } });
  return found ? new Uint8Array(await found.arrayBuffer()) : null;
}
