import { resolve } from "node:path";
import { ensureBuilt } from "./build.ts";
import { ROOT } from "./environment.ts";
import { startServer } from "./server.ts";
import { fail, portOf, readOptions } from "./server-options.ts";

const USAGE = "usage: npm start -- [--port 8787] [--state DIR]";

const values = readOptions(USAGE, {
  port: { type: "string", default: "8787" },
  state: { type: "string", default: `${ROOT}/.state` },
});
const port = portOf(values.port, USAGE);
const state = resolve(values.state);
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
