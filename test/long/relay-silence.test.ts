import { afterAll, beforeAll, expect, test } from "vitest";
import { SILENCE_MS } from "../../contracts/relay-protocol.ts";
import { type BulkServer, bulkServer } from "../support/bulk-server.ts";
import { until } from "../support/control-plane.ts";
import { RelayLab, type RelayProcess, relayProcess } from "../support/relay-lab.ts";

let server: BulkServer;
let lab: RelayLab;
let relay: RelayProcess;

beforeAll(async () => {
  server = await bulkServer();
  lab = await RelayLab.open();
  relay = await relayProcess(lab.url, await lab.pair("rly-01", "lab"), ["--allow-host", `127.0.0.1:${server.port}`]);
  await relay.up();
});
afterAll(async () => {
  await relay?.stop();
  await lab?.close();
  await server?.close();
});

const get = (ms: number) =>
  lab
    .through("rly-01", { kind: "address", url: server.address })
    .fetch({ method: "GET", path: "/x", headers: {}, signal: AbortSignal.timeout(ms), deadlineMs: ms });

test("a relay that stands still keeps no request longer than its deadline, counts as offline when silent, and comes back", {
  timeout: 180_000,
}, async () => {
  const { child } = relay;
  child?.kill("SIGSTOP");
  const stopped = Date.now();
  const began = performance.now();
  await expect(get(2_000)).rejects.toThrow();
  expect(performance.now() - began).toBeLessThan(6_000);
  await until("it counts as offline", SILENCE_MS + 20_000, async () => !(await lab.state("rly-01")).online);
  const { words, lastSeenAt } = await lab.state("rly-01");
  expect(words).toContain("is offline, last seen");
  // The last ping was heard at most 15 s before it stood still, and nothing after.
  expect(Date.parse(lastSeenAt ?? "")).toBeLessThan(stopped + 1_000);
  await expect(get(2_000)).rejects.toMatchObject({ reason: "relay-offline" });
  child?.kill("SIGCONT");
  await until("it is back", 60_000, async () => (await lab.state("rly-01")).online);
  expect((await get(5_000)).status).toBe(200);
});
