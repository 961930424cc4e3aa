import { ERROR_STATUS, EverdictError, type Problem } from "./errors.ts";
import { OPERATIONS, type OperationName, type Operations } from "./operations/index.ts";
import type { BodyInputOf, Operation, OutputOf, ParamsOf, QueryInputOf } from "./operations/operation.ts";

export type FetchLike = (
  url: string,
  init: { method: string; headers: Record<string, string>; body?: string; signal?: AbortSignal },
) => Promise<Response>;

export interface ClientOptions {
  /** Address of the control plane, without a path. */
  apiUrl: string;
  /** API key or a person's token; absent: the development server's own subject. */
  token?: string | undefined;
  workspace?: string | undefined;
  fetch: FetchLike;
}

/** What an operation takes. Query values are sent as text. */
export interface CallInput<K extends OperationName> {
  params?: ParamsOf<Operations[K]>;
  query?: { [Q in keyof QueryInputOf<Operations[K]>]?: string | number | undefined };
  body?: BodyInputOf<Operations[K]>;
  idempotencyKey?: string;
  signal?: AbortSignal;
}

export interface Client {
  /** @throws EverdictError with the API's code; UNAVAILABLE when the control plane cannot be reached */
  call<K extends OperationName>(name: K, input?: CallInput<K>): Promise<OutputOf<Operations[K]>>;
  /** The raw answer, for text and event streams. @throws EverdictError as call */
  open<K extends OperationName>(name: K, input?: CallInput<K>, headers?: Record<string, string>): Promise<Response>;
  /** Every item of a list, page after page. */
  all<K extends OperationName>(name: K, input?: CallInput<K>): AsyncGenerator<ItemOf<K>>;
}

type ItemOf<K extends OperationName> = OutputOf<Operations[K]> extends { items: (infer I)[] } ? I : never;

/** The address of an operation. @throws EverdictError BAD_REQUEST for a missing path parameter */
export function operationUrl(
  apiUrl: string,
  operation: Operation,
  params: Record<string, unknown> = {},
  query: Record<string, unknown> = {},
): string {
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name];
    if (value === undefined) throw new EverdictError("BAD_REQUEST", `path parameter '${name}' is missing`);
    return encodeURIComponent(String(value));
  });
  const url = new URL(apiUrl.replace(/\/+$/, "") + path);
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, String(value));
  return url.toString();
}

/** Whether an answer is ours. By hand: a browser's first load need not carry a schema library for it. */
function isProblem(value: unknown): value is Problem {
  if (typeof value !== "object" || value === null) return false;
  const { code, detail, instance } = value as Partial<Record<keyof Problem, unknown>>;
  return (
    typeof code === "string" &&
    Object.hasOwn(ERROR_STATUS, code) &&
    typeof detail === "string" &&
    typeof instance === "string"
  );
}

/** An answer that is not a success, as the error the API meant. */
export async function errorOf(response: Response): Promise<EverdictError> {
  const text = await response.text().catch(() => "");
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  const extras = Number.isFinite(retryAfter) ? { retryAfterSec: retryAfter } : {};
  try {
    const problem: unknown = JSON.parse(text);
    if (!isProblem(problem)) throw new SyntaxError("not a problem document");
    const error = new EverdictError(problem.code, problem.detail, {
      ...extras,
      ...(problem.data ? { data: problem.data } : {}),
      ...(problem.issues ? { issues: problem.issues } : {}),
    });
    return Object.assign(error, { requestId: problem.instance });
  } catch {
    const code = response.status >= 500 ? "UNAVAILABLE" : "UPSTREAM_ERROR";
    return new EverdictError(
      code,
      `the address answered HTTP ${response.status}, and not as the control plane does: ${text.slice(0, 200)}`,
      extras,
    );
  }
}

/** A client whose operations, inputs and outputs are those of the operation table. */
export function createClient(options: ClientOptions): Client {
  const open = async <K extends OperationName>(
    name: K,
    input: CallInput<K> = {},
    headers: Record<string, string> = {},
  ): Promise<Response> => {
    // SAFETY: the table's entries are Operations; only their schemas' types differ.
    const operation = OPERATIONS[name] as unknown as Operation;
    const url = operationUrl(
      options.apiUrl,
      operation,
      input.params as Record<string, unknown> | undefined,
      input.query as Record<string, unknown> | undefined,
    );
    const init = {
      method: operation.method,
      headers: {
        ...(options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }),
        ...(options.workspace === undefined ? {} : { "x-everdict-workspace": options.workspace }),
        ...(input.body === undefined ? {} : { "content-type": "application/json" }),
        ...(input.idempotencyKey === undefined ? {} : { "idempotency-key": input.idempotencyKey }),
        ...headers,
      },
      ...(input.body === undefined ? {} : { body: JSON.stringify(input.body) }),
      ...(input.signal === undefined ? {} : { signal: input.signal }),
    };
    let response: Response;
    try {
      response = await options.fetch(url, init);
    } catch (error) {
      if (input.signal?.aborted) throw error;
      throw new EverdictError("UNAVAILABLE", `cannot reach the control plane at ${options.apiUrl}`, { cause: error });
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  };
  const call = async <K extends OperationName>(name: K, input: CallInput<K> = {}): Promise<OutputOf<Operations[K]>> => {
    const response = await open(name, input);
    const operation = OPERATIONS[name] as unknown as Operation;
    if (operation.outputType === "text") return (await response.text()) as OutputOf<Operations[K]>;
    const text = await response.text();
    return (text === "" ? undefined : JSON.parse(text)) as OutputOf<Operations[K]>;
  };
  async function* all<K extends OperationName>(name: K, input: CallInput<K> = {}): AsyncGenerator<ItemOf<K>> {
    let cursor: string | undefined;
    do {
      const query = {
        limit: 200,
        ...input.query,
        ...(cursor === undefined ? {} : { cursor }),
      } as CallInput<K>["query"];
      const page = (await call(name, { ...input, ...(query === undefined ? {} : { query }) })) as unknown as {
        items: ItemOf<K>[];
        nextCursor: string | null;
      };
      yield* page.items;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }
  return { call, open, all };
}
