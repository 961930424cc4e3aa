import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Command } from "commander";
import type { CliContext } from "../../../runner/commands/api/context.ts";
import { proxyFetch } from "../../../runner/commands/api/context.ts";
import { registerApiCommands } from "../../../runner/commands/api/index.ts";

export interface Seen {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: unknown;
}

type Answer = (seen: Seen, response: ServerResponse) => void;

export const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
  (_seen, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(body === undefined ? undefined : JSON.stringify(body));
  };

export const problem = (status: number, code: string, detail: string, over: object = {}): Answer =>
  json(status, {
    type: "https://everdict.dev/problems/x",
    title: "A problem",
    status,
    detail,
    code,
    instance: "req_1",
    ...over,
  });

/** Server-sent events; the connection is cut after them, as a proxy does. */
export const events =
  (list: { id?: string; event: string; data: unknown }[]): Answer =>
  (_seen, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("retry: 2000\n\n: keep-alive\n\n");
    for (const { id, event, data } of list) {
      response.write(`${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    }
    response.end();
  };

/** A control plane over real HTTP that answers each route with what the test lists for it, the last one for ever. */
export class FakeApi {
  readonly #server: Server;
  readonly #routes = new Map<string, Answer[]>();
  readonly seen: Seen[] = [];
  url = "";

  constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const { port } = this.#server.address() as AddressInfo;
    this.url = `http://127.0.0.1:${port}`;
    return this;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  on(route: string, ...answers: Answer[]): this {
    this.#routes.set(route, answers);
    return this;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString("utf8");
    const seen: Seen = {
      method: request.method ?? "",
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body: text === "" ? undefined : JSON.parse(text),
    };
    this.seen.push(seen);
    const answers = this.#routes.get(`${seen.method} ${seen.path}`);
    const answer = answers && answers.length > 1 ? answers.shift() : answers?.[0];
    (answer ?? problem(404, "NOT_FOUND", `no route ${seen.method} ${seen.path}`))(seen, response);
  }
}

export interface World {
  env?: Record<string, string>;
  files?: Record<string, string>;
  typed?: string;
  terminal?: boolean;
}

export interface Finished {
  code: number;
  out: string;
  err: string;
}

class Ended extends Error {}

/** Runs the CLI's API commands as the process would, in a world of the test's own. */
export async function everdict(args: string[], world: World = {}): Promise<Finished> {
  const finished = { code: -1, out: "", err: "" };
  const output = (name: "out" | "err") => ({
    write: (text: string) => {
      finished[name] += text;
    },
    isTerminal: world.terminal === true,
    columns: 100,
  });
  const context: CliContext = {
    env: { HOME: "/nonexistent", ...world.env },
    out: output("out"),
    err: output("err"),
    readText: async (path) => {
      const text = world.files?.[path];
      if (text === undefined) throw new Error("no such file");
      return text;
    },
    interactive: world.typed !== undefined,
    askSecret: async (question) => {
      finished.err += question;
      return world.typed ?? "";
    },
    fetch: proxyFetch(),
    now: () => Date.now(),
    sleep: async () => undefined,
    exit: (code) => {
      finished.code = code;
    },
    end: (code) => {
      finished.code = code;
      throw new Ended();
    },
  };
  const program = new Command("everdict");
  registerApiCommands(program, context);
  try {
    await program.parseAsync(["node", "everdict", ...args]);
  } catch (error) {
    if (!(error instanceof Ended)) throw error;
  }
  return finished;
}
