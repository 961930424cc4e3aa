import { createMcpHandler, McpServer, type StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import { EverdictError } from "../../contracts/errors.ts";
import { hintsOf } from "../../contracts/operations/operation.ts";
import { allowed } from "../auth/principal.ts";
import type { Context } from "../context.ts";
import { callOperation } from "../http/call.ts";
import { asEverdictError, logFailure } from "../http/problem.ts";
import { allTools, splitArguments, type Tool } from "./tools.ts";

const INSTRUCTIONS =
  "Run AI-agent evals on registered compute. Register runtimes, harnesses and datasets, submit runs or scorecards, " +
  "then poll get_run or get_scorecard; a waiting run says why it waits.";

/** Bodies over MCP: a dataset is the largest argument. */
const MAX_BODY_BYTES = 17 * 1024 * 1024;

/**
 * A schema that is advertised as it is and validates nothing: the operation's own schemas do that for HTTP and MCP alike,
 * so that both refuse the same input with the same words.
 */
function advertised(schema: Record<string, unknown>): StandardSchemaWithJSON<Record<string, unknown>> {
  return {
    "~standard": {
      version: 1 as const,
      vendor: "everdict",
      validate: (value: unknown) => ({ value: value as Record<string, unknown> }),
      jsonSchema: { input: () => schema, output: () => schema },
    },
  };
}

async function callTool(ctx: Context, tool: Tool, args: Record<string, unknown>) {
  const { operation } = tool;
  try {
    const { idempotencyKey, ...parts } = splitArguments(operation, args);
    const answer = await callOperation(
      ctx,
      operation,
      { ...parts, bodyText: JSON.stringify(parts.body) ?? "" },
      idempotencyKey,
    );
    const structuredContent =
      operation.outputType === "text" ? { text: answer.body } : ((answer.body ?? {}) as Record<string, unknown>);
    const text = operation.outputType === "text" ? String(answer.body) : JSON.stringify(answer.body ?? {});
    return { content: [{ type: "text" as const, text }], structuredContent };
  } catch (error) {
    const known = asEverdictError(error);
    logFailure(known, ctx.requestId, error);
    const problem = known.toProblem(ctx.requestId);
    return {
      isError: true,
      content: [{ type: "text" as const, text: JSON.stringify(problem) }],
      structuredContent: { ...problem },
    };
  }
}

/** Streamable HTTP, stateless: a server for each request, with the tools that this caller may use. */
export async function handleMcp(request: Request, ctx: Context): Promise<Response> {
  if (ctx.principal.workspace === "")
    throw new EverdictError("BAD_REQUEST", "name the workspace in the X-Everdict-Workspace header");
  const handler = createMcpHandler(
    () => {
      const server = new McpServer({ name: "everdict-edge", version: "0.1.0" }, { instructions: INSTRUCTIONS });
      for (const tool of allTools()) {
        const { operation } = tool;
        if (!allowed(ctx.principal, operation.action)) continue;
        server.registerTool(
          operation.name,
          {
            title: operation.summary,
            description: [operation.summary, operation.description].filter(Boolean).join(". "),
            inputSchema: advertised(tool.input),
            outputSchema: advertised(tool.output),
            annotations: hintsOf(operation),
          },
          (args: Record<string, unknown>) => callTool(ctx, tool, args ?? {}),
        );
      }
      return server;
    },
    { maxRequestBodySize: MAX_BODY_BYTES },
  );
  return handler.fetch(request);
}
