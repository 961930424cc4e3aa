import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ensureBuilt } from "../../scripts/build.ts";
import { childEnvironment, ROOT } from "../../scripts/environment.ts";
import { type BulkServer, bulkServer } from "../support/bulk-server.ts";
import { kubeconfig } from "../support/kubeconfig.ts";

let folder: string;
let server: BulkServer;

beforeAll(async () => {
  await ensureBuilt();
  folder = await mkdtemp(join(tmpdir(), "everdict-relay-cli-"));
  server = await bulkServer();
  await writeFile(join(folder, "config"), kubeconfig({ server: server.address, user: { token: "t" } }));
});
afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

/** The bundled CLI. */
function everdict(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = { ...childEnvironment(), EVERDICT_STATE_DIR: join(folder, "state") };
  return new Promise((resolve) => {
    const options = { env, timeout: 30_000 };
    execFile("node", [join(ROOT, "dist/everdict.mjs"), "relay", ...args], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    );
  });
}

test("doctor asks what is allowed, and says what is wrong and how to mend it", async () => {
  const { code, stdout } = await everdict(
    "doctor",
    "--json",
    "--kubeconfig",
    join(folder, "config"),
    "--allow-context",
    "prod,absent",
    "--allow-host",
    `127.0.0.1:${server.port},127.0.0.1:1,*.internal`,
    "--allow-exec",
    "sh,no-such-binary",
    "--ca-file",
    join(folder, "config"),
  );
  expect(code).toBe(1);
  const { findings } = JSON.parse(stdout);
  const seen = findings.map(({ what, ok }: { what: string; ok: boolean }) => `${ok ? "+" : "-"} ${what}`);
  expect(seen).toEqual([
    "- pairing",
    "+ context prod",
    "- context absent",
    `+ host 127.0.0.1:${server.port}`,
    "- host 127.0.0.1:1",
    "+ host *.internal",
    "+ exec sh",
    "- exec no-such-binary",
    `- authority ${join(folder, "config")}`,
  ]);
  expect(findings.filter(({ ok, fix }: { ok: boolean; fix: string | null }) => !ok && !fix)).toEqual([]);
  expect(server.seen.map(({ url, headers }) => [url, headers.authorization])).toEqual([["/version", "Bearer t"]]);
  expect((await everdict("doctor")).stdout).toContain("this relay would refuse every request");
});

test("install writes a unit with what is allowed and without the token", async () => {
  const { code, stdout } = await everdict(
    "install",
    "--dry-run",
    "--api-url",
    "https://api.acme.dev",
    "--allow-host",
    "10.0.0.5:6443",
    "--allow-exec",
    "aws",
    "--kubeconfig",
    "config",
    "--pair",
    `rly_x.${"a".repeat(43)}`,
  );
  expect(code).toBe(0);
  expect(stdout).toContain('"relay" "--api-url" "https://api.acme.dev"');
  expect(stdout).toContain('"--allow-host" "10.0.0.5:6443" "--allow-exec" "aws"');
  expect(stdout).toMatch(/"--kubeconfig" "\/.*\/config"/);
  expect(stdout).toContain("RestartPreventExitStatus=3 4 5");
  expect(stdout).not.toContain("rly_");
});

test("usage errors say what is wrong", async () => {
  expect(await everdict("--api-url", "http://127.0.0.1:1")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("POST /workspace/relays"),
  });
  const runner = await everdict("--api-url", "http://127.0.0.1:1", "--pair", `rnr_x.${"a".repeat(43)}`);
  expect(runner).toMatchObject({ code: 2, stderr: expect.stringContaining("starts with rly_") });
  const odd = ["--api-url", "http://127.0.0.1:1", "--pair", `rly_x.${"a".repeat(43)}`, "--allow-host", "https://x/y"];
  expect(await everdict(...odd)).toMatchObject({ code: 2, stderr: expect.stringContaining("is not a host") });
});
