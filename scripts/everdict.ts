import { ensureBuilt } from "./build.ts";
import { ROOT } from "./environment.ts";

await ensureBuilt();
// The CLI reads its own arguments; it is loaded, not spawned, so that signals and the terminal are its own.
await import(`${ROOT}/dist/everdict.mjs`);
