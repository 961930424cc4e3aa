import type { Client } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { OPERATION_LIST } from "../../contracts/operations/index.ts";
import type { Operation } from "../../contracts/operations/operation.ts";
import { type Api, CASE, DATASET, dev, ECHO, env, keyFor, NOMAD, workspace } from "./support.ts";

const tools = OPERATION_LIST.filter((operation) => operation.noTool === undefined);
const ABSENT: Record<string, string> = {
  run: "run_00000000000000000000000000",
  sc: "sc_00000000000000000000000000",
  rnr: "rnr-00000000000000000000000000",
  key: "key_00000000000000000000000000",
};

/** Path parameters that are well formed and name nothing. */
function absentParams(operation: Operation): Record<string, string> {
  const out: Record<string, string> = {};
  for (const name of Object.keys(operation.params.shape)) {
    if (name === "version") out[name] = "9.9.9";
    else if (name === "name") out[name] = "NO_SUCH_SECRET";
    else if (name === "subject") out[name] = "nobody";
    else if (operation.path.startsWith("/runs") || operation.path.startsWith("/queue")) out[name] = ABSENT.run ?? "";
    else if (operation.path.startsWith("/scorecards")) out[name] = ABSENT.sc ?? "";
    else if (operation.path.includes("runners")) out[name] = ABSENT.rnr ?? "";
    else if (operation.path.startsWith("/api-keys")) out[name] = ABSENT.key ?? "";
    else out[name] = "no-such-thing";
  }
  return out;
}

const BODIES: Record<string, unknown> = {
  create_runtime: NOMAD,
  validate_runtime: NOMAD,
  probe_runtime: { kind: "local", id: "here", version: "1.0.0" },
  create_harness: ECHO,
  validate_harness: ECHO,
  create_dataset: DATASET,
  validate_dataset: DATASET,
  set_runtime_tags: { tags: ["a"] },
  set_harness_tags: { tags: ["a"] },
  set_dataset_tags: { tags: ["a"] },
  archive_runtime: {},
  control_runtime: { action: "reclaimIdle" },
  archive_harness: {},
  archive_dataset: {},
  submit_run: { harness: { id: "no-such-harness" }, case: CASE, runtime: "self:ws" },
  run_scorecard: { dataset: { id: "no-such-dataset" }, harness: { id: "no-such-harness" } },
  pair_runner: { label: "box" },
  pair_workspace_runner: { label: "box" },
  create_workspace: { id: "default", name: "Default" },
  set_workspace_limits: {},
  set_member: { role: "viewer" },
  create_api_key: { name: "k" },
  put_secret: { value: "v" },
};
const QUERIES: Record<string, Record<string, string>> = {
  compare_scorecards: { a: ABSENT.sc ?? "", b: ABSENT.sc ?? "" },
};

async function overHttp(
  api: Api,
  operation: Operation,
  input: { params: Record<string, string>; query: Record<string, string>; body: unknown },
) {
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => input.params[name] ?? "");
  const answer = await api.call(operation.method, `${path}?${new URLSearchParams(input.query)}`, input.body);
  return answer.status >= 400
    ? { code: answer.body.code, issues: answer.body.issues }
    : { value: operation.outputType === "text" ? { text: answer.body } : (answer.body ?? {}) };
}

async function overMcp(
  client: Client,
  operation: Operation,
  input: { params: Record<string, string>; query: Record<string, string>; body: unknown },
) {
  const flat =
    operation.bodyAs === undefined
      ? (input.body as Record<string, unknown> | undefined)
      : { [operation.bodyAs]: input.body };
  const answer = await client.callTool({
    name: operation.name,
    arguments: { ...input.params, ...input.query, ...flat },
  });
  // biome-ignore lint/suspicious/noExplicitAny: the tool's own answer
  const content = answer.structuredContent as any;
  return answer.isError ? { code: content.code, issues: content.issues } : { value: content };
}

/** What differs from call to call by nature. */
function timeless(value: unknown): unknown {
  const text = JSON.stringify(value)
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/"(token|receipt|command|id)":"[^"]*"/g, '"$1":"…"')
    .replaceAll(/(rnr|run|sc|key|aud)[_-][0-9a-z]{26}/g, "ID")
    .replaceAll(/"requestId":"[^"]*"/g, '"requestId":"…"');
  return JSON.parse(text);
}

test("every operation answers the same over HTTP and over MCP, whether it succeeds or is refused", async () => {
  const codes = new Map<string, string>();
  for (const operation of tools) {
    const input = {
      params: absentParams(operation),
      query: QUERIES[operation.name] ?? {},
      body: BODIES[operation.name],
    };
    if (operation.name.includes("workspace_limits")) input.params.id = "no-such-workspace";
    // Two workspaces that look alike, so that the first call does not change the second.
    const [one, two] = [await workspace(), await workspace()];
    const asOperator = operation.action === "operate";
    const client = asOperator ? await dev.mcp() : await two.api.mcp();
    const [http, mcp] = [
      await overHttp(asOperator ? dev : one.api, operation, input),
      await overMcp(client, operation, input),
    ];
    const named = JSON.stringify(timeless(http)).replaceAll(one.id, "WS");
    expect(JSON.stringify(timeless(mcp)).replaceAll(two.id, "WS"), operation.name).toBe(named);
    codes.set(operation.name, "code" in http ? http.code : "ok");
    await client.close();
  }
  expect(codes.get("get_run")).toBe("NOT_FOUND");
  expect(codes.get("create_runtime")).toBe("ok");
  expect(codes.get("get_queue")).toBe("ok");
});

test("every operation refuses an unknown argument by its name, over HTTP and over MCP", async () => {
  const { api } = await workspace();
  const client = await api.mcp();
  const devClient = await dev.mcp();
  for (const operation of tools) {
    const params = absentParams(operation);
    const known = BODIES[operation.name];
    const open = operation.name.startsWith("validate_");
    const inBody = known !== undefined && !open;
    const input = {
      params,
      query: { ...QUERIES[operation.name], ...(inBody ? {} : { surprise: "1" }) },
      body: inBody ? { ...(known as object), surprise: 1 } : known,
    };
    const asOperator = operation.action === "operate";
    for (const answer of [
      await overHttp(asOperator ? dev : api, operation, input),
      await overMcp(asOperator ? devClient : client, operation, input),
    ]) {
      expect(answer, operation.name).toMatchObject({
        code: "BAD_REQUEST",
        issues: expect.arrayContaining([expect.objectContaining({ path: expect.stringMatching(/surprise$/) })]),
      });
    }
  }
});

test("a tool list shows what its caller may do, with real schemas and hints", async () => {
  const { id } = await workspace();
  const viewer = await keyFor(id, "viewer", "read");
  const { tools: seen } = await (await viewer.mcp()).listTools();
  const names = seen.map(({ name }) => name);
  expect(names).toContain("get_run");
  expect(names).not.toContain("put_secret");
  expect(names).not.toContain("submit_run");
  const { tools: all } = await (await dev.mcp()).listTools();
  expect(all.map(({ name }) => name).sort()).toEqual(tools.map(({ name }) => name).sort());
  const create = all.find(({ name }) => name === "create_runtime");
  expect(create?.inputSchema).toMatchObject({ type: "object", required: ["spec"], additionalProperties: false });
  expect(JSON.stringify(create?.inputSchema)).toContain("cpuMhzPerCore");
  const hinted = (hint: "readOnlyHint" | "destructiveHint" | "openWorldHint") =>
    all.filter(({ annotations }) => annotations?.[hint] === true).map(({ name }) => name);
  const ways = (...methods: string[]) => tools.filter(({ method }) => methods.includes(method)).map(({ name }) => name);
  const asking = ["preview_scorecard", "probe_runtime", "validate_dataset", "validate_harness", "validate_runtime"];
  expect(hinted("readOnlyHint").sort()).toEqual([...ways("GET"), ...asking].sort());
  const ending = [
    "archive_runtime",
    "archive_harness",
    "archive_dataset",
    "cancel_run",
    "cancel_scorecard",
    "control_runtime",
  ];
  expect(hinted("destructiveHint").sort()).toEqual([...ways("PUT", "DELETE"), ...ending].sort());
  expect(hinted("openWorldHint")).toEqual(expect.arrayContaining(["probe_runtime", "inspect_runtime", "submit_run"]));
  const again = (name: string) => all.find((tool) => tool.name === name)?.annotations?.idempotentHint;
  expect(["create_runtime", "cancel_run", "put_secret", "submit_run", "pair_runner"].map(again)).toEqual([
    true,
    true,
    true,
    false,
    false,
  ]);
  expect(env.EVERDICT_ENV).toBeUndefined();
});
