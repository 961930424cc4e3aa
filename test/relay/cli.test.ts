import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
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

interface World {
  env?: NodeJS.ProcessEnv;
  stdin?: string;
}

/** The bundled CLI. */
const everdict = (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
  everdictIn({}, ...args);

function everdictIn(world: World, ...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = { ...childEnvironment(), EVERDICT_STATE_DIR: join(folder, "state"), ...world.env };
  return new Promise((resolve) => {
    const options = { env, timeout: 30_000 };
    const cli = execFile(
      "node",
      [join(ROOT, "dist/everdict.mjs"), "relay", ...args],
      options,
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, stderr }),
    );
    if (world.stdin !== undefined) cli.stdin?.end(world.stdin);
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
  const odd = await everdict("doctor", "--allow-context", "prod", "--allow-host", "https://x/y");
  expect(odd).toMatchObject({ code: 1, stdout: expect.stringMatching(/context prod .*is not a host/), stderr: "" });
});

describe("doctor tries the token that it is given", () => {
  const GOOD = `rly_x.${"a".repeat(43)}`;
  const REVOKED = `rly_x.${"b".repeat(43)}`;
  const plane = createServer((req, res) => {
    res.statusCode = req.headers.authorization === `Bearer ${GOOD}` ? 426 : 401;
    res.end();
  });
  let apiUrl: string;
  beforeAll(async () => {
    await new Promise<void>((resolve) => plane.listen(0, "127.0.0.1", resolve));
    apiUrl = `http://127.0.0.1:${(plane.address() as AddressInfo).port}`;
  });
  afterAll(() => void plane.close());

  /** The first finding of a doctor in a state folder that no relay used. */
  async function finding(world: World, ...args: string[]) {
    const state = join(folder, "fresh");
    const all = ["doctor", "--json", "--allow-host", "*.internal", ...args];
    const { code, stdout, stderr } = await everdictIn(
      { ...world, env: { EVERDICT_STATE_DIR: state, ...world.env } },
      ...all,
    );
    expect(stdout + stderr).not.toContain("rly_x");
    return { code, ...JSON.parse(stdout).findings[0] };
  }

  test.each([
    ["by the variable", (token: string) => finding({ env: { EVERDICT_PAIR: token } }, "--api-url", apiUrl)],
    ["by the argument", (token: string) => finding({}, "--pair", token, "--api-url", apiUrl)],
    ["on standard input", (token: string) => finding({ stdin: `${token}\n` }, "--pair", "-", "--api-url", apiUrl)],
  ])("%s, and stores it nowhere", async (_how, ask) => {
    expect(await ask(GOOD)).toMatchObject({
      code: 0,
      what: `control plane ${apiUrl}`,
      ok: true,
      detail: "knows the token that was given",
    });
    expect(await ask(REVOKED)).toMatchObject({ code: 1, ok: false, detail: expect.stringContaining("revoked") });
    expect(await finding({}, "--api-url", apiUrl)).toMatchObject({ ok: false, detail: "not paired with it" });
  });

  test("and says when it is none", async () => {
    expect(await finding({}, "--pair", `rnr_x.${"a".repeat(43)}`, "--api-url", apiUrl)).toMatchObject({
      code: 1,
      what: "pairing",
      detail: expect.stringContaining("starts with rly_"),
    });
  });

  test("and keeps what it writes in the folder that is named", async () => {
    const home = join(folder, "home");
    const env = { HOME: home, XDG_STATE_HOME: undefined, EVERDICT_STATE_DIR: undefined };
    await everdictIn({ env }, "doctor", "--state-dir", join(folder, "named"), "--allow-context", "prod");
    expect(existsSync(home)).toBe(false);
  });
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
