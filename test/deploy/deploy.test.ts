import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { parse } from "smol-toml";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pagesConfig, withDatabase, workerConfig } from "../../scripts/deploy/config.ts";
import { deploy, generate } from "../../scripts/deploy/deploy.ts";
import { DeployError, type Deployment, readDeployments } from "../../scripts/deploy/settings.ts";
import { childEnvironment, ROOT } from "../../scripts/environment.ts";
import { VARIABLES } from "../../worker/environment.ts";
import { ended } from "../support/control-plane.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "everdict-deploy-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

async function settings(files: Record<string, string>): Promise<string> {
  const at = await mkdtemp(join(folder, "settings-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(at, `${name}.toml`), text);
  return at;
}

function output(child: ChildProcess): Promise<{ code: number | null; text: string }> {
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (text += chunk));
  return ended(child).then((code) => ({ code, text }));
}

const command = (args: string[], env: NodeJS.ProcessEnv = {}) =>
  output(
    spawn("node", ["scripts/deploy.ts", ...args], {
      cwd: ROOT,
      env: { ...childEnvironment(), ...env },
      stdio: ["ignore", "pipe", "pipe"],
    }),
  );

async function tree(at: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const entry of await readdir(at, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    found.set(path, await readFile(path, "latin1"));
  }
  return found;
}

const deploymentOf = (parts: Partial<Deployment> = {}): Deployment => ({
  workspace: "acme",
  name: "everdict-edge-acme",
  file: join(folder, "acme.toml"),
  secrets: [],
  vars: {},
  ...parts,
});

describe("a dry run", () => {
  test("needs no account, prints every step, passes wrangler's own checks, and changes nothing when repeated", {
    timeout: 240_000,
  }, async () => {
    const at = await settings({ trial: 'logBucket = "trial-logs"\n[vars]\nEVERDICT_OPERATORS = "ada"\n' });
    const before = await tree(at);
    const first = await command(["--workspace", "trial", "--dry-run", "--settings", at]);
    expect(first.text).toContain("trial: every check that needs no account passed");
    expect(first.code).toBe(0);
    for (const words of [
      "wrangler d1 create everdict-edge-trial",
      "wrangler r2 bucket create trial-logs",
      "wrangler deploy --dry-run",
      "wrangler pages project validate",
      "wrangler d1 migrations apply everdict-edge-trial --remote",
      "--secrets-file",
      "wrangler pages deploy site",
    ])
      expect(first.text).toContain(words);
    const generated = join(ROOT, "dist/deploy/trial");
    const files = await tree(generated);
    const second = await command(["--workspace", "trial", "--dry-run", "--settings", at]);
    expect(second).toEqual(first);
    expect([...(await tree(generated)).keys()].sort()).toEqual([...files.keys()].sort());
    for (const name of ["wrangler.toml", "pages/wrangler.toml", "pages/site/_worker.js"])
      expect((await tree(generated)).get(join(generated, name))).toBe(files.get(join(generated, name)));
    expect(await tree(at)).toEqual(before);
  });

  test.each([
    ["a bad name", ["--workspace", "Acme_1"], {}, "'Acme_1' is no workspace id"],
    ["nothing said", [], {}, "say which"],
    ["both said", ["--workspace", "acme", "--all"], {}, "say which"],
    [
      "a secret without a value",
      ["--workspace", "acme"],
      { acme: 'secrets = ["SECRET_NOMAD_TOKEN"]' },
      "ACME__SECRET_NOMAD_TOKEN",
    ],
    [
      "a name clash",
      ["--all"],
      { acme: 'name = "evals"', beta: 'name = "evals"' },
      "'acme' and 'beta' would share the name 'evals'",
    ],
    [
      "one database for two",
      ["--all"],
      {
        acme: 'databaseId = "3f0c3f3a-94a5-4b36-b7a1-3e70b9a9f001"',
        beta: 'databaseId = "3f0c3f3a-94a5-4b36-b7a1-3e70b9a9f001"',
      },
      "would share the databaseId",
    ],
    [
      "a secret among the variables",
      ["--workspace", "acme"],
      { acme: '[vars]\nEVERDICT_SIGNING_KEY = "x"' },
      "it is a secret",
    ],
    [
      "a development server",
      ["--workspace", "acme"],
      { acme: '[vars]\nEVERDICT_ENV = "dev"' },
      "never a development server",
    ],
    ["an unknown option", ["--workspace", "acme", "--everything"], {}, "unknown option '--everything'"],
    ["an argument too many", ["acme"], {}, "too many arguments"],
    [
      "a variable that nothing reads",
      ["--workspace", "acme"],
      { acme: '[vars]\nEVERDICT_OPERATOR = "ada"' },
      "vars.EVERDICT_OPERATOR: no variable of Everdict Edge; there are EVERDICT_ENV, ",
    ],
    [
      "a secret that nothing reads",
      ["--workspace", "acme"],
      { acme: 'secrets = ["SECRET_NOMAD_TOKEN", "EVERDICT_VAULT_KEY"]' },
      "secrets: EVERDICT_VAULT_KEY: no variable",
    ],
    ["an unknown key", ["--workspace", "acme"], { acme: "databaseid = 1" }, "databaseid"],
    ["no TOML", ["--workspace", "acme"], { acme: "name = " }, "is not TOML"],
  ])("%s is refused before anything is touched", async (_what, args, files, words) => {
    const at = await settings(files as Record<string, string>);
    const before = await tree(at);
    const { code, text } = await command([...args, "--dry-run", "--settings", at]);
    expect(text).toContain(words);
    expect(code).toBe(2);
    expect(text).not.toContain("1. Build");
    expect(await tree(at)).toEqual(before);
  });
});

test.each([
  "http://evals.acme.dev",
  "https://ada:pass@evals.acme.dev",
  "https://evals.acme.dev/",
  "https://evals.acme.dev/edge",
  "https://evals.acme.dev?x=1",
  "https://evals.acme.dev#top",
  "https://evals.acme.dev\\\\@evil.example",
  "https://",
  "evals.acme.dev",
])("%s is no public origin", async (url) => {
  const at = await settings({ acme: `publicUrl = "${url}"\n` });
  await expect(readDeployments(at)).rejects.toThrow("publicUrl: must be an https origin");
});

test("an origin, with a port or not, and every variable but those with an own field are taken", async () => {
  for (const url of ["https://evals.acme.dev", "https://evals.acme.dev:8443"]) {
    const at = await settings({ acme: `publicUrl = "${url}"\nsecrets = ["SECRET_X", "EVERDICT_METRICS_TOKEN"]\n` });
    expect(await readDeployments(at)).toMatchObject([
      { publicUrl: url, secrets: ["SECRET_X", "EVERDICT_METRICS_TOKEN"] },
    ]);
  }
  const own = [
    "EVERDICT_ENV",
    "EVERDICT_PUBLIC_URL",
    "EVERDICT_OIDC_CLIENT_SECRET",
    "EVERDICT_METRICS_TOKEN",
    "EVERDICT_SIGNING_KEY",
    "EVERDICT_VAULT_KEYS",
  ];
  const vars = VARIABLES.filter((name) => !own.includes(name));
  expect(vars).toContain("EVERDICT_OPERATORS");
  const at = await settings({ acme: `[vars]\n${vars.map((name) => `${name} = "x"`).join("\n")}\n` });
  expect(Object.keys((await readDeployments(at))[0]?.vars ?? {})).toEqual(vars);
});

describe("the generated configuration", () => {
  test("holds every binding of the project's own, with this deployment's names", async () => {
    const text = await readFile(join(ROOT, "wrangler.toml"), "utf8");
    const base = parse(text);
    const made = parse(
      workerConfig(
        text,
        deploymentOf({ databaseId: "3f0c3f3a-94a5-4b36-b7a1-3e70b9a9f001", logBucket: "logs-of-acme" }),
        {
          root: "/src",
        },
      ),
    );
    expect(Object.keys(base).filter((key) => !(key in made))).toEqual([]);
    expect(made.durable_objects).toEqual(base.durable_objects);
    expect(made.migrations).toEqual(base.migrations);
    expect(made).toMatchObject({
      name: "everdict-edge-acme",
      main: "/src/worker/index.ts",
      services: [{ binding: "DISPATCHER", service: "everdict-edge-acme", entrypoint: "Dispatcher" }],
      d1_databases: [{ binding: "DB", database_name: "everdict-edge-acme", migrations_dir: "/src/d1-migrations" }],
      r2_buckets: [{ binding: "LOGS", bucket_name: "logs-of-acme" }],
      vars: { EVERDICT_PUBLIC_URL: "https://everdict-edge-acme.pages.dev" },
    });
    expect(JSON.stringify(made)).not.toContain("EVERDICT_ENV");
    expect(parse(pagesConfig(text, deploymentOf()))).toMatchObject({
      services: [{ binding: "API", service: "everdict-edge-acme" }],
    });
  });

  test("the id of a new database is added to the operator's file, whose words stay", () => {
    const text = '# ours\nname = "evals"\n\n[vars] # what is not secret\nEVERDICT_OPERATORS = "ada"\n';
    const id = "3f0c3f3a-94a5-4b36-b7a1-3e70b9a9f001";
    const after = withDatabase(text, id);
    expect(after).toContain(text);
    expect(parse(after)).toEqual({ ...parse(text), databaseId: id });
    expect(withDatabase(after, id)).toBe(after);
    expect(() => withDatabase(after, "3f0c3f3a-94a5-4b36-b7a1-3e70b9a9f002")).toThrow();
  });
});

/** An account as far as a deployment sees it: what exists, and every command with the file of secrets it was given. */
class Account {
  readonly commands: string[][] = [];
  readonly secrets = new Map<string, string>();
  readonly fileModes: number[] = [];
  databases: string[] = [];
  projects: string[] = [];
  keys = 0;
  sealed = 0;
  deployed = false;
  broken: RegExp | null = null;

  readonly wrangler = async (args: readonly string[]): Promise<string> => {
    this.commands.push([...args]);
    const line = args.join(" ");
    if (this.broken?.test(line)) throw new DeployError(`${line} ended with 1:\nfetch failed`);
    if (line.startsWith("d1 list")) return JSON.stringify(this.databases.map((name) => ({ name })));
    if (line.startsWith("d1 create")) {
      this.databases.push(args[2] ?? "");
      return 'database_id = "3f0c3f3a-94a5-4b36-b7a1-3e70b9a9f001"';
    }
    if (line.startsWith("secret list")) {
      if (!this.deployed) throw new DeployError("This Worker does not exist on your account. [code: 10007]");
      return JSON.stringify([...this.secrets.keys()].map((name) => ({ name })));
    }
    if (line.startsWith("deploy --config")) {
      const file = args[args.indexOf("--secrets-file") + 1] ?? "";
      this.fileModes.push((await stat(file)).mode & 0o777);
      for (const [name, value] of Object.entries(JSON.parse(await readFile(file, "utf8"))))
        this.secrets.set(name, String(value));
      this.deployed = true;
    }
    if (line.startsWith("pages project list")) return this.projects.map((name) => `│ ${name} │`).join("\n");
    if (line.startsWith("pages project create")) this.projects.push(args[3] ?? "");
    if (line.includes("from secrets")) return JSON.stringify([{ results: [{ n: this.sealed }] }], null, 2);
    if (line.includes("from api_keys")) return JSON.stringify([{ results: [{ n: this.keys }] }], null, 2);
    if (line.includes("insert into api_keys")) this.keys += 1;
    return "";
  };
}

describe("a deployment", () => {
  const run = async (account: Account, at: string, secrets: Record<string, string> = {}) => {
    const lines: string[] = [];
    const [deployment] = await readDeployments(at, "acme");
    if (!deployment) throw new Error("no deployment");
    await deploy(deployment, {
      dryRun: false,
      secrets: new Map(Object.entries(secrets)),
      say: (line) => lines.push(line),
      out: join(at, "out"),
      wrangler: account.wrangler,
      // The dry run above makes these checks for real.
      preflight: async () => undefined,
      smoke: async () => undefined,
    });
    return lines.join("\n");
  };
  const changing = (account: Account) =>
    account.commands.map((args) => args.join(" ")).filter((line) => / create |insert into/.test(line));

  test("makes what is missing once, keeps secrets out of arguments and files, and shows one key", {
    timeout: 120_000,
  }, async () => {
    const at = await settings({ acme: 'secrets = ["SECRET_NOMAD_TOKEN"]\n' });
    const account = new Account();
    const said = await run(account, at, { SECRET_NOMAD_TOKEN: "canary-of-a-token" });
    const token = /ak_[\w-]{43}/.exec(said)?.[0] ?? "none";
    expect(said).toContain("First admin key, shown once");
    expect(changing(account)).toHaveLength(3);
    expect([...account.secrets.keys()].sort()).toEqual([
      "EVERDICT_SIGNING_KEY",
      "EVERDICT_VAULT_KEYS",
      "SECRET_NOMAD_TOKEN",
    ]);
    expect(account.fileModes).toEqual([0o600]);
    const values = ["canary-of-a-token", token, ...account.secrets.values()];
    for (const value of values) {
      expect(JSON.stringify(account.commands).includes(value)).toBe(false);
      for (const [path, text] of await tree(at)) expect([path, text.includes(value)]).toEqual([path, false]);
    }
    expect(said.includes("canary-of-a-token")).toBe(false);
    expect(await readFile(join(at, "acme.toml"), "utf8")).toContain("3f0c3f3a-94a5-4b36-b7a1-3e70b9a9f001");

    const kept = new Map(account.secrets);
    account.commands.length = 0;
    const again = await run(account, at);
    expect(changing(account)).toEqual([]);
    expect(again).not.toContain("First admin key");
    expect(account.secrets).toEqual(kept);
  });

  test("a list of secrets that cannot be read makes no new keys", async () => {
    const at = await settings({ acme: "" });
    const account = new Account();
    await run(account, at);
    const kept = new Map(account.secrets);
    account.broken = /^secret list/;
    await expect(run(account, at)).rejects.toThrow("fetch failed");
    expect(account.secrets).toEqual(kept);
  });

  test("stored secrets are never left without the keys that open them", async () => {
    const at = await settings({ acme: 'databaseId = "3f0c3f3a-94a5-4b36-b7a1-3e70b9a9f001"\n' });
    const account = new Account();
    account.sealed = 3;
    await expect(run(account, at)).rejects.toThrow("give the old keys");
    expect(account.deployed).toBe(false);
  });

  test("a database of that name that is not ours is left alone", async () => {
    const at = await settings({ acme: "" });
    const account = new Account();
    account.databases.push("everdict-edge-acme");
    await expect(run(account, at)).rejects.toThrow("put its id there");
    expect(changing(account)).toEqual([]);
  });
});

test("the Pages script serves the dashboard itself and hands the rest to the Worker", { timeout: 60_000 }, async () => {
  const out = join(folder, "pages-out");
  await mkdir(out);
  const site = join(await generate(deploymentOf(), out), "pages/site");
  // Pages' own laws of files: a folder's index, and 404.html with status 404 for what is not there.
  const assets = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    const path = join(site, pathname.endsWith("/") ? `${pathname}index.html` : pathname);
    const found = await readFile(path).catch(() => null);
    return found
      ? new Response(found)
      : new Response(await readFile(join(site, "404.html")), { status: 404, headers: { "content-type": "text/html" } });
  };
  const api = async (request: Request) => Response.json([request.method, request.url, await request.text()]);
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      cf: false,
      workers: [
        {
          name: "site",
          compatibilityDate: "2026-11-01",
          modulesRoot: site,
          modules: [{ type: "ESModule", path: join(site, "_worker.js") }],
          serviceBindings: { ASSETS: assets, API: api },
        },
      ],
    } as never),
  );
  try {
    const url = (await miniflare.ready).origin;
    const page = await fetch(`${url}/dashboard/runs/some-run`);
    expect(page.headers.get("content-security-policy")).toContain("script-src 'self'");
    const asset = /\/dashboard\/assets\/[\w-]+\.js/.exec(await page.text())?.[0];
    expect((await fetch(url + asset)).headers.get("cache-control")).toContain("immutable");
    const posted = await fetch(`${url}/runs?x=1`, { method: "POST", body: "the body" });
    expect(await posted.json()).toEqual(["POST", `${url}/runs?x=1`, "the body"]);
    expect(await (await fetch(`${url}/runs/run_1`)).json()).toEqual(["GET", `${url}/runs/run_1`, ""]);
    expect(await (await fetch(`${url}/mcp`)).json()).toEqual(["GET", `${url}/mcp`, ""]);
  } finally {
    await miniflare.dispose();
  }
});
