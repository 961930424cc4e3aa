import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { K8sRuntime } from "../../contracts/runtime-spec.ts";
import { K8sBackend } from "../../worker/backends/k8s/backend.ts";
import {
  NEEDED_RIGHTS,
  RIGHTS,
  type Right,
  type RightName,
  resourceName,
  roleManifest,
} from "../../worker/backends/k8s/rights.ts";
import { directTransport } from "../../worker/backends/transport/direct.ts";
import { randomOwner } from "./attempts.ts";
import { fakeKubernetesTarget } from "./fake-kubernetes-target.ts";

const owner = randomOwner();
const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

async function serve(listener: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer({}, listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? (address satisfies AddressInfo).port : 0;
  return `127.0.0.1:${port}`;
}

const direct = (server: string) => {
  const spec = K8sRuntime.parse({
    kind: "k8s",
    id: "x",
    version: "1.0.0",
    server,
    authSecret: "T",
    image: "busybox:1",
  });
  return new K8sBackend(spec, {
    transport: directTransport({ address: server, allowPrivate: true }),
    token: "t",
    owner,
  });
};

test.each(NEEDED_RIGHTS.map((right) => [`${right.verb} ${resourceName(right)}`]))(
  "K 1: a token without the right to %s is told which one it lacks, and the Role to apply",
  async (words) => {
    const target = fakeKubernetesTarget({ denied: new Set([words]) });
    const report = await target.backend(owner).probe();
    expect(report).toMatchObject({ reachable: false, reason: "rights" });
    const [verb, resource] = words.split(" ");
    const failed = report.checks.filter(({ ok }) => !ok);
    expect(failed[0]?.detail).toContain(`may not ${verb} ${resource}`);
    expect(report.policy).toContain(`"${resource}"`);
    await target.close();
  },
);

/** What a manifest grants, as group/resource/verb. */
const grantsOf = (manifest: string): string[] =>
  [...manifest.matchAll(/apiGroups: \["([^"]*)"\]\n {4}resources: \["([^"]*)"\]\n {4}verbs: \[([^\]]*)\]/g)]
    .flatMap(([, group, resource, verbs]) =>
      (verbs ?? "").split(", ").map((verb) => `${group}/${resource}/${verb.replaceAll('"', "")}`),
    )
    .sort();

test("the manifest grants every call the client can make, and nothing else", () => {
  const named = (...names: RightName[]) =>
    names.map((name): Right => RIGHTS[name]).map((right) => `${right.group}/${resourceName(right)}/${right.verb}`);
  const control: RightName[] = ["patchNode", "deletePod", "scaleDeployment"];
  const nodes: RightName[] = ["listNodes", "listNodeMetrics"];
  const jobs = (Object.keys(RIGHTS) as RightName[]).filter(
    (name) => ![...control, ...nodes, "createNamespace"].includes(name),
  );
  expect(grantsOf(roleManifest("evals", { nodes: false }))).toEqual(named(...jobs).sort());
  expect(grantsOf(roleManifest("evals", { nodes: true }))).toEqual(named(...jobs, ...nodes).sort());
  const all = roleManifest("evals", { nodes: true, externalControl: true, createNamespace: true });
  expect(grantsOf(all)).toEqual(named(...jobs, ...nodes, ...control, "createNamespace").sort());
  // Of others' things nothing is granted in the namespace's Role unless it is wanted.
  expect(roleManifest("evals", { nodes: true })).not.toMatch(/"patch"\]\n.*nodes|deployments/);
});

test("the probe asks for what the runtime uses, and prints the manifest for it", async () => {
  const target = fakeKubernetesTarget();
  const namesOf = async (parts: Parameters<typeof target.backendOf>[0]) => {
    const { checks, policy } = await target.backendOf(parts, owner).probe();
    return { rights: checks.map(({ name }) => name).filter((name) => name.startsWith("right.")), policy };
  };
  const plain = await namesOf({});
  expect(plain.rights).not.toContain("right.createNamespace");
  expect(plain.rights).not.toContain("right.patchNode");
  expect(plain.policy).toBe(roleManifest("evals", { nodes: true }));
  const whole = await namesOf({ createNamespace: true, externalControl: true });
  expect(whole.rights).toEqual(expect.arrayContaining(["right.createNamespace", "right.patchNode", "right.deletePod"]));
  expect(whole.policy).toContain("deployments/scale");
  await target.close();
});

test("a limited token cannot tell an absent namespace from a missing right, and says so (K 4)", async () => {
  const target = fakeKubernetesTarget();
  const report = await target.backendOf({ namespace: "elsewhere" }, owner).probe();
  expect(report).toMatchObject({ reachable: false, reason: "rights" });
  expect(report.checks.find(({ name }) => name === "namespace")?.detail).toContain("absent or not permitted");
  await target.close();
});

test("an admin's token is told that the namespace is absent", async () => {
  const target = fakeKubernetesTarget();
  const namespace = target.fake.store.get("namespaces", "", "evals");
  if (namespace) target.fake.store.remove(namespace);
  expect(await target.backend(owner).probe()).toMatchObject({
    reachable: false,
    reason: "namespace",
    detail: expect.stringContaining("does not exist"),
  });
  expect(await target.backendOf({ createNamespace: true }, owner).probe()).toMatchObject({ reachable: true });
  await target.close();
});

test("a closed port, a redirect, a page of HTML and a server that does not speak TLS are each told apart", async () => {
  const closed = await serve(() => undefined);
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
  expect(await direct(`http://${closed}`).probe()).toMatchObject({ reachable: false, reason: "connect" });
  const page = await serve((_, response) => response.end("<html>nginx</html>"));
  expect(await direct(`http://${page}`).probe()).toMatchObject({ reachable: false, reason: "api" });
  expect(await direct(`https://${page}`).probe()).toMatchObject({ reachable: false, reason: "tls" });
  const seen: (string | undefined)[] = [];
  const elsewhere = await serve((request, response) => {
    seen.push(request.headers.authorization);
    response.end("{}");
  });
  const redirect = await serve((_, response) => response.writeHead(302, { location: `http://${elsewhere}/` }).end());
  expect(await direct(`http://${redirect}`).probe()).toMatchObject({ reachable: false, reason: "api" });
  expect(seen).toEqual([]);
});

test("an endless answer is cut off with an error", async () => {
  const endless = await serve((_, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    const pour = (): void => {
      while (response.write("x".repeat(65_536)));
      response.once("drain", pour);
    };
    pour();
  });
  const report = await direct(`http://${endless}`).probe();
  expect(report).toMatchObject({ reachable: false, reason: "api", detail: expect.stringContaining("larger than") });
});

test("a port that accepts and never answers costs 10 s at most", { timeout: 20_000 }, async () => {
  const silent = await serve(() => undefined);
  expect(await direct(`http://${silent}`).probe()).toMatchObject({ reachable: false, reason: "timeout" });
});

test.each([
  "http://127.0.0.1:6443",
  "http://169.254.169.254",
  "https://10.0.0.1",
  "https://2130706433",
  "https://[::1]:6443",
  "https://k8s.internal",
  "ftp://k8s.acme.dev",
])("the production profile dials no %s", (address) => {
  expect(() => directTransport({ address, allowPrivate: false })).toThrow(/cannot dial|must begin with/);
});
