import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Dataset } from "../contracts/case.ts";
import { createClient } from "../contracts/client.ts";
import { HarnessSpec } from "../contracts/harness.ts";
import { ensureBuilt } from "./build.ts";
import { childEnvironment, ROOT } from "./environment.ts";
import { type LocalServer, startServer } from "./server.ts";
import { fail, portOf, readOptions } from "./server-options.ts";

/** The CLI's answers: everything passed, or something was measured and did not pass. Both mean: all was measured. */
const MEASURED = new Set([0, 1]);

const USAGE = `usage: npm run quickstart -- [--once] [--port 8787] [--state DIR]

A control plane, this machine as a runner, and the example scorecard.
  --once        stop when the scorecard has ended; so does every start without a terminal
  --port PORT   port of 127.0.0.1, 0 for a free one; default 8787, with --once a free one
  --state DIR   folder for what is kept; default .state, with --once a temporary one`;

const values = readOptions(USAGE, {
  once: { type: "boolean", default: false },
  port: { type: "string" },
  state: { type: "string" },
});
const once = values.once || !process.stdout.isTTY;
const port = values.port === undefined ? (once ? 0 : 8787) : portOf(values.port, USAGE);

async function examples(kind: string): Promise<unknown[]> {
  const folder = join(ROOT, "examples", kind);
  const names = (await readdir(folder)).filter((name) => name.endsWith(".json")).sort();
  return Promise.all(names.map(async (name) => JSON.parse(await readFile(join(folder, name), "utf8"))));
}

function everdict(url: string, args: string[], environment: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn("node", [join(ROOT, "dist/everdict.mjs"), ...args], {
    env: { ...childEnvironment(), EVERDICT_API_URL: url, ...environment },
    stdio: ["ignore", "inherit", "inherit"],
  });
}

const exitOf = (child: ChildProcess): Promise<number> =>
  new Promise((done) => child.on("close", (code) => done(code ?? 1)));

/** Pairs this machine and runs `everdict runner` on it. */
async function startRunner(server: LocalServer, state: string): Promise<ChildProcess> {
  const client = createClient({ apiUrl: server.url, fetch });
  const { id, token } = await client.call("pair_runner", { body: { label: "quickstart" } });
  console.log(`paired this machine as runner ${id}`);
  const args = [
    join(ROOT, "dist/everdict.mjs"),
    "runner",
    "--state-dir",
    join(state, "runner"),
    "--work-dir",
    join(state, "work"),
    "--executor",
    "host",
  ];
  return spawn("node", args, {
    env: { ...childEnvironment(), EVERDICT_API_URL: server.url, EVERDICT_PAIR: token ?? "" },
    stdio: ["ignore", "ignore", "ignore"],
  });
}

async function registerExamples(server: LocalServer): Promise<void> {
  const client = createClient({ apiUrl: server.url, fetch });
  for (const spec of await examples("harnesses"))
    await client.call("create_harness", { body: HarnessSpec.parse(spec) });
  for (const spec of await examples("datasets")) await client.call("create_dataset", { body: Dataset.parse(spec) });
}

/** Installed before anything is started, so that nothing outlives us. */
const told = new Promise<void>((done) => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => done());
});

async function story(): Promise<number> {
  await ensureBuilt();
  const state = values.state
    ? resolve(values.state)
    : once
      ? await mkdtemp(join(tmpdir(), "everdict-quickstart-"))
      : join(ROOT, ".state");
  const server = await startServer({ port, state, quiet: true }).catch(fail);
  console.log(`control plane listening at ${server.url}`);
  const runner = await startRunner(server, state);
  try {
    await registerExamples(server);
    const card = everdict(server.url, ["scorecard", "shell-basics", "--harness", "shell-solver", "--runtime", "self"]);
    const code = await Promise.race([exitOf(card), told.then(() => null)]);
    if (code === null) {
      card.kill("SIGTERM");
      return 130;
    }
    console.log("\na case fails its grade on purpose, so the pass rate is below 100 %");
    if (!once) {
      console.log(`${server.url}/dashboard/ shows it, until Ctrl-C; try:`);
      console.log(`  npm run -s everdict -- runs list --api-url ${server.url}`);
      await told;
    } else if (values.state)
      console.log(`the control plane is stopped; to look at it again: npm start -- --state ${values.state}`);
    else
      console.log(
        "the control plane is stopped and its state removed; in a terminal and without --once it stays, with its dashboard",
      );
    return MEASURED.has(code) ? 0 : 1;
  } finally {
    const gone = exitOf(runner);
    runner.kill("SIGTERM");
    await gone;
    await server.stop();
    if (once && !values.state) await rm(state, { recursive: true, force: true });
  }
}

process.exitCode = await story();
