import { bulkServer } from "../test/support/bulk-server.ts";
import { RelayLab, relayProcess } from "../test/support/relay-lab.ts";
import type { Transport } from "../worker/backends/transport/transport.ts";
import { latencyOf } from "./measure.ts";

/* What a relay costs on the loopback: both ways start in the same Worker and end at the same server. */

const ROUNDS = 20;
const REQUESTS = 100;
const STREAM_BYTES = 256 * 1024 * 1024;
const MIB = 1024 * 1024;
/** Added by a relay at the median, in ms. */
const GOAL_MS = 3;

async function get(way: Transport, path: string): Promise<number> {
  const signal = AbortSignal.timeout(120_000);
  const { body } = await way.fetch({ method: "GET", path, headers: {}, signal, deadlineMs: 120_000 });
  let bytes = 0;
  const reader = body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) bytes += part.value.length;
  return bytes;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

const server = await bulkServer();
const lab = await RelayLab.open();
const relay = await relayProcess(lab.url, await lab.pair("rly-bench", "bench"), ["--allow-host", "127.0.0.1"]);
await relay.up();
const ways = {
  direct: lab.transport(null, server.address),
  relayed: lab.through("rly-bench", { kind: "address", url: server.address }),
};

const times: Record<keyof typeof ways, number[]> = { direct: [], relayed: [] };
// In turns, so that whatever else the machine does falls on both alike; the first round warms up.
for (let round = 0; round <= ROUNDS; round++) {
  for (const name of ["direct", "relayed"] as const) {
    for (let n = 0; n < REQUESTS; n++) {
      const ms = await timed(() => get(ways[name], "/small"));
      if (round > 0) times[name].push(ms);
    }
  }
}
const direct = latencyOf(times.direct);
const relayed = latencyOf(times.relayed);
const rate = async (way: Transport): Promise<number> =>
  STREAM_BYTES / MIB / ((await timed(() => get(way, `/bulk?bytes=${STREAM_BYTES}`))) / 1_000);
const streams = { direct: await rate(ways.direct), relayed: await rate(ways.relayed) };

const added = relayed.p50 - direct.p50;
const line = (name: string, { p50, p99 }: typeof direct): string =>
  `  ${name.padEnd(8)} p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`;
console.log(`GET, ${ROUNDS * REQUESTS} requests each way, one by one:`);
console.log(line("direct", direct));
console.log(line("relayed", relayed));
console.log(
  `  added    p50 ${added.toFixed(2)} ms (goal ≤ ${GOAL_MS}), p99 ${(relayed.p99 - direct.p99).toFixed(2)} ms; ratio ${(relayed.p50 / direct.p50).toFixed(2)} / ${(relayed.p99 / direct.p99).toFixed(2)}`,
);
console.log(`log stream of ${STREAM_BYTES / MIB} MiB:`);
console.log(
  `  direct ${streams.direct.toFixed(0)} MiB/s, relayed ${streams.relayed.toFixed(0)} MiB/s; ratio ${(streams.relayed / streams.direct).toFixed(2)}`,
);
await relay.stop();
await lab.close();
await server.close();
process.exit(added <= GOAL_MS ? 0 : 1);
