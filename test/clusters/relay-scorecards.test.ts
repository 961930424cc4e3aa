import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { roleManifest } from "../../worker/backends/k8s/rights.ts";
import { execPlugin, scorecardThroughRelay } from "../relay/scorecards.ts";
import { ControlPlane } from "../support/control-plane.ts";
import { kubeconfig } from "../support/kubeconfig.ts";
import { type RelayProcess, startRelay } from "../support/relay-lab.ts";
import { clusterAddress, kubectl } from "./kubectl.ts";

/* The three ways a credential gets to a cluster with a private CA on an address, each through the whole system. */

const namespace = `evd-relay-${Math.random().toString(36).slice(2, 8)}`;
/** Of the plugin's tokens: the relay must ask anew after. */
const EXPIRY_SEC = 30;

const Own = z.object({ users: z.array(z.object({ user: z.record(z.string(), z.string()) })) });

describe.skipIf(!process.env.KUBECONFIG)("a relay to a real Kubernetes (KUBECONFIG)", () => {
  let folder: string;
  let server: string;
  let ca: string | null;
  let token: string;
  let plane: ControlPlane;
  let relay: RelayProcess;
  const mode = { namespace, image: "everdict/busybox:1", sleepSec: 2, concurrency: 5 };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "everdict-relay-cluster-"));
    ({ server, ca } = await clusterAddress());
    await kubectl(["create", "namespace", namespace]);
    await kubectl(["apply", "-f", "-"], roleManifest(namespace, { nodes: true }));
    token = (await kubectl(["create", "token", "everdict", "-n", namespace, "--duration=1h"])).trim();
    await writeFile(join(folder, "own"), kubeconfig({ server, ca, user: { token } }));
    // Real tokens of the cluster, handed out for 30 s each.
    await execPlugin(
      join(folder, "bin"),
      "fake-login",
      `const { appendFileSync } = require("node:fs");
appendFileSync(${JSON.stringify(join(folder, "calls"))}, Date.now() + "\\n");
const { apiVersion } = JSON.parse(process.env.KUBERNETES_EXEC_INFO);
const create = ["create", "token", "everdict", "-n", ${JSON.stringify(namespace)}, "--duration=10m"];
const env = { ...process.env, KUBECONFIG: ${JSON.stringify(process.env.KUBECONFIG)} };
const token = require("node:child_process").execFileSync("kubectl", create, { env }).toString().trim();
const expirationTimestamp = new Date(Date.now() + ${EXPIRY_SEC * 1_000}).toISOString();
console.log(JSON.stringify({ apiVersion, kind: "ExecCredential", status: { token, expirationTimestamp } }));`,
    );
    plane = await ControlPlane.start();
    const host = new URL(server).host;
    const allow = ["--allow-context", "prod", "--allow-host", host, "--allow-exec", "fake-login"];
    relay = await startRelay(plane, "office", [...allow, "--kubeconfig", join(folder, "own")], {
      PATH: `${join(folder, "bin")}:${process.env.PATH ?? ""}`,
    });
  }, 120_000);

  afterAll(async () => {
    await relay?.stop();
    await plane?.stop();
    await kubectl(["delete", "namespace", namespace, "--wait=false"]);
    await rm(folder, { recursive: true, force: true });
  });

  const store = (name: string, value: string) =>
    plane
      .client()
      .call("put_secret", { params: { name }, body: { value, use: "cluster", hosts: [new URL(server).host] } });

  test("by a context of the relay's machine, whose credential never leaves it", { timeout: 300_000 }, async () => {
    await scorecardThroughRelay(plane, "office", { ...mode, id: "by-context", spec: { context: "prod" } });
    expect(plane.output).not.toContain(token);
  });

  test("by an uploaded kubeconfig with a client certificate", { timeout: 300_000 }, async () => {
    const text = await kubectl(["config", "view", "--raw", "--flatten", "--minify", "-o", "json"]);
    const user = Own.parse(JSON.parse(text)).users[0]?.user ?? {};
    expect(Object.keys(user)).toContain("client-certificate-data");
    await store("KUBE_CERT", kubeconfig({ server, ca, user }));
    const spec = { kubeconfigSecret: "KUBE_CERT" };
    await scorecardThroughRelay(plane, "office", { ...mode, id: "by-certificate", spec });
  });

  test(`by an uploaded kubeconfig with an exec plugin, whose tokens run out after ${EXPIRY_SEC} s`, {
    timeout: 500_000,
  }, async () => {
    const exec = { apiVersion: "client.authentication.k8s.io/v1", command: "fake-login", interactiveMode: "Never" };
    await store("KUBE_EXEC", kubeconfig({ server, ca, user: { exec } }));
    const took = await scorecardThroughRelay(plane, "office", {
      ...mode,
      id: "by-exec",
      spec: { kubeconfigSecret: "KUBE_EXEC" },
      sleepSec: 10,
      concurrency: 2,
    });
    const calls = (await readFile(join(folder, "calls"), "utf8")).trim().split("\n").length;
    process.stdout.write(`exec plugin: ${took.toFixed(0)} s, ${calls} runs of the plugin\n`);
    expect(took).toBeGreaterThan(115);
    expect(calls).toBeGreaterThanOrEqual(4);
    expect(calls).toBeLessThanOrEqual(Math.ceil(took / (EXPIRY_SEC * 0.75)) + 3);
  });

  test("the same kubeconfig without a relay is refused, with the reason and what to run", async () => {
    const client = plane.client();
    const body = {
      kind: "k8s" as const,
      id: "no-relay",
      version: "1.0.0",
      image: mode.image,
      namespace,
      kubeconfigSecret: "KUBE_CERT",
    };
    const probe = await client.call("probe_runtime", { body });
    expect(probe).toMatchObject({ reachable: false, reason: "relay" });
    expect(probe.checks[0]?.fix).toContain("everdict relay --pair");
  });
});
