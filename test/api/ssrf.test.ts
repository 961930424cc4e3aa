import { beforeAll, beforeEach, expect, test, vi } from "vitest";
import { type Api, apiWith, CASE, env, NOMAD, workspace } from "./support.ts";

/*
 * Addresses that a tenant gives for a cluster, in the production profile. Blocked ones are refused when they are
 * registered; what only a relay may reach is taken, and dialled by nobody without one. No request leaves in any case.
 */

const BLOCKED = [
  "http://127.0.0.1:4646",
  "http://127.1:4646",
  "http://2130706433",
  "http://0x7f000001",
  "http://0177.0.0.1",
  "http://0.0.0.0:4646",
  "http://[::1]:4646",
  "http://[::]",
  "http://[::ffff:127.0.0.1]",
  "http://[0:0:0:0:0:ffff:7f00:1]",
  "http://[64:ff9b::7f00:1]",
  "http://localhost:4646",
  "http://LOCALHOST.:4646",
  "http://a.localhost",
  "http://169.254.169.254/latest/meta-data",
  "http://2852039166",
  "http://0xa9.0xfe.0xa9.0xfe",
  "http://[::ffff:169.254.169.254]",
  "http://[fd00:ec2::254]",
  "http://100.100.100.200",
  "http://169.254.1.1",
  "http://[fe80::1]",
  "http://metadata.google.internal",
  "http://metadata",
  "http://instance-data",
  "http://metadata.azure.com",
];
const RELAY_ONLY = [
  "http://10.0.0.1:4646",
  "http://172.16.0.1",
  "http://192.168.1.1",
  "http://100.64.0.1",
  "http://[fc00::1]",
  "http://[::ffff:10.0.0.1]",
  "http://8.8.8.8",
  "http://nomad.internal",
  "http://nomad.local",
  "http://nomad.default.svc.cluster.local",
  "http://nomad",
];
const NEVER_A_URL = [
  "ftp://nomad.acme.dev",
  "file:///etc/passwd",
  "gopher://nomad.acme.dev",
  "http://user:password@nomad.acme.dev",
  "http://nomad.acme.dev@127.0.0.1",
  "javascript:alert(1)",
  "nomad.acme.dev",
  "//nomad.acme.dev",
];

const dialled: string[] = [];
beforeAll(() => {
  vi.stubGlobal("fetch", (input: string | URL | Request) => {
    dialled.push(new Request(input).url);
    return Promise.resolve(new Response("{}", { status: 302, headers: { location: "http://169.254.169.254/" } }));
  });
});
beforeEach(() => {
  dialled.length = 0;
});

/** As it is deployed; keys are made by the development server on the same store. */
async function production(): Promise<Api> {
  expect(env.EVERDICT_ENV).toBeUndefined();
  const { token } = await workspace();
  return apiWith({}, { authorization: `Bearer ${token}` });
}

const nomad = (addr: string) => ({ ...NOMAD, addr, constraints: [], authSecret: undefined });
const k8s = (server: string) => ({
  kind: "k8s",
  id: "pool",
  version: "1.0.0",
  server,
  authSecret: "K8S_TOKEN",
  image: "busybox:1.36",
});

test("addresses of ourselves, of our neighbours and of metadata services are refused at registration, for both kinds", async () => {
  const api = await production();
  for (const address of BLOCKED)
    for (const [field, spec] of [
      ["addr", nomad(address)],
      ["server", k8s(address)],
    ] as const) {
      const made = await api.call("POST", "/runtimes", spec);
      expect([address, made.status]).toEqual([address, 400]);
      expect(made.body.issues, address).toEqual(expect.arrayContaining([expect.objectContaining({ path: field })]));
      const { body } = await api.call("POST", "/runtimes/validate", spec);
      expect(body, address).toMatchObject({ ok: false, receipt: null, reachability: { verdict: "blocked" } });
      const probe = await api.call("POST", "/runtimes/probe", spec);
      if (probe.status === 400) continue;
      expect(probe.body, address).toMatchObject({ reachable: false, reason: "blocked", receipt: null });
      expect(probe.body.checks, address).toMatchObject([
        { ok: false, fix: expect.stringContaining(`change '${field}'`) },
      ]);
    }
  expect(dialled).toEqual([]);
});

test("what only a relay may reach is said to need one, and is neither probed nor looked at nor dispatched to", async () => {
  const api = await production();
  for (const [n, address] of RELAY_ONLY.entries()) {
    const spec = { ...nomad(address), id: `r${n}` };
    const { body } = await api.call("POST", "/runtimes/validate", spec);
    expect(body.reachability.verdict, address).toBe("relay");
    expect((await api.call("POST", "/runtimes/probe", spec)).body, address).toMatchObject({ reachable: false });
    expect((await api.call("POST", "/runtimes", spec)).status, address).toBe(201);
    expect((await api.call("GET", `/runtimes/r${n}/versions/latest/inspect`)).body, address).toMatchObject({
      reachable: false,
    });
    const control = await api.call("POST", `/runtimes/r${n}/versions/latest/control`, { action: "reclaimIdle" });
    expect(control.status, address).toBe(502);
    const harness = { spec: { kind: "command", command: "true" } };
    const { body: run } = await api.call("POST", "/runs", { harness, case: CASE, runtime: `r${n}` });
    await expect
      .poll(async () => (await api.call("GET", `/runs/${run.id}`)).body.failure?.code, { timeout: 10_000 })
      .toBe("RUNTIME_MISCONFIGURED");
  }
  expect(dialled).toEqual([]);
});

test("what is no address of a web server, or carries a credential, is none", async () => {
  const api = await production();
  for (const address of NEVER_A_URL)
    for (const spec of [nomad(address), k8s(address)])
      expect([address, (await api.call("POST", "/runtimes", spec)).status]).toEqual([address, 400]);
  expect(dialled).toEqual([]);
});

test("a redirect of a cluster that may be dialled is an error, and leads nowhere", async () => {
  const api = await production();
  const probe = await api.call("POST", "/runtimes/probe", nomad("https://nomad.acme.dev"));
  expect(probe.body).toMatchObject({ reachable: false, reason: "api", detail: expect.stringContaining("redirect") });
  expect(new Set(dialled.map((url) => new URL(url).host))).toEqual(new Set(["nomad.acme.dev"]));
});
