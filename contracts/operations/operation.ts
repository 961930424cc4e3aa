import type * as z from "zod";
import type { Action } from "../roles.ts";

export type Method = "GET" | "POST" | "PUT" | "DELETE";

/** Who may call: a person or API key; a runner by its token; one attempt's log token; anyone. */
export type Audience = "user" | "runner" | "attempt" | "public";

/**
 * One API operation, declared once. The HTTP route, the MCP tool, the OpenAPI document, the typed client and the docs
 * table are all derived from it.
 */
export interface Operation<
  P extends z.ZodObject = z.ZodObject,
  Q extends z.ZodObject = z.ZodObject,
  B extends z.ZodType = z.ZodType,
  O extends z.ZodType = z.ZodType,
> {
  readonly name: string;
  readonly method: Method;
  /** Path with {parameters}. */
  readonly path: string;
  readonly group: string;
  readonly summary: string;
  readonly description?: string;
  readonly audience: Audience;
  readonly action: Action;
  readonly params: P;
  readonly query: Q;
  /** Absent: the operation takes no body. */
  readonly body?: B;
  /** "bytes": the body is passed through unparsed. */
  readonly bodyType?: "json" | "bytes";
  /** When the body is not a flat object: its name among the MCP tool's arguments. */
  readonly bodyAs?: string;
  readonly status: 200 | 201 | 202 | 204 | 302;
  /** Absent: nothing is returned. */
  readonly output?: O;
  readonly outputType?: "json" | "text" | "sse";
  /** Honours Idempotency-Key. */
  readonly creates?: boolean;
  readonly destructive?: boolean;
  /** Changes nothing that anybody made; absent: as the method says, GET. */
  readonly readOnly?: boolean;
  /** The same again has no further effect; absent: as the method says, all but POST. */
  readonly idempotent?: boolean;
  /** Reaches what is outside of Everdict: a cluster, or what an agent may touch. */
  readonly openWorld?: boolean;
  /** The answer carries a token and must not be cached. */
  readonly sensitive?: boolean;
  /** Upper bound of the body in bytes; default 1 MiB. */
  readonly maxBodyBytes?: number;
  /** Why there is no MCP tool; absent: there is one. */
  readonly noTool?: string;
}

/** What a tool's caller may expect of an operation, in MCP's words. */
export function hintsOf(
  operation: Operation,
): Record<"readOnlyHint" | "destructiveHint" | "idempotentHint" | "openWorldHint", boolean> {
  const { method } = operation;
  const readOnly = operation.readOnly ?? method === "GET";
  return {
    readOnlyHint: readOnly,
    // What replaces a value takes the earlier one away.
    destructiveHint: !readOnly && (operation.destructive === true || method === "PUT" || method === "DELETE"),
    idempotentHint: readOnly || (operation.idempotent ?? method !== "POST"),
    openWorldHint: operation.openWorld === true,
  };
}

/** Types an operation's definition without widening it. */
export function operation<P extends z.ZodObject, Q extends z.ZodObject, B extends z.ZodType, O extends z.ZodType>(
  definition: Operation<P, Q, B, O>,
): Operation<P, Q, B, O> {
  return definition;
}

export type ParamsOf<T> = T extends Operation<infer P, z.ZodObject, z.ZodType, z.ZodType> ? z.infer<P> : never;
export type QueryOf<T> = T extends Operation<z.ZodObject, infer Q, z.ZodType, z.ZodType> ? z.infer<Q> : never;
export type BodyOf<T> = T extends Operation<z.ZodObject, z.ZodObject, infer B, z.ZodType> ? z.infer<B> : never;
/** What a client may send: defaults are optional. */
export type BodyInputOf<T> = T extends Operation<z.ZodObject, z.ZodObject, infer B, z.ZodType> ? z.input<B> : never;
export type QueryInputOf<T> = T extends Operation<z.ZodObject, infer Q, z.ZodType, z.ZodType> ? z.input<Q> : never;
export type OutputOf<T> = T extends Operation<z.ZodObject, z.ZodObject, z.ZodType, infer O> ? z.infer<O> : never;
