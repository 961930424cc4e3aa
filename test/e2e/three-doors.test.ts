import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { childEnvironment, ROOT } from "../../scripts/environment.ts";
import { ControlPlane, startRunner, until } from "../support/control-plane.ts";

const run = promisify(execFile);
let plane: ControlPlane;
let runner: Awaited<ReturnType<typeof startRunner>>;

beforeAll(async () => {
  plane = await ControlPlane.start();
  runner = await startRunner(plane);
});
afterAll(async () => {
  await runner.stop();
  await rm(runner.folder, { recursive: true, force: true });
  await plane.stop();
});

/** curl, as a person would type it. */
async function curl(...args: string[]): Promise<unknown> {
  const { stdout } = await run("curl", ["-sS", "--fail-with-body", "-H", "content-type: application/json", ...args], {
    cwd: ROOT,
  });
  return stdout === "" ? null : JSON.parse(stdout);
}

/** The CLI, with what it prints and how it ends. */
async function everdict(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  try {
    const { stdout, stderr } = await run("node", [join(ROOT, "dist/everdict.mjs"), ...args], {
      env: { ...childEnvironment(), EVERDICT_API_URL: plane.url },
    });
    return { code: 0, stdout, stderr };
  } catch (error) {
    if (error instanceof Error && "code" in error && "stdout" in error && "stderr" in error)
      return { code: Number(error.code), stdout: String(error.stdout), stderr: String(error.stderr) };
    throw error;
  }
}

type Card = { id: string; status: string; summary: unknown; progress: unknown };
type Runs = {
  items: { caseId: string; status: string; result: { score: number; pass: boolean; stdoutTail: string } | null }[];
};
const essence = (runs: Runs) =>
  runs.items.map(({ caseId, status, result }) => [caseId, status, result?.score, result?.pass, result?.stdoutTail]);

test("the same scorecard runs through curl, the CLI and an MCP client, and each reads back what the others ran", async () => {
  await curl("-XPOST", `${plane.url}/harnesses`, "-d", "@examples/harnesses/shell-solver.json");
  await curl("-XPOST", `${plane.url}/datasets`, "-d", "@examples/datasets/shell-basics.json");
  const client = new Client({ name: "three-doors", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${plane.url}/mcp`)));
  const tool = async (name: string, args: Record<string, unknown>) => {
    const answer = await client.callTool({ name, arguments: args });
    expect(answer.isError ?? false, JSON.stringify(answer.content)).toBe(false);
    return answer.structuredContent as unknown;
  };

  const request = {
    dataset: { id: "shell-basics", version: "latest" },
    harness: { id: "shell-solver", version: "latest" },
    runtime: "self",
    concurrency: 4,
  };
  const byCurl = (await curl("-XPOST", `${plane.url}/scorecards`, "-d", JSON.stringify(request))) as Card;
  const byTool = (await tool("run_scorecard", request)) as Card;
  const byCli = await everdict("scorecard", "shell-basics", "--harness", "shell-solver", "--runtime", "self", "--json");
  // One case fails its grade on purpose: measured, not passed.
  expect(byCli.code).toBe(1);
  const cli = JSON.parse(byCli.stdout) as Card;

  const seen: unknown[] = [];
  for (const id of [byCurl.id, byTool.id, cli.id]) {
    const card = await until("the scorecard has ended", 60_000, async () => {
      const now = (await curl(`${plane.url}/scorecards/${id}`)) as Card & { finishedAt: string | null };
      return now.finishedAt === null ? null : now;
    });
    const overCurl = (await curl(`${plane.url}/scorecards/${id}/runs?limit=200`)) as Runs;
    const overTool = (await tool("list_scorecard_runs", { id, limit: 200 })) as Runs;
    const overCli = JSON.parse((await everdict("scorecard", "get", id, "--json")).stdout) as Card;
    expect(overTool).toEqual(overCurl);
    expect(overCli).toEqual(card);
    expect(await tool("get_scorecard", { id })).toEqual(card);
    expect(card).toMatchObject({
      status: "succeeded",
      progress: { total: 12, succeeded: 12 },
      summary: { passRate: 11 / 12, measured: 12 },
    });
    seen.push(essence(overCurl));
  }
  expect(seen[1]).toEqual(seen[0]);
  expect(seen[2]).toEqual(seen[0]);
  await client.close();
});

test("a scorecard is followed by curl to its end, and resumed by its last event", async () => {
  const card = (await curl(
    "-XPOST",
    `${plane.url}/scorecards`,
    "-d",
    JSON.stringify({ dataset: { id: "shell-basics" }, harness: { id: "shell-solver" }, runtime: "self" }),
  )) as Card;
  const { stdout } = await run("curl", ["-sSN", "--max-time", "60", `${plane.url}/scorecards/${card.id}/stream`]);
  const events = stdout.split("\n\n").filter((block) => block.includes("event: "));
  expect(events.at(-1)).toContain("event: end");
  expect(events.filter((block) => block.includes("event: run") && block.includes('"status":"succeeded"'))).toHaveLength(
    12,
  );
  const lastId = /id: (\d+)/.exec(events.at(-2) ?? "")?.[1] ?? "";
  const resumed = await run("curl", [
    "-sSN",
    "--max-time",
    "60",
    "-H",
    `Last-Event-ID: ${lastId}`,
    `${plane.url}/scorecards/${card.id}/stream`,
  ]);
  expect(resumed.stdout.match(/event: (run|progress)/g)).toBeNull();
  expect(resumed.stdout).toContain("event: end");
});

test("output arrives while a run goes on, is resumed where it was cut, and can be read in the end", async () => {
  const started = (await curl(
    "-XPOST",
    `${plane.url}/runs`,
    "-d",
    JSON.stringify({
      harness: {
        spec: { kind: "command", command: "for i in 1 2 3 4 5 6; do echo line $i; echo err $i >&2; sleep 0.7; done" },
      },
      case: { id: "slow", task: "x" },
      runtime: "self",
    }),
  )) as { id: string };
  const controller = new AbortController();
  const response = await fetch(`${plane.url}/runs/${started.id}/logs/stream`, { signal: controller.signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("line 2")) text += (await reader?.read())?.value ?? "";
  expect(text).not.toContain("event: end");
  expect(text).not.toContain("line 6");
  controller.abort();
  const lastId = [...text.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? "";
  const { stdout } = await run("curl", [
    "-sSN",
    "--max-time",
    "60",
    "-H",
    `Last-Event-ID: ${lastId}`,
    `${plane.url}/runs/${started.id}/logs/stream`,
  ]);
  const resumed = stdout
    .split("\n\n")
    .filter((block) => block.includes("event: log"))
    .join("\n");
  expect(resumed).not.toContain("line 1");
  expect(resumed).toContain("line 6");
  expect(stdout.trimEnd().endsWith("event: end\ndata: {}")).toBe(true);
  const whole = await run("curl", ["-sS", `${plane.url}/runs/${started.id}/logs?stream=stdout`]);
  expect(whole.stdout).toBe("line 1\nline 2\nline 3\nline 4\nline 5\nline 6\n");
  const tail = await run("curl", ["-sS", `${plane.url}/runs/${started.id}/logs?stream=stderr&tailBytes=6`]);
  expect(tail.stdout).toBe("err 6\n");
});

test("an MCP client is refused with the code and the facts that HTTP gives", async () => {
  const client = new Client({ name: "refused", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${plane.url}/mcp`)));
  const answer = await client.callTool({
    name: "submit_run",
    arguments: {
      harness: { spec: { kind: "command", command: "true" } },
      case: { id: "c", task: "t" },
      runtime: "gpux",
    },
  });
  expect(answer.isError).toBe(true);
  expect(answer.structuredContent).toMatchObject({ code: "NOT_FOUND", status: 404, data: { runtime: "gpux" } });
  await client.close();
});
