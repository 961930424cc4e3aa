import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type BulkServer, bulkServer } from "../support/bulk-server.ts";
import { until } from "../support/control-plane.ts";
import { type LabTransport, RelayLab, type RelayProcess, relayProcess } from "../support/relay-lab.ts";

const MIB = 1024 ** 2;
/** A GiB where there is time. */
const BYTES = (process.env.EVERDICT_LONG ? 1024 : 256) * MIB;

let server: BulkServer;
let lab: RelayLab;
let relay: RelayProcess;
let transport: LabTransport;

beforeAll(async () => {
  server = await bulkServer();
  lab = await RelayLab.open();
  relay = await relayProcess(lab.url, await lab.pair("rly-01", "lab"), ["--allow-host", `127.0.0.1:${server.port}`]);
  await relay.up();
  transport = lab.through("rly-01", { kind: "address", url: server.address });
});
afterAll(async () => {
  await relay?.stop();
  await lab?.close();
  await server?.close();
});

const get = (path: string, ms = 600_000, way = transport) =>
  way.fetch({ method: "GET", path, headers: {}, signal: AbortSignal.timeout(ms), deadlineMs: ms });

/** Resident memory of a process in MiB. */
function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
}

/** workerd below this process: where the object lives. */
function workerdPid(): number {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      if (/^Name:\s+workerd/.test(status) && new RegExp(`^PPid:\\s+${process.pid}$`, "m").test(status))
        return Number(pid);
    } catch {
      // It has ended meanwhile.
    }
  }
  throw new Error("no workerd below this process");
}

const median = (values: number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

/** Times of small requests one after the other, in ms. */
async function timesOf(count: number): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < count; n++) {
    const began = performance.now();
    await new Response((await get("/small")).body).text();
    times.push(performance.now() - began);
  }
  return times;
}

test(`a log of ${BYTES / MIB} MiB read slowly delays nobody and is held by nobody; read on, it comes whole`, async () => {
  const workerd = workerdPid();
  await timesOf(200);
  const before = { relay: residentMb(relay.pid), workerd: residentMb(workerd) };
  const alone: number[] = [];
  const beside: number[] = [];
  const ratios: number[] = [];
  const { body } = await get(`/bulk?bytes=${BYTES}`);
  if (!body) throw new Error("a body");
  const reader = body.getReader();
  let bytes = 0;
  const readSome = async (): Promise<boolean> => {
    const { done, value } = await reader.read();
    bytes += value?.length ?? 0;
    return !done;
  };
  // Alternating, so that whatever else this machine does falls on both alike.
  let peak = { relay: 0, workerd: 0 };
  let reading = true;
  let slow = false;
  const slowly = (async () => {
    while (reading) {
      if (slow) await readSome();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  })();
  for (let round = 0; round < 20; round++) {
    slow = false;
    const without = await timesOf(40);
    slow = true;
    const along = await timesOf(40);
    alone.push(...without);
    beside.push(...along);
    ratios.push(median(along) / median(without));
    peak = {
      relay: Math.max(peak.relay, residentMb(relay.pid)),
      workerd: Math.max(peak.workerd, residentMb(workerd)),
    };
  }
  reading = false;
  await slowly;
  const slowBytes = bytes;
  const memory = (): typeof peak => ({ relay: residentMb(relay.pid), workerd: residentMb(workerd) });
  while (bytes < BYTES / 4 && (await readSome()));
  const quarter = memory();
  while (await readSome());
  const whole = memory();
  const ratio = median(ratios);
  const shown = (at: typeof peak): string => `relay ${at.relay.toFixed(0)}, workerd ${at.workerd.toFixed(0)} MiB`;
  process.stdout.write(
    `slow reader: GET p50 ${median(alone).toFixed(2)} ms alone, ${median(beside).toFixed(2)} ms beside it (x${ratio.toFixed(2)})\n` +
      `memory: before ${shown(before)}; ${(slowBytes / MIB).toFixed(0)} MiB read slowly ${shown(peak)}; a quarter read ${shown(quarter)}; ${BYTES / MIB} MiB read ${shown(whole)}\n`,
  );
  expect(bytes).toBe(BYTES);
  // 1.1 is the goal, which the line above shows; a busy machine moves it by a fifth. One who holds others up stops them.
  expect(ratio).toBeLessThan(1.5);
  // The garbage of both engines has its level; what is held does not grow with what went through.
  expect(whole.relay - quarter.relay).toBeLessThan(64);
  expect(whole.workerd - quarter.workerd).toBeLessThan(96);
});

test("whoever stops listening ends the request at the cluster: by a signal, by a deadline, by reading no further", async () => {
  const quiet = () => until("nobody hangs", 5_000, async () => server.hanging() === 0);
  const signal = AbortSignal.timeout(60_000);
  const hang = { method: "GET" as const, path: "/hang", headers: {}, signal };
  await expect(transport.fetch({ ...hang, abortMs: 300, deadlineMs: 600_000 })).rejects.toThrow();
  await quiet();
  const late = transport.fetch({ ...hang, abortMs: 60_000, deadlineMs: 400 });
  await expect(late).rejects.toMatchObject({ code: "UPSTREAM_TIMEOUT" });
  await quiet();
  const { body } = await get("/drip?ms=20");
  const reader = body?.getReader();
  expect(new TextDecoder().decode((await reader?.read())?.value)).toMatch(/^line 0/);
  expect((await lab.state("rly-01")).inFlight).toBe(1);
  await reader?.cancel();
  await until("the stream is over", 5_000, async () => (await lab.state("rly-01")).inFlight === 0);
});

test("what the cluster sends comes as it is sent, and an answer that breaks off is an error", async () => {
  const { body } = await get("/drip?ms=50");
  const reader = body?.getReader();
  let text = "";
  const began = performance.now();
  while (!text.includes("line 5")) text += new TextDecoder().decode((await reader?.read())?.value);
  expect(performance.now() - began).toBeLessThan(2_000);
  await reader?.cancel();
  // Before its head or after it: the server does not wait in between.
  await expect(get("/cut").then(({ body }) => new Response(body).text())).rejects.toThrow();
});

test("bodies of up to 2 MiB go up unchanged, larger ones are refused in words", async () => {
  const post = (body: string) =>
    transport.fetch({ method: "POST", path: "/echo", headers: {}, body, signal: AbortSignal.timeout(20_000) });
  for (const size of [0, 1, 70_000, 2 * MIB - 16]) {
    const body = "äbc-".repeat(size / 5).slice(0, size);
    expect(await new Response((await post(body)).body).text()).toBe(body);
  }
  await expect(post("x".repeat(2 * MIB + 1))).rejects.toMatchObject({
    code: "UPSTREAM_MISCONFIGURED",
    message: expect.stringContaining("at most"),
  });
});

test("120 requests at once each get their own answer", async () => {
  const texts = await Promise.all(
    Array.from({ length: 120 }, async (_, n) => new Response((await get(`/n${n}`)).body).text()),
  );
  expect(texts).toEqual(Array.from({ length: 120 }, (_, n) => `small /n${n}`));
});

test("hundreds of requests that are given up at any moment leave nothing behind, on either side", async () => {
  const paths = ["/small", "/bulk?bytes=3000000", "/hang", "/drip?ms=1", "/cut", "/redirect?to=x"];
  let answers = 0;
  let refusals = 0;
  const signal = AbortSignal.timeout(60_000);
  const once = async (n: number): Promise<void> => {
    const abortMs = 5 + Math.floor(Math.random() * 120);
    const method: "POST" | "GET" = n % 3 === 0 ? "POST" : "GET";
    const body = method === "POST" ? "x".repeat(Math.random() * MIB) : undefined;
    const path = paths[n % paths.length] ?? "";
    const asked = { method, path, headers: {}, body, signal, abortMs, deadlineMs: 600_000 };
    const { body: answer } = await transport.fetch(asked);
    answers++;
    const reader = answer?.getReader();
    for (let parts = Math.random() * 20; parts > 0; parts--) if ((await reader?.read())?.done) return;
    await reader?.cancel();
  };
  for (let round = 0; round < 10; round++)
    await Promise.all(Array.from({ length: 60 }, (_, n) => once(n).catch(() => refusals++)));
  expect(answers).toBeGreaterThan(100);
  expect(refusals).toBeGreaterThan(50);
  await until("nothing is on its way", 10_000, async () => (await lab.state("rly-01")).inFlight === 0);
  await until("nobody hangs", 10_000, async () => server.hanging() === 0);
  expect(relay.output.match(/relay connected/g)).toHaveLength(1);
  expect(await new Response((await get("/well")).body).text()).toBe("small /well");
});

test("an idle relay's object is evicted with the socket open, and still answers", { timeout: 90_000 }, async () => {
  const idle = await relayProcess(lab.url, await lab.pair("rly-02", "lab"), [
    "--allow-host",
    `127.0.0.1:${server.port}`,
  ]);
  await idle.up();
  const way = lab.through("rly-02", { kind: "address", url: server.address });
  expect(await new Response((await get("/before", 60_000, way)).body).text()).toBe("small /before");
  const awake = await lab.state("rly-02");
  expect(awake.requestsPerSec).toBeGreaterThan(0);
  let asleep = awake;
  // Longer than the runtime keeps an object that nobody talks to; a busy machine may be late with it.
  for (const idleMs of [14_000, 28_000]) {
    await new Promise((resolve) => setTimeout(resolve, idleMs));
    asleep = await lab.state("rly-02");
    if (asleep.requestsPerSec === 0) break;
  }
  const { requestsPerSec, online, connectedAt } = asleep;
  // The counter lives in memory only: another life of the object began, on the same connection.
  expect({ requestsPerSec, online, connectedAt }).toEqual({
    requestsPerSec: 0,
    online: true,
    connectedAt: awake.connectedAt,
  });
  expect(idle.output.match(/relay connected/g)).toHaveLength(1);
  expect(await new Response((await get("/awake", 60_000, way)).body).text()).toBe("small /awake");
  await idle.stop();
});

test("a relay that is killed: requests end at once and may be tried again, the state says since when, a new one goes on", async () => {
  const hang = expect(get("/hang")).rejects.toMatchObject({ code: "UPSTREAM_ERROR", reason: "cut", uncertain: false });
  const write = expect(
    transport.fetch({ method: "POST", path: "/hang", headers: {}, body: "x", signal: AbortSignal.timeout(20_000) }),
  ).rejects.toMatchObject({ code: "UPSTREAM_ERROR", reason: "cut", uncertain: true });
  await until("both are on their way", 5_000, async () => server.hanging() === 2);
  const began = performance.now();
  await relay.kill();
  await Promise.all([hang, write]);
  expect(performance.now() - began).toBeLessThan(2_000);
  const { online, words } = await lab.state("rly-01");
  expect(online).toBe(false);
  expect(words).toMatch(/^relay 'lab' is offline, last seen 20\d\d-/);
  await expect(get("/small")).rejects.toMatchObject({ reason: "relay-offline", message: words, uncertain: false });
  await relay.up();
  expect(relay.output.match(/"generation":\d+/g)).toEqual(['"generation":1', '"generation":2']);
  expect(await new Response((await get("/back")).body).text()).toBe("small /back");
});
