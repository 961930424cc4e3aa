import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NomadBackend } from "../../../worker/backends/nomad/backend.ts";
import { directTransport } from "../../../worker/backends/transport/direct.ts";
import { REAL_CLOCK } from "../../support/fake-nomad/clock.ts";
import { FakeNomad } from "../../support/fake-nomad/fake-nomad.ts";
import { type FakeServer, serveFakeNomad } from "../../support/fake-nomad/server.ts";
import { attemptOf } from "../attempts.ts";
import { nomadSpec } from "./fake-target.ts";
import { OWNER, outcomeLine, SECRET, unitOf } from "./lab.ts";

describe("Nomad over the direct transport and a real socket", () => {
  const nomad = new FakeNomad({ clock: REAL_CLOCK });
  let server: FakeServer;
  let backend: NomadBackend;

  beforeAll(async () => {
    nomad.addToken(SECRET);
    server = await serveFakeNomad(nomad);
    const transport = directTransport({ address: server.address, allowPrivate: true });
    backend = new NomadBackend({ spec: nomadSpec(), owner: OWNER, transport, token: SECRET });
  });
  afterAll(() => server.close());

  test("a job starts, wakes the blocking listing when it ends, is collected and is gone", async () => {
    const attempt = attemptOf(OWNER, { secrets: { KEY: "v" } });
    expect(await backend.start(attempt)).toMatchObject({ kind: "started", adopted: false });
    const job = nomad.cluster.jobs.get(attempt.job.name);
    if (job) job.submitMs -= 60_000;
    const began = Date.now();
    const seen = backend.observe([unitOf(attempt)], { waitMs: 20_000 });
    await expect.poll(() => nomad.requests.some((line) => line.includes("wait="))).toBe(true);
    const [alloc] = nomad.cluster.of(attempt.job.name);
    if (!alloc) throw new Error("not placed");
    nomad.cluster.endTask(alloc, { exitCode: 0, files: { "/alloc/data/outcome": outcomeLine(attempt.nonce) } });
    expect(await seen).toMatchObject({ ok: true, units: [{ state: "finished", end: { kind: "outcome" } }] });
    expect(Date.now() - began).toBeLessThan(20_000);
    await backend.collect([attempt.job.name]);
    expect(nomad.cluster.variables.size).toBe(0);
    expect(await backend.observe([], { waitMs: 0 })).toEqual({ ok: true, units: [], listed: [] });
  });

  test("a connection that breaks after the register took effect leaves one job, which is adopted", async () => {
    const attempt = attemptOf(OWNER);
    nomad.faults.plan(/^POST \/v1\/jobs\?/, { kind: "lost-answer" });
    expect(await backend.start(attempt)).toMatchObject({ kind: "unknown", error: { code: "UPSTREAM_ERROR" } });
    expect(await backend.start(attempt)).toMatchObject({ kind: "started", adopted: true });
    expect(nomad.cluster.executions.get(attempt.job.name)).toBe(1);
  });

  test("a closed port is told as such", async () => {
    const transport = directTransport({ address: "http://127.0.0.1:9", allowPrivate: true });
    const closed = new NomadBackend({ spec: nomadSpec(), owner: OWNER, transport, token: SECRET });
    expect(await closed.probe()).toMatchObject({ reachable: false, reason: "connect" });
  });

  test("the production profile dials no loopback address", () => {
    expect(() => directTransport({ address: server.address, allowPrivate: false })).toThrow(/relay/);
  });
});
