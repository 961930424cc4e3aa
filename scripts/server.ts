import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createWriteStream } from "node:fs";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "wrangler";

import { createLocalExecutor } from "../runner/local.ts";
import { jsonLogger } from "../runner/log.ts";
import { childEnvironment, ROOT } from "./environment.ts";
import { RawLines } from "./raw-lines.ts";

/** The binary that miniflare would start by itself. The package has no types. */
const workerdPath = String((createRequire(import.meta.url)("workerd") as { default: unknown }).default);

/** The sweep a deployment's cron does each minute; local cron never fires by itself. */
const SWEEP_MS = 30_000;
const HOST = "127.0.0.1";

/**
 * workerd outlives a SIGKILL of the process that started it, and would keep the port and the state. A launcher asks the
 * kernel to end it with its parent where setpriv (util-linux) is there, and notes its pid in any case.
 */
async function launchWith(state: string): Promise<void> {
  const launcher = join(state, "workerd.sh");
  const pidFile = join(state, "workerd.pid");
  const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const text = [
    "#!/bin/sh",
    `echo $$ > ${quoted(pidFile)}`,
    `if command -v setpriv >/dev/null 2>&1; then exec setpriv --pdeathsig KILL ${quoted(workerdPath)} "$@"; fi`,
    `exec ${quoted(workerdPath)} "$@"`,
    "",
  ].join("\n");
  await writeFile(launcher, text, { mode: 0o700 });
  process.env.MINIFLARE_WORKERD_PATH = launcher;
}

const alive = async (pid: number, name: string): Promise<boolean> => {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, "utf8")).includes(name);
  } catch {
    return false;
  }
};

/** Whether the process that started it is gone. */
const isOrphan = async (pid: number): Promise<boolean> =>
  / 1 /.test((await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")).split(")").at(-1)?.slice(0, 6) ?? "");

/**
 * npm hands signals on, but not its own SIGKILL: a server that npm started ends as abruptly as npm did, or it would keep
 * the state from its successor.
 */
function dieWithNpm(): void {
  if (process.env.npm_lifecycle_event === undefined) return;
  const parent = process.ppid;
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, "SIGKILL");
  }, 100).unref();
}

const pidIn = async (path: string): Promise<number> =>
  Number.parseInt(await readFile(path, "utf8").catch(() => ""), 10) || 0;

/**
 * One server for one state folder; what a killed one left behind is ended first.
 * @throws Error naming the process that uses the folder
 */
async function claim(state: string): Promise<void> {
  const owner = await pidIn(join(state, "server.pid"));
  const owned = async () => owner !== 0 && owner !== process.pid && (await alive(owner, "scripts/"));
  // A server whose npm was killed ends by itself within a moment.
  for (let look = 0; look < 20 && (await owned()) && (await isOrphan(owner)); look++)
    await new Promise((resolve) => setTimeout(resolve, 100));
  if (await owned()) {
    throw new Error(`${state} is in use by process ${owner}; stop it, or give another --state`);
  }
  const left = await pidIn(join(state, "workerd.pid"));
  if (left !== 0 && (await alive(left, "workerd"))) {
    process.kill(left, "SIGKILL");
    while (await alive(left, "workerd")) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await writeFile(join(state, "server.pid"), String(process.pid));
}

/** @throws Error naming the port */
function requireFree(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", () => reject(new Error(`port ${port} is in use on ${HOST}; give another --port`)));
    probe.listen(port, HOST, () => probe.close(() => resolve()));
  });
}

export interface LocalServer {
  url: string;
  stop(): Promise<void>;
}

/** Keys of a development deployment: made once, kept beside its state, readable by its owner only. */
async function developmentKeys(state: string): Promise<Record<string, string>> {
  const path = join(state, "keys.json");
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch {
    const key = () => randomBytes(32).toString("base64");
    const keys = {
      EVERDICT_SIGNING_KEY: key(),
      EVERDICT_VAULT_KEYS: JSON.stringify({ current: "k1", keys: { k1: key() } }),
    };
    await writeFile(path, JSON.stringify(keys), { mode: 0o600 });
    return keys;
  }
}

/** Applies what is not applied yet. A note of what was spares the next start the seconds this takes. */
async function migrate(state: string): Promise<void> {
  const known = join(state, "migrated");
  const wanted = (await readdir(join(ROOT, "d1-migrations")))
    .filter((name) => name.endsWith(".sql"))
    .sort()
    .join("\n");
  if ((await readFile(known, "utf8").catch(() => "")) === wanted) return;
  await applyMigrations(state);
  await writeFile(known, wanted);
}

function applyMigrations(state: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const args = ["d1", "migrations", "apply", "DB", "--local", "--env=", "--persist-to", state];
    const child = spawn("wrangler", args, { cwd: ROOT, env: childEnvironment(), stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    child.on("error", reject);
    child.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`migrations failed:\n${output}`))));
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, HOST, () => {
      const address = probe.address();
      probe.close(() =>
        typeof address === "object" && address ? resolve(address.port) : reject(new Error("no free port")),
      );
    });
  });
}

/** Variables a developer may set for the Worker: Everdict's own, and Worker secrets. */
function passedVariables(): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env))
    if (value !== undefined && /^(EVERDICT_|SECRET_)/.test(name)) out[name] = value;
  return out;
}

/** The pages as they are now: a build while the server runs takes them away from nobody. */
async function keepPages(state: string): Promise<string> {
  const pages = join(state, "pages");
  await rm(pages, { recursive: true, force: true });
  await cp(join(ROOT, "dist/web"), pages, { recursive: true });
  return pages;
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? { ...value } : {};

/**
 * The control plane on local workerd, with D1 and objects on disk below `state`.
 * @param options port 0 takes a free one; quiet writes the Worker's log lines to server.log below state
 */
export async function startServer(options: { port: number; state: string; quiet?: boolean }): Promise<LocalServer> {
  const { state } = options;
  await mkdir(state, { recursive: true, mode: 0o700 });
  dieWithNpm();
  await claim(state);
  await launchWith(state);
  if (options.port !== 0) await requireFree(options.port);
  const keys = await developmentKeys(state);
  await migrate(state);
  const port = options.port === 0 ? await freePort() : options.port;
  const url = `http://${HOST}:${port}`;
  const file = options.quiet ? createWriteStream(join(state, "server.log"), { flags: "a" }) : null;
  const say = (line: string): boolean => (file ?? process.stdout).write(line);
  const raw = new RawLines((line) => void say(`${line}\n`), Date.now);
  // A signal ends the process by way of miniflare's own hook, before a stop is done.
  process.once("exit", () => raw.close());
  const log = jsonLogger(say, () => new Date());
  const local = createLocalExecutor({ stateDir: join(state, "local"), apiUrl: () => url, executor: "auto", log });
  const { workerOptions, externalWorkers } = unstable_getMiniflareWorkerOptions(join(ROOT, "wrangler.toml"), "");
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: HOST,
      port: 0,
      cf: false,
      resourcePersistencePath: join(state, "v3"),
      unsafeTriggerHandlers: true,
      handleStructuredLogs: ({ message }) => raw.take(message),
      workers: [
        {
          ...workerOptions,
          name: "everdict-edge",
          modulesRoot: join(ROOT, "dist/worker"),
          modules: [{ type: "ESModule", path: join(ROOT, "dist/worker/index.js") }],
          bindings: { ...objectOf(workerOptions.bindings), ...keys, ...passedVariables(), EVERDICT_ENV: "dev" },
          assets: { ...objectOf(workerOptions.assets), directory: await keepPages(state) },
          serviceBindings: { ...objectOf(workerOptions.serviceBindings), LOCAL: local },
          unsafeDirectSockets: [{ host: HOST, port }],
        },
        ...externalWorkers,
      ],
    }),
  );
  await miniflare.ready;
  const worker = await miniflare.getWorker("everdict-edge");
  const sweep = () => worker.scheduled().catch(() => undefined);
  const timer = setInterval(sweep, SWEEP_MS);
  void sweep();
  return {
    url,
    async stop() {
      clearInterval(timer);
      await local.close();
      await miniflare.dispose();
      raw.close();
      file?.end();
    },
  };
}
