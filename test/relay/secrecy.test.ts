import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Authority, certificateAuthority } from "../support/certificates.ts";
import { ControlPlane, until } from "../support/control-plane.ts";
import { FakeKubernetes } from "../support/fake-kubernetes/fake-kubernetes.ts";
import { type FakeServer, serveFakeKubernetes } from "../support/fake-kubernetes/server.ts";
import { kubeconfig, pemData } from "../support/kubeconfig.ts";
import { type RelayProcess, startRelay } from "../support/relay-lab.ts";
import { execPlugin } from "./scorecards.ts";

/* What is uploaded and what comes of it stays where it belongs: sealed in the vault, and in the relay's memory. */

const TOKEN = "canary-token-of-the-cluster-7f3a";
const PLUGIN_TOKEN = "canary-token-of-the-plugin-91bc";
const COMMENT = "canary-comment-in-the-text-55de";

let folder: string;
let authority: Authority;
let fake: FakeKubernetes;
let server: FakeServer;
let plane: ControlPlane;
let relay: RelayProcess;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "everdict-secrecy-"));
  authority = await certificateAuthority();
  fake = new FakeKubernetes({ namespace: "evals", token: TOKEN });
  const tls = { ...(await authority.server()), ca: authority.ca };
  server = await serveFakeKubernetes({ fake, token: TOKEN, tls, knows: (token) => token === PLUGIN_TOKEN });
  await execPlugin(
    join(folder, "bin"),
    "fake-login",
    `const { writeFileSync, existsSync } = require("node:fs");
writeFileSync(process.env.TMPDIR + "/cache-" + process.argv[2], ${JSON.stringify(PLUGIN_TOKEN)});
const { apiVersion } = JSON.parse(process.env.KUBERNETES_EXEC_INFO);
const say = () => console.log(JSON.stringify({ apiVersion, kind: "ExecCredential", status: { token: ${JSON.stringify(PLUGIN_TOKEN)} } }));
if (process.argv[2] === "hang") setInterval(() => undefined, 1000);
else if (process.argv[2] === "fail") { console.error(${JSON.stringify(PLUGIN_TOKEN)}); process.exit(1); }
else setTimeout(say, 200);`,
  );
  plane = await ControlPlane.start();
  const allow = ["--allow-host", `127.0.0.1:${server.port}`, "--allow-exec", "fake-login"];
  relay = await startRelay(plane, "office", allow, { PATH: `${join(folder, "bin")}:${process.env.PATH ?? ""}` });
}, 120_000);
afterAll(async () => {
  await relay?.stop();
  await plane?.stop();
  await server?.close();
  fake?.dispose();
  await rm(folder, { recursive: true, force: true });
});

const exec = (...args: string[]) => ({
  exec: { apiVersion: "client.authentication.k8s.io/v1", command: "fake-login", args },
});
const store = (name: string, user: Record<string, unknown>, ca: string | null = authority.ca) =>
  plane.client().call("put_secret", {
    params: { name },
    body: {
      value: `# ${COMMENT}\n${kubeconfig({ server: server.address, ca, user })}`,
      use: "cluster",
      hosts: [`127.0.0.1:${server.port}`],
    },
  });
const specOf = (kubeconfigSecret: string) => ({
  kind: "k8s" as const,
  id: kubeconfigSecret.toLowerCase().replaceAll("_", "-"),
  version: "1.0.0",
  image: "everdict/busybox:1",
  namespace: "evals",
  relay: "office",
  kubeconfigSecret,
});

/** Every argument list and, of this user's relays, nothing else. */
function processList(): string {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ");
      } catch {
        return "";
      }
    })
    .join("\n");
}

/** What has ended and gone meanwhile is not there. */
const gone = (error: unknown): [] => {
  if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
  throw error;
};

async function filesBelow(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(gone);
  const paths = entries.map((entry) => {
    const path = join(dir, entry.name);
    return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : [];
  });
  return (await Promise.all(paths)).flat();
}

/** Files of plugins that hang; other runtimes run theirs meanwhile. */
const pluginFiles = async () => {
  const files = await filesBelow(relay.folder);
  return files.filter((path) => path.endsWith("/cache-hang"));
};

test("no text of a kubeconfig and no token is in D1, objects, logs, errors, answers or the process list", async () => {
  const client = plane.client();
  const { cert, key } = await authority.client("everdict");
  const keyCanary = pemData(key).slice(40, 100);
  await store("WITH_TOKEN", { token: TOKEN });
  await store("WITH_CERT", { "client-certificate-data": pemData(cert), "client-key-data": pemData(key) });
  await store("WITH_EXEC", exec());
  await store("FAILING", exec("fail"));
  await store("UNTRUSTED", { token: TOKEN }, null);
  await store("WRONG", { token: `${TOKEN}-unknown` });
  const processes: string[] = [];
  const watch = setInterval(() => processes.push(processList()), 50);
  const answers: unknown[] = [];
  for (const name of ["WITH_TOKEN", "WITH_CERT", "WITH_EXEC", "FAILING", "UNTRUSTED", "WRONG"]) {
    const probe = await client.call("probe_runtime", { body: specOf(name) });
    answers.push(probe);
    expect(probe.reachable, name).toBe(name.startsWith("WITH_"));
    await client.call("create_runtime", { body: specOf(name) });
    const run = await client.call("submit_run", {
      body: {
        harness: { spec: { kind: "command", command: "echo ran" } },
        case: { id: "c", task: "t", timeoutSec: 60 },
        runtime: specOf(name).id,
      },
    });
    if (!name.startsWith("WITH_")) continue;
    answers.push(
      await until(`${name} has ended`, 60_000, async () => {
        const now = await client.call("get_run", { params: { id: run.id } });
        return now.status === "succeeded" ? now : null;
      }),
    );
  }
  // Runs that cannot start say why, without the cause's text.
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  clearInterval(watch);
  answers.push(
    await client.call("list_runs", { query: { limit: 100 } }),
    await client.call("list_relays"),
    await client.call("list_runtimes"),
    await client.call("list_secrets"),
    await client.call("list_audit"),
    await client.call("get_queue"),
  );
  const canaries = [TOKEN, PLUGIN_TOKEN, COMMENT, keyCanary].flatMap((text) => [
    text,
    Buffer.from(text).toString("base64").slice(0, 30),
  ]);
  const places: [string, string][] = [
    ["answers", JSON.stringify(answers)],
    ["server log", plane.output],
    ["relay log", relay.output],
    ...processes.map((text): [string, string] => ["process list", text]),
  ];
  const files = [...(await filesBelow(plane.state)), ...(await filesBelow(relay.folder))];
  expect(files.some((path) => path.endsWith(".sqlite"))).toBe(true);
  for (const path of files) places.push([path, (await readFile(path, "latin1").catch(gone)).toString()]);
  for (const [place, text] of places)
    for (const canary of canaries) expect(text.includes(canary), `${canary} in ${place}`).toBe(false);
  expect(processes.length).toBeGreaterThan(20);
  expect(processes.some((text) => text.includes("fake-login"))).toBe(true);
});

test("a plugin's files go with a relay that is told to end; after a kill, with the next start, and its process too", async () => {
  const client = plane.client();
  await store("HANGING", exec("hang"));
  const probe = () => client.call("probe_runtime", { body: specOf("HANGING") }).catch(() => null);
  const hanging = () => processList().includes(`${join(folder, "bin", "fake-login")} hang`);
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    const probing = probe();
    const [file = ""] = await until("it has written", 20_000, async () => {
      const found = await pluginFiles();
      return found.length > 0 && hanging() ? found : null;
    });
    expect(((await stat(file)).mode & 0o777).toString(8)).toBe("600");
    const code = await relay.kill(signal);
    if (signal === "SIGTERM") {
      expect(code).toBe(0);
      expect(await pluginFiles()).toEqual([]);
      await until("the plugin is gone", 2_000, async () => !hanging());
    } else expect(await pluginFiles()).toHaveLength(1);
    await relay.up();
    expect(await pluginFiles()).toEqual([]);
    await until("the plugin is gone", 2_000, async () => !hanging());
    await probing;
  }
});
