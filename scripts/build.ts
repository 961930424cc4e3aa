import { spawn } from "node:child_process";
import { cp, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { childEnvironment, ROOT } from "./environment.ts";

const DIST = join(ROOT, "dist");

/** What is built, from what, by what. Each is built only when one of its sources is newer. */
interface Part {
  sources: readonly string[];
  product: string;
  build(): Promise<void>;
}

const PARTS: readonly Part[] = [
  {
    sources: ["contracts", "web", "scripts/build.ts", "package.json"],
    product: "dist/web/docs/index.html",
    build: buildWeb,
  },
  {
    sources: ["contracts", "durable-objects", "worker", "d1-migrations", "wrangler.toml", "package.json"],
    product: "dist/worker/index.js",
    build: buildWorker,
  },
  { sources: ["contracts", "runner", "package.json"], product: "dist/everdict.mjs", build: buildRunner },
];

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

async function isFresh({ product, sources }: Part): Promise<boolean> {
  try {
    const { mtimeMs } = await stat(join(ROOT, product));
    return mtimeMs > Math.max(...(await Promise.all(sources.map((path) => newest(join(ROOT, path))))));
  } catch {
    return false;
  }
}

/** The dashboard by Vite, the API reference around Swagger UI; put in place at once when all of it is there. */
async function buildWeb(): Promise<void> {
  const out = join(DIST, `web-${process.pid}`);
  await mkdir(join(out, "docs"), { recursive: true });
  const { build: viteBuild } = await import("vite");
  // Tests set it to "test", and React would be built for development.
  process.env.NODE_ENV = "production";
  await viteBuild({
    configFile: join(ROOT, "web/vite.config.ts"),
    logLevel: "error",
    build: { outDir: join(out, "dashboard") },
  });
  await cp(join(ROOT, "web/public"), out, { recursive: true });
  const swagger = dirname(fileURLToPath(import.meta.resolve("swagger-ui-dist/package.json")));
  for (const file of ["swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-bundle.js.LICENSE.txt"])
    await cp(join(swagger, file), join(out, "docs", file));
  await cp(join(ROOT, "web/docs"), join(out, "docs"), { recursive: true });
  await rm(join(DIST, "web"), { recursive: true, force: true });
  await rename(out, join(DIST, "web"));
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

/** Builds the pages, the Worker and the CLI into dist/, each unless it is newer than its sources. */
export async function ensureBuilt(): Promise<void> {
  const stale = (await Promise.all(PARTS.map(async (part) => ((await isFresh(part)) ? [] : [part])))).flat();
  // The Worker's build looks at the folder of assets, so the pages come first.
  await stale.find(({ build: how }) => how === buildWeb)?.build();
  await Promise.all(stale.filter(({ build: how }) => how !== buildWeb).map((part) => part.build()));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await ensureBuilt();
