import { createHash, randomBytes } from "node:crypto";
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { formatId } from "../../contracts/names.ts";
import { ensureBuilt } from "../build.ts";
import { ROOT } from "../environment.ts";
import { pagesConfig, publicUrlOf, withDatabase, workerConfig } from "./config.ts";
import { DeployError, type Deployment, MADE_SECRETS } from "./settings.ts";
import { commandLine, wrangler } from "./wrangler.ts";

export interface DeployOptions {
  dryRun: boolean;
  /** Values given for secrets; asked for before anything is touched. */
  secrets: ReadonlyMap<string, string>;
  say: (line: string) => void;
  /** Where generated files go. */
  out?: string;
  /** Runs one wrangler command; exchanged in tests, which have no account. */
  wrangler?: typeof wrangler;
  preflight?: typeof preflight;
  smoke?: (url: string) => Promise<void>;
}

const SMOKE_TRIES = 20;
/** What the API says of a Worker that was never deployed. */
const NO_WORKER = /10007|does not exist|could not be found/i;
/** A count above zero, in what `d1 execute --json` prints. */
const SOME = /"n":\s*[1-9]/;

const execute = (name: string, config: string): string[] => [
  "d1",
  "execute",
  name,
  "--remote",
  "--config",
  config,
  "--json",
  "--command",
];

/** Where the files of one deployment are generated. */
const folderOf = (deployment: Deployment, out = join(ROOT, "dist/deploy")): string => join(out, deployment.workspace);

/** Writes the configurations and the Pages site; the same input gives the same bytes. */
export async function generate(deployment: Deployment, out?: string): Promise<string> {
  const folder = folderOf(deployment, out);
  const base = await readFile(join(ROOT, "wrangler.toml"), "utf8");
  const site = join(folder, "pages/site");
  await rm(folder, { recursive: true, force: true });
  await mkdir(site, { recursive: true });
  await writeFile(join(folder, "wrangler.toml"), workerConfig(base, deployment, { root: ROOT }));
  await writeFile(join(folder, "pages/wrangler.toml"), pagesConfig(base, deployment));
  await cp(join(ROOT, "dist/web"), site, { recursive: true });
  // Without it Pages answers every unknown path with the first page, and no request would reach the API.
  await writeFile(join(site, "404.html"), "<!doctype html><title>Not found</title><p>Not found.</p>\n");
  await build({
    entryPoints: [join(ROOT, "worker/pages-proxy.ts")],
    outfile: join(site, "_worker.js"),
    bundle: true,
    format: "esm",
    target: "es2022",
    logLevel: "warning",
  });
  return folder;
}

/** Checks that need no account: the Worker is built from the generated configuration, the site fits a Pages project. */
async function preflight(folder: string, say: (line: string) => void): Promise<void> {
  const worker = ["deploy", "--dry-run", "--config", join(folder, "wrangler.toml"), "--outdir", join(folder, "bundle")];
  say(`  ${commandLine(worker)}`);
  await wrangler(worker);
  const site = join(folder, "pages/site");
  const bundle = [
    "pages",
    "functions",
    "build",
    "--outdir",
    join(folder, "pages/bundle"),
    "--build-output-directory",
    site,
  ];
  say(`  ${commandLine(bundle)}`);
  await wrangler(bundle, join(folder, "pages"));
  const validate = ["pages", "project", "validate", site];
  say(`  ${commandLine(validate)}`);
  await wrangler(validate, join(folder, "pages"));
}

/** A first key for people to begin with, as the rows that make it. Its hash is no secret. */
function firstKey(workspace: string, now: number): { token: string; sql: string } {
  const token = `ak_${randomBytes(32).toString("base64url")}`;
  const hash = createHash("sha256").update(token).digest("hex");
  const at = new Date(now).toISOString();
  const id = formatId("key", now, randomBytes(10));
  // Workspace ids hold neither quotes nor backslashes (checked before anything else).
  const sql = [
    `insert into workspaces (id, name, created_at) values ('${workspace}', '${workspace}', '${at}') on conflict do nothing`,
    `insert into api_keys (id, workspace, name, hash, scope, role, personal, issuer, subject, created_at) values ('${id}', '${workspace}', 'first', '${hash}', 'admin', 'admin', 0, 'deploy', 'deploy', '${at}')`,
  ].join("; ");
  return { token, sql };
}

const madeSecret = (name: (typeof MADE_SECRETS)[number]): string => {
  const key = randomBytes(32).toString("base64");
  return name === "EVERDICT_SIGNING_KEY" ? key : JSON.stringify({ current: "k1", keys: { k1: key } });
};

/**
 * Deploys one workspace: database, migrations, secrets, Worker, Pages, a first key, a look at the result. Every step looks
 * before it acts, so that running it twice changes nothing.
 */
export async function deploy(deployment: Deployment, options: DeployOptions): Promise<void> {
  const {
    dryRun,
    say,
    secrets,
    wrangler: call = wrangler,
    preflight: check = preflight,
    smoke: look = smoke,
  } = options;
  const { workspace, name } = deployment;
  let step = 0;
  const title = (words: string) => say(`${++step}. ${words}`);
  const run = async (args: readonly string[], cwd?: string): Promise<string> => {
    say(`  ${commandLine(args)}`);
    return dryRun ? "" : call(args, cwd);
  };

  say(
    `${workspace} → Worker, database and Pages project '${name}', ${publicUrlOf(deployment)}${dryRun ? " (dry run: nothing is changed)" : ""}`,
  );
  title("Build the pages, the Worker and the Pages script");
  await ensureBuilt();
  let current = deployment;

  title("The database");
  if (current.databaseId === undefined) {
    const listed = await run(["d1", "list", "--json"]);
    if (!dryRun && (JSON.parse(listed) as { name: string }[]).some((database) => database.name === name))
      throw new DeployError(
        `a database '${name}' exists in the account, and ${deployment.file} does not name it; put its id there as databaseId, or give another name`,
      );
    const made = await run(["d1", "create", name]);
    if (!dryRun) {
      const id = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(made)?.[0];
      if (id === undefined)
        throw new DeployError("wrangler made the database and did not say its id; put it into the settings");
      const before = await readFile(deployment.file, "utf8").catch(() => "");
      await writeFile(deployment.file, withDatabase(before, id));
      current = { ...current, databaseId: id };
    }
  } else say(`  it is there: ${current.databaseId}`);
  if (current.logBucket !== undefined) {
    const buckets = await run(["r2", "bucket", "list"]);
    if (dryRun || !new RegExp(`\\b${current.logBucket}\\b`).test(buckets))
      await run(["r2", "bucket", "create", current.logBucket]);
  }

  title("The configuration");
  const folder = await generate(current, options.out);
  const config = join(folder, "wrangler.toml");
  say(`  ${config}`);
  await check(folder, say);

  title("Migrations, which only ever add");
  await run(["d1", "migrations", "apply", name, "--remote", "--config", config]);

  title("The Worker, with its secrets");
  const present = new Set<string>();
  if (!dryRun) {
    const list = ["secret", "list", "--name", name, "--format", "json"];
    const text = await call(list).catch((error: unknown) => {
      // Of a failure we know nothing, and new keys would make every stored secret unreadable.
      if (error instanceof Error && NO_WORKER.test(error.message)) return "[]";
      throw error;
    });
    for (const secret of JSON.parse(text) as { name: string }[]) present.add(secret.name);
  }
  const given = new Map(secrets);
  const made = MADE_SECRETS.filter((secret) => !present.has(secret) && !given.has(secret));
  if (!dryRun && made.includes("EVERDICT_VAULT_KEYS") && deployment.databaseId !== undefined) {
    const sealed = await call([...execute(name, config), "select count(*) as n from secrets"]);
    if (SOME.test(sealed))
      throw new DeployError(
        `the database of '${workspace}' holds secrets, and the Worker has no EVERDICT_VAULT_KEYS to open them; give the old keys in the environment`,
      );
  }
  for (const secret of made) given.set(secret, madeSecret(secret));
  for (const secret of current.secrets)
    if (!given.has(secret) && !present.has(secret))
      throw new DeployError(
        `${secret} has no value yet; set it in the environment, or deploy from a terminal and be asked`,
      );
  for (const secret of given.keys())
    say(
      `  secret ${secret}: ${made.some((one) => one === secret) ? "made now" : present.has(secret) ? "a new value" : "set"}`,
    );
  const secretsFile = join(folder, "secrets.json");
  try {
    // In a file that only we can read and that is gone afterwards: arguments are seen by every process of the machine.
    if (!dryRun) await writeFile(secretsFile, JSON.stringify(Object.fromEntries(given)), { mode: 0o600 });
    await run(["deploy", "--config", config, "--secrets-file", secretsFile, "--strict"]);
  } finally {
    await rm(secretsFile, { force: true });
  }

  title("The dashboard on Pages");
  const projects = await run(["pages", "project", "list"]);
  if (dryRun || !new RegExp(`\\b${name}\\b`).test(projects))
    await run(["pages", "project", "create", name, "--production-branch", "main"]);
  await run(["pages", "deploy", "site", "--project-name", name, "--branch", "main"], join(folder, "pages"));

  title("A first admin key, when there is none");
  const count = `select count(*) as n from api_keys where workspace = '${workspace}'`;
  const counted = await run([...execute(name, config), count]);
  let token: string | null = null;
  if (dryRun || !SOME.test(counted)) {
    const first = firstKey(workspace, Date.now());
    await run([...execute(name, config), dryRun ? "insert into workspaces …; insert into api_keys …" : first.sql]);
    token = dryRun ? null : first.token;
  }

  title("A look at the result");
  const url = publicUrlOf(current);
  say(`  GET ${url}/healthz`);
  if (!dryRun) await look(url);
  if (dryRun) return say(`${workspace}: every check that needs no account passed`);
  say(`${workspace} is deployed: ${url}/dashboard/`);
  if (token !== null) say(`First admin key, shown once: ${token}`);
}

async function smoke(url: string): Promise<void> {
  let said = "";
  for (let look = 0; look < SMOKE_TRIES; look++) {
    try {
      const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(10_000) });
      const health = (await response.json()) as { ok?: boolean; vault?: boolean };
      if (response.ok && health.ok && health.vault) return;
      said = `HTTP ${response.status} ${JSON.stringify(health).slice(0, 300)}`;
    } catch (error) {
      said = error instanceof Error ? error.message : "no answer";
    }
    await new Promise((resolve) => setTimeout(resolve, 3_000));
  }
  throw new DeployError(`${url}/healthz is not well after a minute: ${said}; see docs/deploying.md for the way back`);
}
