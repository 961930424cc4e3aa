import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import * as z from "zod";
import { described } from "../../contracts/field-words.ts";
import { OPERATION_LIST, OPERATIONS } from "../../contracts/operations/index.ts";
import { operationsPage } from "../../scripts/docs.ts";

test("the page of operations is the table's", () => {
  expect(readFileSync("docs/operations.md", "utf8")).toBe(operationsPage());
});

test("the document on MCP names the tools whose body is one argument, and that argument", () => {
  const words = readFileSync("docs/api.md", "utf8");
  for (const { name, bodyAs } of OPERATION_LIST) {
    if (bodyAs === undefined) continue;
    expect(words, name).toContain(`\`${bodyAs}\``);
    expect(words, name).toContain(name.startsWith("validate_") ? "`validate_`" : `\`${name}\``);
  }
});

test("each operation stands under its own name, and no two share a route", () => {
  for (const [name, operation] of Object.entries(OPERATIONS)) expect(operation.name).toBe(name);
  const routes = OPERATION_LIST.map(({ method, path }) => `${method} ${path}`);
  expect(new Set(routes).size).toBe(routes.length);
});

test("every path parameter has a schema, and every list pages", () => {
  for (const operation of OPERATION_LIST) {
    const named = [...operation.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    expect(Object.keys(operation.params.shape), operation.name).toEqual(named);
    if (operation.name.startsWith("list_"))
      expect(Object.keys(operation.query.shape), operation.name).toEqual(expect.arrayContaining(["limit", "cursor"]));
  }
});

/** Names of fields that say nothing about themselves, not even by a word that means the same everywhere. */
function silent(node: unknown, path: string): string[] {
  if (Array.isArray(node)) return node.flatMap((item, i) => silent(item, `${path}[${i}]`));
  if (typeof node !== "object" || node === null) return [];
  const { properties } = node as { properties?: Record<string, Record<string, unknown>> };
  const spoken = (field: Record<string, unknown>): boolean =>
    field.description !== undefined ||
    [field.anyOf, field.oneOf].some((parts) => Array.isArray(parts) && parts.some(spoken));
  const here = Object.entries(properties ?? {}).flatMap(([name, field]) => (spoken(field) ? [] : [`${path}.${name}`]));
  return [...here, ...Object.entries(node).flatMap(([key, item]) => silent(item, `${path}.${key}`))];
}

test("every field of the API is described", () => {
  const found = OPERATION_LIST.flatMap((operation) => {
    const parts = [
      operation.params,
      operation.query,
      operation.bodyType === "bytes" ? undefined : operation.body,
      operation.output,
    ];
    return parts.flatMap((part) =>
      part === undefined ? [] : silent(described(z.toJSONSchema(part, { unrepresentable: "any" })), operation.name),
    );
  });
  expect(found).toEqual([]);
});

/** Paths of strings and lists without an upper bound in a schema of what we accept. */
function unbounded(node: unknown, path: string): string[] {
  if (Array.isArray(node)) return node.flatMap((item, i) => unbounded(item, `${path}[${i}]`));
  if (typeof node !== "object" || node === null) return [];
  const schema = node as Record<string, unknown>;
  const here: string[] = [];
  if (
    schema.type === "string" &&
    schema.maxLength === undefined &&
    schema.enum === undefined &&
    schema.const === undefined
  )
    here.push(`${path}: string`);
  if (schema.type === "array" && schema.maxItems === undefined && schema.prefixItems === undefined)
    here.push(`${path}: array`);
  if (schema.type === "object" && schema.properties !== undefined && schema.additionalProperties !== false)
    here.push(`${path}: not strict`);
  return [...here, ...Object.entries(schema).flatMap(([key, item]) => unbounded(item, `${path}.${key}`))];
}

test("everything we accept is bounded, and unknown keys are refused", () => {
  const found = OPERATION_LIST.flatMap((operation) => {
    const parts = {
      params: operation.params,
      query: operation.query,
      ...(operation.body && operation.bodyType !== "bytes" ? { body: operation.body } : {}),
    };
    return Object.entries(parts).flatMap(([part, schema]) =>
      unbounded(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }), `${operation.name}.${part}`),
    );
  });
  expect(found).toEqual([]);
});
