import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ROOT } from "./environment.ts";

/*
 * `npx everdict` in a checkout: npm links the commands of dependencies only, and a package is not its own. The command is
 * the CLI of these sources, built when it is first called, on the pinned Node where it is installed.
 */
const COMMAND = `#!/bin/sh
here=$(dirname "$0")
if [ -x "$here/node" ]; then PATH="$here:$PATH"; fi
exec node "$here/../../scripts/everdict.ts" "$@"
`;

const folder = join(ROOT, "node_modules/.bin");
await mkdir(folder, { recursive: true });
await writeFile(join(folder, "everdict"), COMMAND, { mode: 0o755 });
