import { spawn } from "node:child_process";
import { cp, mkdir, readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { childEnvironment, ROOT } from "./environment.ts";

const DIST = join(ROOT, "dist");
const SOURCES = [
  "contracts",
  "durable-objects",
  "worker",
  "runner",
  "web",
  "d1-migrations",
  "wrangler.toml",
  "package.json",
];
const PRODUCTS = ["dist/worker/index.js", "dist/everdict.mjs", "dist/web/docs/index.html"];

async function newest(path: string): Promise<number> {
  const info = await stat(path);
  if (!info.isDirectory()) return info.mtimeMs;
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const times = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async (entry) => (await stat(join(entry.parentPath, entry.name))).mtimeMs),
  );
  return Math.max(0, ...times);
}

async function isFresh(): Promise<boolean> {
  try {
    const built = await Promise.all(PRODUCTS.map(async (path) => (await stat(join(ROOT, path))).mtimeMs));
    const sources = await Promise.all(SOURCES.map((path) => newest(join(ROOT, path))));
    return Math.min(...built) > Math.max(...sources);
  } catch {
    return false;
  }
}

async function buildWeb(): Promise<void> {
  const out = join(DIST, "web");
  await rm(out, { recursive: true, force: true });
  await mkdir(join(out, "docs"), { recursive: true });
  await cp(join(ROOT, "web/public"), out, { recursive: true });
  await cp(join(ROOT, "web/docs"), join(out, "docs"), { recursive: true });
  const swagger = dirname(fileURLToPath(import.meta.resolve("swagger-ui-dist/package.json")));
  for (const file of ["swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-bundle.js.LICENSE.txt"])
    await cp(join(swagger, file), join(out, "docs", file));
}

async function buildRunner(): Promise<void> {
  await build({
    entryPoints: [join(ROOT, "runner/main.ts")],
    outfile: join(DIST, "everdict.mjs"),
    bundle: true,
    platform: "node",
    target: "node20",
    format: "esm",
    legalComments: "linked",
    banner: {
      js: "import { createRequire as everdictCreateRequire } from 'node:module'; const require = everdictCreateRequire(import.meta.url);",
    },
    logLevel: "warning",
  });
}

function buildWorker(): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn("wrangler", ["deploy", "--dry-run", "--env=", "--outdir", join(DIST, "worker")], {
      cwd: ROOT,
      env: childEnvironment(),
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`the Worker did not build:\n${output}`))));
  });
}

/** Builds the Worker, the CLI and the pages into dist/, unless they are newer than every source. */
export async function ensureBuilt(): Promise<void> {
  if (await isFresh()) return;
  await buildWeb();
  await Promise.all([buildWorker(), buildRunner()]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await ensureBuilt();
