import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { type CliContext, type Output, proxyFetch } from "./context.ts";

const outputOf = (stream: NodeJS.WriteStream): Output => ({
  write: (words) => void stream.write(words),
  isTerminal: stream.isTTY === true,
  get columns() {
    return stream.columns ?? 120;
  },
});

/** The world of this process. */
export function processContext(): CliContext {
  // `everdict … | head` closes our output early: that is no error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
  return {
    env: process.env,
    out: outputOf(process.stdout),
    err: outputOf(process.stderr),
    readText: (path) => (path === "-" ? text(process.stdin) : readFile(path, "utf8")),
    interactive: process.stdin.isTTY === true,
    askSecret: (question) => askSecret(process.stdin, process.stderr, question),
    fetch: proxyFetch(),
    now: () => Date.now(),
    sleep: (ms) => sleep(ms),
    exit: (code) => {
      process.exitCode = code;
    },
    end: (code) => process.exit(code),
  };
}

const CTRL_C = "\u0003";
const CTRL_D = "\u0004";
const BACKSPACES = new Set(["\u007f", "\b"]);

/** Reads one line from a terminal in raw mode, showing nothing of it. Ctrl-C ends the process as it would elsewhere. */
function askSecret(input: NodeJS.ReadStream, output: NodeJS.WriteStream, question: string): Promise<string> {
  output.write(question);
  input.setRawMode(true);
  input.setEncoding("utf8");
  input.resume();
  return new Promise((resolve) => {
    let line = "";
    const done = (): void => {
      input.off("data", take);
      input.setRawMode(false);
      input.pause();
      output.write("\n");
    };
    const take = (chunk: string): void => {
      for (const char of chunk) {
        if (char === CTRL_C) {
          done();
          process.kill(process.pid, "SIGINT");
          return;
        }
        if (char === "\r" || char === "\n" || char === CTRL_D) {
          done();
          resolve(line);
          return;
        }
        line = BACKSPACES.has(char) ? line.slice(0, -1) : line + char;
      }
    };
    input.on("data", take);
  });
}
