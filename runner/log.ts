export type Fields = Readonly<Record<string, unknown>>;

/** Structured log of the CLI. Values of secrets and tokens are never passed to it. */
export interface Logger {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
  /** What the process is doing, in a few words: shown live on a terminal, otherwise logged when it changes. */
  status(text: string): void;
  /** The status is shown live, so it may change at any time. */
  readonly live: boolean;
  /** Leaves the terminal tidy. */
  close(): void;
}

/** One JSON object a line on standard error: for service units and files. */
export function jsonLogger(write: (line: string) => void, now: () => Date): Logger {
  let shown = "";
  const line = (level: string, event: string, fields: Fields = {}): void =>
    write(`${JSON.stringify({ time: now().toISOString(), level, event, ...fields })}\n`);
  return {
    info: (event, fields) => line("info", event, fields),
    warn: (event, fields) => line("warn", event, fields),
    error: (event, fields) => line("error", event, fields),
    status: (text) => {
      if (text !== shown) line("info", "status", { status: text });
      shown = text;
    },
    live: false,
    close: () => undefined,
  };
}

const CLEAR_LINE = "\r\u001b[2K";

/** Control characters would let a message move the cursor. */
const printable = (text: string): string => text.replace(/[^\x20-\x7e\u00a0-\uffff]/g, " ");

/** Messages above one live status line. */
export function terminalLogger(write: (text: string) => void, now: () => Date): Logger {
  let shown = "";
  const say = (sign: string, event: string, fields: Fields = {}): void => {
    const words = Object.entries(fields).map(([name, value]) => `${name}=${String(value)}`);
    const time = now().toTimeString().slice(0, 8);
    write(`${CLEAR_LINE}${time} ${sign} ${printable([event, ...words].join("  "))}\n${shown}`);
  };
  return {
    info: (event, fields) => say("·", event, fields),
    warn: (event, fields) => say("!", event, fields),
    error: (event, fields) => say("✗", event, fields),
    status: (text) => {
      shown = printable(text).slice(0, 200);
      write(`${CLEAR_LINE}${shown}`);
    },
    live: true,
    close: () => write(CLEAR_LINE),
  };
}
