import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { isatty } from "node:tty";
import type { FetchLike } from "../../../contracts/client.ts";
import { stdout } from "../stdout.ts";
import { type CliContext, type Output, proxyFetch } from "./context.ts";

const outputOf = (stream: () => NodeJS.WriteStream, fd: 1 | 2): Output => ({
  write: (words) => void stream().write(words),
  isTerminal: isatty(fd),
  get columns() {
    return stream().columns ?? 120;
  },
});

/**
 * The world of this process. Nothing is opened before it is used: the mere mention of process.stdin makes a pipe
 * non-blocking, and a command that reads it synchronously would fail with EAGAIN.
 */
export function processContext(): CliContext {
  return {
    env: process.env,
    out: outputOf(stdout, 1),
    err: outputOf(() => process.stderr, 2),
    readText: (path) => (path === "-" ? text(process.stdin) : readFile(path, "utf8")),
    interactive: isatty(0),
    askSecret: (question) => askSecret(process.stdin, process.stderr, question),
    fetch: (url, init) => {
      open ??= proxyFetch();
      return open(url, init);
    },
    now: () => Date.now(),
    sleep: (ms) => sleep(ms),
    exit: (code) => {
      process.exitCode = code;
    },
    end: (code) => process.exit(code),
  };
}

let open: FetchLike | undefined;

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
