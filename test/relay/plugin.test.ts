import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ExecPlugins, type ExecSpec } from "../../runner/relay/exec-plugin.ts";
import { KubeTarget } from "../../runner/relay/kube-target.ts";
import { parseUploaded } from "../../runner/relay/kubeconfig.ts";
import { until } from "../support/control-plane.ts";
import { kubeconfig } from "../support/kubeconfig.ts";
import { execPlugin } from "./scorecards.ts";

const API = "client.authentication.k8s.io/v1";
let folder: string;
let binary: string;
const temp = () => join(folder, "temp");

/** What the plugin does is its first argument; it always leaves a file in its temporary folder. */
const PLUGIN = `
const { writeFileSync, appendFileSync } = require("node:fs");
const [, , what, ...rest] = process.argv;
writeFileSync(process.env.TMPDIR + "/left", "a-token");
appendFileSync(${JSON.stringify("FOLDER")} + "/calls", what + "\\n");
const say = (status, apiVersion = ${JSON.stringify(API)}) => console.log(JSON.stringify({ kind: "ExecCredential", apiVersion, status }));
if (what === "hang") setInterval(() => undefined, 1000);
else if (what === "family") { require("node:child_process").spawn("sleep", ["1000"], { stdio: "inherit" }); setInterval(() => undefined, 1000); }
else if (what === "fail") { console.error("the secret is s3cret-words"); console.log("s3cret-words"); process.exit(7); }
else if (what === "flood") { const line = "x".repeat(1 << 16) + "\\n"; for (;;) require("node:fs").writeSync(1, line); }
else if (what === "rubbish") console.log("not json s3cret-words");
else if (what === "other") say({ token: "t" }, "client.authentication.k8s.io/v1beta1");
else if (what === "empty") say({});
else if (what === "expired") say({ token: "t", expirationTimestamp: new Date(Date.now() - 1000).toISOString() });
else if (what === "env") say({ token: Buffer.from(JSON.stringify(process.env)).toString("base64url") });
else setTimeout(() => say({ token: "t-" + Date.now(), expirationTimestamp: new Date(Date.now() + Number(rest[0] ?? 60000)).toISOString() }), 50);
`;

beforeAll(async () => {
  process.umask(0o077);
  folder = await mkdtemp(join(tmpdir(), "everdict-plugin-"));
  binary = await execPlugin(join(folder, "bin"), "login", PLUGIN.replace("FOLDER", folder));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const specOf = (...args: string[]): ExecSpec => ({ apiVersion: API, command: binary, args });
const run = (plugins: ExecPlugins, spec: ExecSpec) => plugins.run({ spec, source: "uploaded", cluster: {} });
/** What plugins and their notes left behind. */
const leftovers = async () => readdir(temp()).catch(() => []);

test("a plugin's files are its user's alone while it runs, and gone with it: success, failure, time, too much output", async () => {
  const plugins = new ExecPlugins([binary], temp(), 1_500);
  const hanging = run(plugins, specOf("hang"));
  const refused = expect(hanging).rejects.toThrow("gave no credential within 1.5 s");
  const left = await until("it has left a file", 5_000, async () => {
    const dir = (await leftovers()).find((name) => name.startsWith("plugin-") && !name.endsWith(".pid"));
    return dir && (await readdir(join(temp(), dir))).includes("left") ? join(temp(), dir) : null;
  });
  const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);
  expect([await mode(temp()), await mode(left), await mode(join(left, "left")), await mode(`${left}.pid`)]).toEqual([
    "700",
    "700",
    "600",
    "600",
  ]);
  await refused;
  expect(await leftovers()).toEqual([]);
  expect(await run(plugins, specOf("ok"))).toMatchObject({ token: expect.stringMatching(/^t-/) });
  expect(await leftovers()).toEqual([]);
  for (const [what, words] of [
    ["fail", "exit status 7"],
    ["flood", "more than 262144 bytes"],
    ["rubbish", "did not print JSON"],
    ["other", "did not print an ExecCredential of client.authentication.k8s.io/v1"],
    ["empty", "neither a token nor a client certificate"],
    ["expired", "clock right"],
  ] as const) {
    const error = await run(plugins, specOf(what)).catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ code: "misconfigured", message: expect.stringContaining(words) });
    expect(String(error)).not.toContain("s3cret-words");
    expect(await leftovers(), what).toEqual([]);
  }
});

test("whatever a plugin has started ends with it", async () => {
  const plugins = new ExecPlugins([binary], temp(), 800);
  const began = Date.now();
  await expect(run(plugins, specOf("family"))).rejects.toThrow("gave no credential");
  expect(Date.now() - began).toBeLessThan(5_000);
});

test("of the variables in a text from outside, only harmless ones reach a plugin; the relay's own do not", async () => {
  process.env.EVERDICT_CANARY = "own";
  const env = [
    { name: "AWS_PROFILE", value: "eval" },
    { name: "LD_PRELOAD", value: "/tmp/x.so" },
    { name: "PATH", value: "/tmp" },
    { name: "NODE_OPTIONS", value: "--require /tmp/x.js" },
    { name: "HOME", value: "/tmp" },
    { name: "AWS_CONFIG_FILE", value: "/tmp/config" },
    { name: "HTTPS_PROXY", value: "http://evil" },
  ];
  const { token } = await run(new ExecPlugins([binary], temp()), { ...specOf("env"), env });
  const seen = JSON.parse(Buffer.from(token ?? "", "base64url").toString());
  expect(seen).toMatchObject({ AWS_PROFILE: "eval", PATH: process.env.PATH, HOME: process.env.HOME });
  for (const name of ["LD_PRELOAD", "NODE_OPTIONS", "AWS_CONFIG_FILE", "EVERDICT_CANARY"])
    expect(seen[name]).toBeUndefined();
  expect(seen.HTTPS_PROXY).toBe(process.env.HTTPS_PROXY);
  expect(JSON.parse(seen.KUBERNETES_EXEC_INFO)).toEqual({
    apiVersion: API,
    kind: "ExecCredential",
    spec: { interactive: false },
  });
});

const targetOf = async (...args: string[]) => {
  const exec = { apiVersion: API, command: binary, args };
  const config = await parseUploaded(kubeconfig({ server: "https://127.0.0.1:1", user: { exec } }));
  const cluster = config.getCurrentCluster();
  if (!cluster) throw new Error("a cluster");
  return new KubeTarget({
    config,
    cluster,
    user: config.getCurrentUser(),
    source: "uploaded",
    policy: null,
    allowInsecure: false,
    plugins: new ExecPlugins([binary], temp()),
  });
};

test("fifty requests at once run the plugin once; its credential serves until shortly before its end", async () => {
  const target = await targetOf("ok", "2000");
  const many = await Promise.all(Array.from({ length: 50 }, () => target.credential()));
  expect(new Set(many.map(({ headers }) => headers.authorization)).size).toBe(1);
  const [first] = many;
  expect((await target.credential()).headers).toEqual(first?.headers);
  await new Promise((resolve) => setTimeout(resolve, 1_700));
  expect((await target.credential()).headers).not.toEqual(first?.headers);
});

test("a credential that the cluster does not know is asked for anew, once for all who had it", async () => {
  const target = await targetOf("ok", "60000");
  const first = await target.credential();
  expect(target.refused(first)).toBe(true);
  const [second, third] = await Promise.all([target.credential(), target.credential()]);
  expect(second.headers).not.toEqual(first.headers);
  expect(third).toBe(second);
  // Who was refused with the old one does not throw the new one away.
  expect(target.refused(first)).toBe(true);
  expect(await target.credential()).toBe(second);
});
