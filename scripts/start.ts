import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { ensureBuilt } from "./build.ts";
import { ROOT } from "./environment.ts";
import { startServer } from "./server.ts";

const USAGE = "usage: npm start -- [--port 8787] [--state DIR]";

function options(): { port: number; state: string } {
  const { values } = parseArgs({
    options: {
      port: { type: "string", default: "8787" },
      state: { type: "string", default: `${ROOT}/.state` },
      help: { type: "boolean" },
    },
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const port = Number(values.port);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new Error(`--port must be 0 to 65535; ${USAGE}`);
  return { port, state: resolve(values.state) };
}

/** What is wrong with how it was called, in a line. */
function fail(error: unknown): never {
  console.error(error instanceof Error ? error.message : error);
  process.exit(2);
}

function readOptions(): { port: number; state: string } {
  try {
    return options();
  } catch (error) {
    return fail(error);
  }
}

const { port, state } = readOptions();
await ensureBuilt();
const server = await startServer({ port, state }).catch(fail);
console.log(`listening ${server.url}`);
for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.once(signal, () => {
    server.stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
}
