import { type ParseArgsConfig, parseArgs } from "node:util";

type Options = NonNullable<ParseArgsConfig["options"]>;

/** Ends the process with what is wrong, in a line: how it was called, or where it was started. */
export function fail(error: unknown): never {
  console.error(error instanceof Error ? error.message : error);
  process.exit(2);
}

/** The options of a script. Asked for help it prints its usage and ends; called wrongly it says so, and how to call it. */
export function readOptions<T extends Options>(usage: string, options: T) {
  try {
    const { values } = parseArgs({ options: { ...options, help: { type: "boolean", short: "h" } } });
    if ("help" in values && values.help === true) {
      console.log(usage);
      process.exit(0);
    }
    return values;
  } catch (error) {
    return fail(`${error instanceof Error ? error.message : String(error)}\n${usage}`);
  }
}

/** The port that an option names. */
export function portOf(text: string, usage: string): number {
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port > 65_535) fail(`--port must be 0 to 65535, not '${text}'\n${usage}`);
  return port;
}
