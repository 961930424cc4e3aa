import { createHmac, randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Authority, certificateAuthority } from "../support/certificates.ts";
import { ControlPlane, until } from "../support/control-plane.ts";
import { FakeKubernetes } from "../support/fake-kubernetes/fake-kubernetes.ts";
import { type FakeServer, serveFakeKubernetes } from "../support/fake-kubernetes/server.ts";
import { kubeconfig, pemData } from "../support/kubeconfig.ts";
import { type RelayProcess, startRelay } from "../support/relay-lab.ts";
import { execPlugin, scorecardThroughRelay } from "./scorecards.ts";

/* The three ways a credential gets to a cluster with a private CA, each through the whole system. */

const TOKEN = "a-token-of-the-fake-cluster";
/** Of a plugin's token; the cluster refuses it after. */
const EXPIRY_SEC = 6;

describe("scorecards on a cluster with a private CA, through a relay", () => {
  const key = randomBytes(16).toString("hex");
  let folder: string;
  let authority: Authority;
  let fake: FakeKubernetes;
  let server: FakeServer;
  let plane: ControlPlane;
  let relay: RelayProcess;

  const mode = { namespace: "evals", image: "everdict/busybox:1", sleepSec: 1, concurrency: 4 };
  /** Tokens of the plugin: good until a time, and signed. */
  const knows = (token: string): boolean => {
    const [word, until = "", mac] = token.split(".");
    const signed = createHmac("sha256", key).update(until).digest("hex");
    return word === "plugin" && mac === signed && Number(until) > Date.now();
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "everdict-relay-test-"));
    authority = await certificateAuthority();
    fake = new FakeKubernetes({ namespace: mode.namespace, token: TOKEN });
    const tls = { ...(await authority.server()), ca: authority.ca };
    server = await serveFakeKubernetes({ fake, token: TOKEN, tls, knows });
    const own = join(folder, "own");
    await writeFile(own, kubeconfig({ server: server.address, ca: authority.ca, user: { token: TOKEN } }));
    await execPlugin(
      join(folder, "bin"),
      "fake-login",
      `const { appendFileSync } = require("node:fs");
appendFileSync(${JSON.stringify(join(folder, "calls"))}, "x");
const until = Date.now() + ${EXPIRY_SEC * 1_000};
const mac = require("node:crypto").createHmac("sha256", ${JSON.stringify(key)}).update(String(until)).digest("hex");
const { apiVersion } = JSON.parse(process.env.KUBERNETES_EXEC_INFO);
const status = { token: ["plugin", until, mac].join("."), expirationTimestamp: new Date(until).toISOString() };
console.log(JSON.stringify({ apiVersion, kind: "ExecCredential", status }));`,
    );
    plane = await ControlPlane.start();
    relay = await startRelay(
      plane,
      "office",
      [
        "--allow-context",
        "prod",
        "--allow-host",
        `127.0.0.1:${server.port}`,
        "--allow-exec",
        "fake-login",
        "--kubeconfig",
        own,
      ],
      { PATH: `${join(folder, "bin")}:${process.env.PATH ?? ""}` },
    );
  }, 120_000);

  afterAll(async () => {
    await relay?.stop();
    await plane?.stop();
    await server?.close();
    fake?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  const store = (name: string, value: string) =>
    plane.client().call("put_secret", {
      params: { name },
      body: { value, use: "cluster", hosts: [`127.0.0.1:${server.port}`] },
    });

  test("by a context of the relay's machine, whose credential never leaves it", async () => {
    await scorecardThroughRelay(plane, "office", { ...mode, id: "by-context", spec: { context: "prod" } });
    expect(plane.output).not.toContain(TOKEN);
  });

  test("by an uploaded kubeconfig with a client certificate", async () => {
    const { cert, key: secret } = await authority.client("everdict");
    const user = { "client-certificate-data": pemData(cert), "client-key-data": pemData(secret) };
    await store("KUBE_CERT", kubeconfig({ server: server.address, ca: authority.ca, user }));
    await scorecardThroughRelay(plane, "office", {
      ...mode,
      id: "by-certificate",
      spec: { kubeconfigSecret: "KUBE_CERT" },
    });
  });

  test.each(["v1", "v1beta1"])(
    "by an uploaded kubeconfig with an exec plugin of %s, whose tokens run out",
    async (v) => {
      await rm(join(folder, "calls"), { force: true });
      const exec = { apiVersion: `client.authentication.k8s.io/${v}`, command: "fake-login", interactiveMode: "Never" };
      const name = `KUBE_EXEC_${v.toUpperCase()}`;
      await store(name, kubeconfig({ server: server.address, ca: authority.ca, user: { exec } }));
      const took = await scorecardThroughRelay(plane, "office", {
        ...mode,
        sleepSec: 2,
        id: `by-exec-${v}`,
        spec: { kubeconfigSecret: name },
      });
      // One run of the plugin a life of its token, and not one a request.
      const calls = (await readFile(join(folder, "calls"), "utf8")).length;
      expect(took).toBeGreaterThan(EXPIRY_SEC * 1.5);
      expect(calls).toBeGreaterThan(1);
      expect(calls).toBeLessThanOrEqual(Math.ceil(took / (EXPIRY_SEC * 0.7)) + 3);
    },
  );

  test("a run that waits for the relay starts when it is back, not when it is looked for next", async () => {
    const client = plane.client();
    await relay.kill();
    const { id } = await client.call("submit_run", {
      body: {
        harness: { spec: { kind: "command", command: "echo back" } },
        case: { id: "waits", task: "t" },
        runtime: "by-context",
      },
    });
    const run = () => client.call("get_run", { params: { id } });
    await until("it waits for the relay", 20_000, async () => (await run()).waiting?.reason === "relay-offline");
    // It was looked for after 1, 2 and 4 s; the next look is 8 s later.
    await new Promise((resolve) => setTimeout(resolve, 9_000));
    expect((await run()).waiting?.reason).toBe("relay-offline");
    await relay.up();
    await until("it has started", 3_000, async () => (await run()).status !== "queued");
    await until("it has run", 20_000, async () => (await run()).status === "succeeded");
  });

  test("the same kubeconfig without a relay is refused, with the reason and what to run", async () => {
    const client = plane.client();
    await store("KUBE_PLAIN", kubeconfig({ server: server.address, ca: authority.ca, user: { token: TOKEN } }));
    const body = {
      kind: "k8s" as const,
      id: "no-relay",
      version: "1.0.0",
      image: mode.image,
      kubeconfigSecret: "KUBE_PLAIN",
    };
    const valid = await client.call("validate_runtime", { body });
    expect(valid.reachability).toMatchObject({ verdict: "relay", reasons: expect.arrayContaining(["kubeconfig"]) });
    const probe = await client.call("probe_runtime", { body });
    expect(probe).toMatchObject({ reachable: false, reason: "relay" });
    const fix = probe.checks.find(({ name }) => name === "reachability")?.fix;
    expect(fix).toContain("everdict relay --pair");
    expect(fix).toContain(plane.url);
  });

  test("a probe says in the relay's own words what its operator does not allow, and whom nobody trusts", async () => {
    const client = plane.client();
    const body = { kind: "k8s" as const, id: "odd", version: "1.0.0", image: mode.image, relay: "office" };
    const staging = await client.call("probe_runtime", { body: { ...body, context: "staging" } });
    expect(staging).toMatchObject({ reachable: false, reason: "relay" });
    expect(staging.detail).toBe(
      "relay 'office': context 'staging' is not allowed on this relay; its operator adds --allow-context staging",
    );
    expect(staging.checks.at(-1)).toMatchObject({ ok: false, fix: "change what the message names" });
    await store("KUBE_NO_CA", kubeconfig({ server: server.address, user: { token: TOKEN } }));
    const untrusted = await client.call("probe_runtime", { body: { ...body, kubeconfigSecret: "KUBE_NO_CA" } });
    expect(untrusted).toMatchObject({ reachable: false, reason: "tls" });
    expect(untrusted.detail).toContain("certificate-authority-data");
    const shown = (await client.call("list_relays")).items[0];
    expect(shown?.lastError?.message).toContain("certificate is not trusted");
  });
});
