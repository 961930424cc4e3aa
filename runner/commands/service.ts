import { jsonLogger, type Logger, terminalLogger } from "../log.ts";
import { EXIT, FatalError } from "../session.ts";

/** Words on standard error: live on a terminal, JSON lines elsewhere. */
function openLogger(): Logger {
  const now = (): Date => new Date();
  const write = (text: string): void => void process.stderr.write(text);
  return process.stderr.isTTY ? terminalLogger(write, now) : jsonLogger(write, now);
}

/** Runs what stays until it is told to stop; what ends it for good is said in words. @returns the exit status */
export async function runService(work: (log: Logger) => Promise<void>): Promise<number> {
  const log = openLogger();
  try {
    await work(log);
    return EXIT.ok;
  } catch (error) {
    if (!(error instanceof FatalError)) throw error;
    log.error(error.message);
    return error.exitCode;
  } finally {
    log.close();
  }
}
