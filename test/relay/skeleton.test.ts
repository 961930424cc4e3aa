import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { certificateAuthority } from "../support/certificates.ts";
import { FakeKubernetes } from "../support/fake-kubernetes/fake-kubernetes.ts";
import { type FakeServer, serveFakeKubernetes } from "../support/fake-kubernetes/server.ts";
import { RelayLab, type RelayProcess, relayProcess } from "../support/relay-lab.ts";

let lab: RelayLab;
let relay: RelayProcess;
let server: FakeServer;
let folder: string;

beforeAll(async () => {
  const authority = await certificateAuthority();
  const fake = new FakeKubernetes({ namespace: "evals", token: "a-token" });
  server = await serveFakeKubernetes({
    fake,
    tls: { ...(await authority.server()), ca: authority.ca },
    token: "a-token",
  });
  folder = await mkdtemp(join(tmpdir(), "everdict-kubeconfig-"));
  await writeFile(join(folder, "ca.crt"), authority.ca);
  lab = await RelayLab.open();
  const token = await lab.pair("rly-01", "lab");
  relay = await relayProcess(lab.url, token, ["--allow-host", "127.0.0.1", "--ca-file", join(folder, "ca.crt")]);
  await relay.up();
});
afterAll(async () => {
  await relay?.stop();
  await lab?.close();
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

test("a request reaches a cluster with a private CA through relay, object and transport", async () => {
  const transport = lab.through("rly-01", { kind: "address", url: server.address });
  const answer = await transport.fetch({
    method: "GET",
    path: "/version",
    headers: { authorization: "Bearer a-token" },
    signal: AbortSignal.timeout(5_000),
  });
  expect(answer.status).toBe(200);
  expect(await new Response(answer.body).json()).toMatchObject({ gitVersion: "v1.34.4" });
});
