import { EnvHttpProxyAgent, fetch as undiciFetch } from "undici";
import type { FetchLike } from "../../../contracts/client.ts";
import { RUNNER_VERSION } from "../../version.ts";

export interface Output {
  write(text: string): void;
  readonly isTerminal: boolean;
  /** Characters a line may have. */
  readonly columns: number;
}

/** Everything the commands need of the world outside, so that tests give them another one. */
export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly out: Output;
  readonly err: Output;
  /** A file's text, or all of standard input for "-". @throws what the file system throws */
  readText(path: string): Promise<string>;
  /** Whether somebody can be asked. */
  readonly interactive: boolean;
  /** A line typed without echo. */
  askSecret(question: string): Promise<string>;
  readonly fetch: FetchLike;
  now(): number;
  sleep(ms: number): Promise<void>;
  /** Sets the exit status of the process. */
  exit(code: number): void;
  /** Ends the process at once: the command line was not understood, or only help was wanted. */
  end(code: number): never;
}

/** HTTP through the proxies of the environment (HTTPS_PROXY, NO_PROXY). */
export function proxyFetch(): FetchLike {
  // An event stream is silent for longer than undici's defaults; the API sends a comment every 15 s.
  const dispatcher = new EnvHttpProxyAgent({ headersTimeout: 60_000, bodyTimeout: 60_000, connectTimeout: 10_000 });
  return async (url, init) => {
    const { signal, headers, ...rest } = init;
    const answer = await undiciFetch(url, {
      ...rest,
      headers: { ...headers, "user-agent": `everdict/${RUNNER_VERSION}` },
      ...(signal === undefined ? {} : { signal }),
      dispatcher,
      redirect: "error",
    });
    const reader = answer.body?.getReader();
    const body = reader && streamOf(reader);
    return new Response(body ?? null, { status: answer.status, headers: [...answer.headers] });
  };
}

/** The same bytes as a stream of this runtime's own kind; undici brings another. */
function streamOf(reader: {
  read(): Promise<{ done: boolean; value?: Uint8Array }>;
  cancel(): Promise<void>;
}): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done || value === undefined) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => reader.cancel(),
  });
}
