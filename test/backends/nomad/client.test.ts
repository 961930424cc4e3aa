import { describe, expect, test } from "vitest";
import { NomadClient } from "../../../worker/backends/nomad/client.ts";
import type { Transport, TransportRequest } from "../../../worker/backends/transport/transport.ts";
import { attemptOf } from "../attempts.ts";
import { Lab, OWNER, outcomeLine } from "./lab.ts";

const silent: Transport = {
  fetch: ({ signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true })),
};
/** Ignores the signal altogether, and never ends its body. */
const halfOpen: Transport = {
  fetch: () => Promise.resolve({ status: 200, headers: new Headers(), body: new ReadableStream<Uint8Array>({}) }),
};

function clientOf(transport: Transport, token: string | null = "t"): NomadClient {
  return new NomadClient({ transport, token, namespace: "evd", region: "eu", sleep: () => Promise.resolve() });
}

const GET = { method: "GET", path: "/v1/jobs", right: "list-jobs", timeoutMs: 30 } as const;

describe("requests to a Nomad server", () => {
  test.each([
    ["hangs", silent],
    ["opens and stays half-open", halfOpen],
  ])("a server that %s is given up in time", async (_name, transport) => {
    await expect(clientOf(transport).ask(GET)).rejects.toMatchObject({ code: "UPSTREAM_TIMEOUT", uncertain: false });
    await expect(clientOf(transport).ask({ ...GET, method: "POST" })).rejects.toMatchObject({ uncertain: true });
  });

  test("namespace, region and token go along; the token only in its header", async () => {
    const seen: TransportRequest[] = [];
    const transport: Transport = {
      fetch(request) {
        seen.push(request);
        return Promise.resolve({ status: 200, headers: new Headers(), body: null });
      },
    };
    await clientOf(transport, "secret-id").ask(GET);
    expect(seen[0]?.path).toBe("/v1/jobs?namespace=evd&region=eu");
    expect(seen[0]?.headers["x-nomad-token"]).toBe("secret-id");
    await clientOf(transport, null).ask(GET);
    expect(seen[1]?.headers).not.toHaveProperty("x-nomad-token");
  });

  test("a certificate that is not trusted is told as that", async () => {
    const transport: Transport = {
      fetch: () => Promise.reject(new TypeError("fetch failed", { cause: new Error("self-signed certificate") })),
    };
    await expect(clientOf(transport).ask(GET)).rejects.toMatchObject({ code: "UPSTREAM_MISCONFIGURED", reason: "tls" });
  });

  test("a redirect is never followed, with or without a token", async () => {
    const transport: Transport = {
      fetch: () =>
        Promise.resolve({ status: 302, headers: new Headers({ location: "http://169.254.169.254/" }), body: null }),
    };
    await expect(clientOf(transport).ask(GET)).rejects.toMatchObject({ code: "UPSTREAM_MISCONFIGURED" });
  });

  test("an answer that never ends is cut off with an error", async () => {
    const lab = new Lab();
    lab.nomad.faults.plan(/./, { kind: "endless" });
    await expect(clientOf(lab.nomad.transport()).ask({ ...GET, timeoutMs: 5_000 })).rejects.toMatchObject({
      code: "UPSTREAM_ERROR",
    });
  });
});

describe("logs of a job on Nomad", () => {
  const tail = { tailBytes: 1_000 };

  test("N 41: the last bytes of both streams, while it runs and after", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.allocation(attempt).stdout = "one\ntwo\n";
    lab.allocation(attempt).stderr = "err\n";
    expect(await lab.backend.logs(attempt.job.name, tail)).toEqual({ text: "one\ntwo\nerr\n", live: true });
    expect((await lab.backend.logs(attempt.job.name, { tailBytes: 4 })).text).toBe("o\nr\n");
    lab.end(attempt);
    expect(await lab.backend.logs(attempt.job.name, tail)).toMatchObject({ live: false });
  });

  test("N 16: a job that has no log yet is live and empty, an unknown one is NOT_FOUND", async () => {
    const lab = new Lab();
    const waiting = await lab.started({ job: { resources: { cpu: null, memoryMb: 900_000, gpu: null } } });
    expect(await lab.backend.logs(waiting.job.name, tail)).toEqual({ text: "", live: true });
    const pending = attemptOf(OWNER, { secrets: { K: "v" } });
    lab.nomad.faults.plan(/^PUT/, { kind: "answer", answer: { status: 200, body: {} } });
    await lab.backend.start(pending);
    expect(await lab.backend.logs(pending.job.name, tail)).toEqual({ text: "", live: true });
    await expect(lab.backend.logs("evd-nobody", tail)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("N 17: a log that the node has collected names client.gc_max_allocs, one on a node that is away does not", async () => {
    const lab = new Lab();
    const attempt = await lab.started();
    lab.end(attempt, { outcome: outcomeLine(attempt.nonce) });
    const alloc = lab.allocation(attempt);
    const logs = () =>
      lab.backend.logs(attempt.job.name, tail).then(
        () => "served",
        (error: Error) => error.message,
      );
    alloc.collected = true;
    expect(await logs()).toContain("client.gc_max_allocs");
    alloc.collected = false;
    const node = lab.nomad.cluster.nodes.get("cli1");
    if (node) node.alive = false;
    expect(await logs()).toContain("does not answer");
    expect(await logs()).not.toContain("gc_max_allocs");
  });

  test("N 24: a log that the token may not read names the right", async () => {
    const lab = new Lab({ rights: ["list-jobs", "read-job", "submit-job"] });
    const attempt = await lab.started();
    await expect(lab.backend.logs(attempt.job.name, tail)).rejects.toMatchObject({
      code: "UPSTREAM_MISCONFIGURED",
      message: expect.stringContaining("read-fs"),
    });
  });
});
