import { ensureBuilt } from "../scripts/build.ts";
import { bullmq } from "./bullmq.ts";
import { everdict } from "./everdict.ts";
import { type Floor, floor } from "./floor.ts";
import { graphile } from "./graphile.ts";
import { BATCH, type Figures, JOBS, SAMPLES, WORKERS } from "./measure.ts";

/** Idle workers beside the one that is woken. */
const IDLE = [1, 400] as const;

const rounded = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toFixed(1));

function print(all: readonly Figures[]): void {
  const [own] = all;
  if (!own) return;
  console.log(
    `${JOBS} jobs a measurement; single: ${WORKERS} workers of one job; batched: ${BATCH} at a time; wake: ${SAMPLES} jobs, one by one`,
  );
  console.log("one run on this machine; ratio = everdict ÷ peer (rates: higher is better, wake: lower is better)\n");
  for (const figures of all) {
    console.log(`${figures.name}  (${figures.durability})`);
    console.log(
      `  single   ${rounded(figures.single)} jobs/s${figures === own ? "" : `   ratio ${(own.single / figures.single).toFixed(2)}`}`,
    );
    console.log(
      `  batched  ${rounded(figures.batched)} jobs/s${figures === own ? "" : `   ratio ${(own.batched / figures.batched).toFixed(2)}`}`,
    );
    console.log(
      `  batched, same job and its result stored   ${rounded(figures.sameWork)} jobs/s${figures === own ? "" : `   ratio ${(own.sameWork / figures.sameWork).toFixed(2)}`}`,
    );
    for (const [idle, { p50, p99 }] of figures.wake) {
      const mine = own.wake.get(idle);
      const ratio =
        figures === own || !mine ? "" : `   ratio ${(mine.p50 / p50).toFixed(2)} / ${(mine.p99 / p99).toFixed(2)}`;
      console.log(
        `  wake with ${String(idle).padStart(3)} idle   p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms${ratio}`,
      );
    }
  }
}

/** What part of a figure is the runtime's own: no queue on it does better. */
function printFloor(own: Figures, { batched, wake }: Floor): void {
  console.log("the runtime alone  (the same bodies and calls; nothing is checked, and batched stores nothing)");
  console.log(
    `  batched  ${rounded(batched)} jobs/s   everdict reaches ${((100 * own.batched) / batched).toFixed(0)} %`,
  );
  const mine = own.wake.get(1);
  const share = mine
    ? `   everdict takes ${(mine.p50 / wake.p50).toFixed(2)} / ${(mine.p99 / wake.p99).toFixed(2)} of it`
    : "";
  console.log(`  wake with   1 idle   p50 ${wake.p50.toFixed(1)} ms, p99 ${wake.p99.toFixed(1)} ms${share}`);
}

await ensureBuilt();
const { figures, job } = await everdict(IDLE);
print([figures, await graphile(IDLE, job), await bullmq(IDLE, job)]);
printFloor(figures, await floor(job));
process.exit(0);
