import { OpenAPIHono } from "@hono/zod-openapi";
import * as z from "zod";
import { canonicalJson } from "../../contracts/canonical.ts";
import { Dataset, EvalCase } from "../../contracts/case.ts";
import { Problem } from "../../contracts/errors.ts";
import { described } from "../../contracts/field-words.ts";
import { Grader } from "../../contracts/graders.ts";
import { HarnessBody, HarnessSpec } from "../../contracts/harness.ts";
import { Job, Outcome } from "../../contracts/job.ts";
import { OPERATION_LIST } from "../../contracts/operations/index.ts";
import type { Operation } from "../../contracts/operations/operation.ts";
import { ACTIONS } from "../../contracts/roles.ts";
import { Attempt, Failure, Run, RunResult, Waiting } from "../../contracts/run.ts";
import { LeaseRequest } from "../../contracts/runner-protocol.ts";
import { RuntimeSpec } from "../../contracts/runtime-spec.ts";
import { Scorecard } from "../../contracts/scorecard.ts";
import { SECURE_SESSION_COOKIE } from "../auth/session.ts";

let document: Record<string, unknown> | null = null;

const MEDIA = { json: "application/json", text: "text/plain", sse: "text/event-stream" } as const;

function responses(operation: Operation) {
  const type = MEDIA[operation.outputType ?? "json"];
  const success =
    operation.status === 204
      ? { description: "Done" }
      : operation.status === 302
        ? { description: "Elsewhere; see Location" }
        : { description: operation.summary, content: { [type]: { schema: operation.output ?? z.string() } } };
  const problem = (description: string) => ({
    description,
    content: { "application/problem+json": { schema: Problem } },
  });
  return {
    [operation.status]: success,
    ...(operation.name === "runner_lease"
      ? { 204: { description: "Nothing to do" }, 426: problem("The runner must be upgraded") }
      : {}),
    ...(operation.creates && operation.status === 201
      ? { 200: { description: "It exists with the same content" } }
      : {}),
    400: problem("The request is wrong; issues name each field"),
    401: problem("No credential, or not a valid one"),
    ...(operation.action === "runs:submit" && operation.creates
      ? { 402: problem("More runs than the workspace's budget of the month holds; data has the figures") }
      : {}),
    403: problem("Not allowed"),
    404: problem("Not found in this workspace"),
    409: problem("Conflict"),
    413: problem("The body is too large"),
    415: problem("Wrong content type"),
    429: problem("Too many; see Retry-After"),
    503: problem("A store did not answer; see Retry-After"),
  };
}

const security = (operation: Operation): Record<string, string[]>[] => {
  if (operation.audience === "public") return [];
  if (operation.audience === "user") return [{ apiKey: [] }, { session: [] }];
  return [{ [operation.audience === "runner" ? "runnerToken" : "logToken"]: [] }];
};

const least = (operation: Operation): string => {
  if (operation.audience !== "user") return "";
  const { role, scope } = ACTIONS[operation.action];
  return `Needs ${operation.action === "operate" ? "operator rights" : `role \`${role}\` and scope \`${scope}\``} or higher.`;
};

/** Schemas that stand once in the document and are referred to, inner ones before those that hold them. */
const NAMED = {
  Problem,
  Grader,
  EvalCase,
  Dataset,
  RuntimeSpec,
  HarnessSpec,
  HarnessBody,
  Waiting,
  Failure,
  Attempt,
  RunResult,
  Run,
  Scorecard,
  Job,
  Outcome,
  LeaseRequest,
};

/** Where each named schema is rendered once, to be recognised everywhere else. */
const SPECIMENS = "/specimens";

type Json = Record<string, unknown>;
const isJson = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value);

/** Replaces every copy of a named schema by a reference to it: the document is a tenth of its size, and readable. */
function withReferences(document: Json): Json {
  const { [SPECIMENS]: specimen, ...paths } = document.paths as Json;
  const known = new Map<string, string>();
  const schemas: Json = {};
  const replace = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(replace);
    if (!isJson(value)) return value;
    const inner = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, replace(item)]));
    const name = known.get(canonicalJson(inner));
    return name === undefined ? inner : { $ref: `#/components/schemas/${name}` };
  };
  const answers = (specimen as { get: { responses: Record<string, { content: Json }> } }).get.responses;
  for (const [index, name] of Object.keys(NAMED).entries()) {
    const rendered = replace(
      (answers[String(200 + index)]?.content["application/json"] as { schema: unknown } | undefined)?.schema,
    );
    schemas[name] = rendered;
    known.set(canonicalJson(rendered), name);
  }
  const components = document.components as Json;
  return { ...document, paths: replace(paths), components: { ...components, schemas } };
}

/** The OpenAPI 3.1 document, made from the operation table. */
export function openApiDocument(origin: string): Record<string, unknown> {
  document ??= build();
  return { ...document, servers: [{ url: origin }] };
}

function build(): Record<string, unknown> {
  const app = new OpenAPIHono();
  const registry = app.openAPIRegistry;
  const bearer = (description: string) => ({ type: "http" as const, scheme: "bearer", description });
  registry.registerComponent(
    "securitySchemes",
    "apiKey",
    bearer("API key (ak_…) or a person's token from the configured issuer"),
  );
  registry.registerComponent("securitySchemes", "session", {
    type: "apiKey",
    in: "cookie",
    name: SECURE_SESSION_COOKIE,
    description: "A browser's session, from POST /session or the identity provider",
  });
  registry.registerComponent("securitySchemes", "runnerToken", bearer("Runner token (rnr_…)"));
  registry.registerComponent("securitySchemes", "logToken", bearer("Log token of one attempt, given with its grant"));
  for (const operation of OPERATION_LIST) {
    const body =
      operation.body === undefined
        ? {}
        : operation.bodyType === "bytes"
          ? {
              body: {
                required: true,
                content: { "application/octet-stream": { schema: { type: "string" as const, format: "binary" } } },
              },
            }
          : { body: { required: true, content: { "application/json": { schema: operation.body } } } };
    registry.registerPath({
      method: operation.method.toLowerCase() as "get" | "post" | "put" | "delete",
      path: operation.path,
      operationId: operation.name,
      tags: [operation.group],
      summary: operation.summary,
      description: [
        operation.description,
        least(operation),
        operation.noTool ? `No MCP tool: ${operation.noTool}.` : `MCP tool: \`${operation.name}\`.`,
      ]
        .filter(Boolean)
        .join("\n\n"),
      security: security(operation),
      request: { params: operation.params, query: operation.query, ...body },
      responses: responses(operation),
    });
  }
  registry.registerPath({
    method: "get",
    path: SPECIMENS,
    responses: Object.fromEntries(
      Object.entries(NAMED).map(([name, schema], index) => [
        200 + index,
        { description: name, content: { "application/json": { schema } } },
      ]),
    ),
  });
  // SAFETY: the document is plain JSON.
  const document = app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Everdict Edge",
      version: "0.1.0",
      description: "Decides where a workspace's AI-agent evals run, when each may start, and what became of it.",
    },
  }) as unknown as Json;
  return withReferences(described(document) as Json);
}
