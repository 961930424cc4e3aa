import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import type { ControlPlane } from "../support/control-plane.ts";
import { until } from "../support/control-plane.ts";

export const CASES = 20;

/** What a runtime of one mode names beside its relay. */
export interface Mode {
  id: string;
  spec: { context?: string; kubeconfigSecret?: string; server?: string; authSecret?: string };
  namespace: string;
  image: string;
  /** Seconds that each case sleeps. */
  sleepSec: number;
  concurrency: number;
}

/** Probe, 20 cases, a live log: through a relay as they would be directly. @returns seconds it took */
export async function scorecardThroughRelay(plane: ControlPlane, relay: string, mode: Mode): Promise<number> {
  const client = plane.client();
  const { id, spec, namespace, image } = mode;
  const body = {
    kind: "k8s" as const,
    id,
    version: "1.0.0",
    image,
    namespace,
    relay,
    maxConcurrent: mode.concurrency,
    ...spec,
  };
  const probe = await client.call("probe_runtime", { body });
  expect(probe.checks.filter(({ ok, name }) => !ok && name !== "right.createNamespace")).toEqual([]);
  expect(probe).toMatchObject({ reachable: true, reason: null, detail: expect.stringContaining("kubernetes v1.") });
  await client.call("create_runtime", { body });
  await client.call("create_harness", {
    body: {
      kind: "command",
      id: `h-${id}`,
      version: "1.0.0",
      command: `echo started {{task}}; sleep ${mode.sleepSec}; echo done {{task}}`,
      resources: { cpu: 50, memoryMb: 32 },
    },
  });
  await client.call("create_dataset", {
    body: {
      id: `d-${id}`,
      version: "1.0.0",
      cases: Array.from({ length: CASES }, (_, n) => ({
        id: `c${n}`,
        task: `t${n}`,
        graders: [{ kind: "contains" as const, value: `done t${n}` }],
        timeoutSec: 120,
      })),
    },
  });
  const began = Date.now();
  const card = await client.call("run_scorecard", {
    body: { dataset: { id: `d-${id}` }, harness: { id: `h-${id}` }, runtime: id, concurrency: mode.concurrency },
  });
  const live = await until("a case's live log can be read", 120_000, async () => {
    const { items } = await client.call("list_scorecard_runs", { params: { id: card.id }, query: { limit: 200 } });
    for (const run of items.filter(({ status }) => status === "running")) {
      const text = await client.call("get_run_logs", { params: { id: run.id } });
      if (text.includes("started t")) return { text, streamed: await streamedLog(plane, run.id) };
    }
    return null;
  });
  expect(live.text).toContain("started t");
  expect(live.streamed).toContain("started t");
  const end = await until("the scorecard has ended", 400_000, async () => {
    const now = await client.call("get_scorecard", { params: { id: card.id } });
    return now.finishedAt === null ? null : now;
  });
  expect(end).toMatchObject({ progress: { succeeded: CASES, failed: 0 }, summary: { passRate: 1, measured: CASES } });
  for await (const run of client.all("list_scorecard_runs", { params: { id: card.id } }))
    expect(
      run.attempts.map(({ state }) => state),
      run.id,
    ).toEqual(["succeeded"]);
  return (Date.now() - began) / 1_000;
}

/** What a run's stream of output tells, until it names the task. */
async function streamedLog(plane: ControlPlane, id: string): Promise<string> {
  const answer = await fetch(`${plane.url}/runs/${id}/logs/stream`, { signal: AbortSignal.timeout(30_000) });
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    text += part.value;
    if (text.includes("started t") || text.includes("event: end")) break;
  }
  await reader?.cancel();
  return text;
}

/** A credential plugin as a program of its own. @param body of a Node script that prints its ExecCredential */
export async function execPlugin(folder: string, name: string, body: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, name);
  await writeFile(path, `#!${process.execPath}\n${body}\n`);
  await chmod(path, 0o755);
  return path;
}
