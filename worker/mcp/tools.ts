import * as z from "zod";
import { described } from "../../contracts/field-words.ts";
import { OPERATION_LIST } from "../../contracts/operations/index.ts";
import type { Operation } from "../../contracts/operations/operation.ts";

type JsonSchema = Record<string, unknown>;

export interface Tool {
  operation: Operation;
  input: JsonSchema;
  output: JsonSchema;
}

const io = { unrepresentable: "any", io: "input", target: "draft-2020-12" } as const;

/** JSON Schema of an object's fields, with its definitions. */
function schemaOf(schema: z.ZodType, direction: "input" | "output"): JsonSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { ...io, io: direction }) as JsonSchema;
  return rest;
}

/** The arguments of a tool: path parameters, query and body of the operation, side by side; a spec stays one object. */
function inputSchema(operation: Operation): JsonSchema {
  const properties: Record<string, unknown> = {};
  const required: string[] = [];
  const merge = (schema: JsonSchema) => {
    Object.assign(properties, schema.properties);
    if (Array.isArray(schema.required)) required.push(...schema.required.map(String));
  };
  merge(schemaOf(operation.params, "input"));
  // A number is a number in a tool call, though a URL carries it as text.
  Object.assign(properties, schemaOf(operation.query, "output").properties);
  merge({ required: schemaOf(operation.query, "input").required });
  if (operation.body !== undefined) {
    if (operation.bodyAs !== undefined) {
      properties[operation.bodyAs] = schemaOf(operation.body, "input");
      required.push(operation.bodyAs);
    } else merge(schemaOf(operation.body, "input"));
  }
  if (operation.creates) {
    properties.idempotencyKey = {
      type: "string",
      maxLength: 255,
      description: "The same key with the same arguments gives the same answer for 24 h",
    };
  }
  return { type: "object", properties, required, additionalProperties: false };
}

/** Structured content is an object: text is wrapped, and nothing is an empty one. */
function outputSchema(operation: Operation): JsonSchema {
  if (operation.outputType === "text")
    return { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
  return operation.output === undefined ? { type: "object", properties: {} } : schemaOf(operation.output, "output");
}

let tools: Tool[] | null = null;

/** Every tool, made once an isolate from the operation table. */
export function allTools(): Tool[] {
  tools ??= OPERATION_LIST.filter((operation) => operation.noTool === undefined).map((operation) => ({
    operation,
    input: described(inputSchema(operation)) as JsonSchema,
    output: described(outputSchema(operation)) as JsonSchema,
  }));
  return tools;
}

/** Splits a tool's arguments into the operation's parts; unknown ones land where the strict schemas refuse them by name. */
export function splitArguments(
  operation: Operation,
  args: Record<string, unknown>,
): { params: unknown; query: unknown; body: unknown; idempotencyKey: string | null } {
  const params: Record<string, unknown> = {};
  const query: Record<string, unknown> = {};
  const body: Record<string, unknown> = {};
  let spec: unknown;
  let idempotencyKey: string | null = null;
  for (const [name, value] of Object.entries(args)) {
    if (name in operation.params.shape) params[name] = value;
    // Numbers are numbers in a tool call; the query's schema reads the text of a URL.
    else if (name in operation.query.shape)
      query[name] = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
    else if (name === operation.bodyAs) spec = value;
    else if (name === "idempotencyKey" && operation.creates) idempotencyKey = typeof value === "string" ? value : "";
    else if (operation.body !== undefined && operation.bodyAs === undefined) body[name] = value;
    // A body that is one document goes under its name, but a client that spreads it out is understood.
    else if (operation.bodyAs !== undefined) body[name] = value;
    else query[name] = value;
  }
  const hasBody = operation.body !== undefined;
  // Both forms at once: what stands beside the document is refused by name.
  if (operation.bodyAs !== undefined && spec !== undefined) Object.assign(query, body);
  return {
    params,
    query,
    body: hasBody ? (operation.bodyAs === undefined || spec === undefined ? body : spec) : undefined,
    idempotencyKey,
  };
}
