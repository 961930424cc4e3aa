import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { roleManifest } from "../../worker/backends/k8s/rights.ts";
import { ControlPlane, until } from "../support/control-plane.ts";
import { clusterAddress, kubectl } from "./kubectl.ts";

/* The whole way: API, Scheduler object, Dispatcher, a real Kubernetes, grading, scorecard. */

const namespace = `evd-e2e-${Math.random().toString(36).slice(2, 8)}`;

describe.skipIf(!process.env.KUBECONFIG)("a scorecard on a real Kubernetes (KUBECONFIG)", () => {
  let plane: ControlPlane;
  let folder: string;

  beforeAll(async () => {
    const { server, ca } = await clusterAddress();
    folder = await mkdtemp(join(tmpdir(), "everdict-cluster-"));
    await writeFile(join(folder, "ca.crt"), ca ?? "");
    await kubectl(["create", "namespace", namespace]);
    // Exactly the rights that the probe prints.
    await kubectl(["apply", "-f", "-"], roleManifest(namespace, { nodes: true }));
    const token = (await kubectl(["create", "token", "everdict", "-n", namespace, "--duration=1h"])).trim();
    plane = await ControlPlane.start({ NODE_EXTRA_CA_CERTS: join(folder, "ca.crt") });
    const client = plane.client();
    await client.call("put_secret", {
      params: { name: "K8S_TOKEN" },
      body: { value: token, use: "cluster", hosts: [new URL(server).host] },
    });
    await client.call("put_secret", { params: { name: "AGENT_KEY" }, body: { value: "agent-key-value" } });
    await client.call("create_runtime", {
      body: {
        kind: "k8s",
        id: "pool",
        version: "1.0.0",
        server,
        authSecret: "K8S_TOKEN",
        image: "everdict/busybox:1",
        namespace,
        maxConcurrent: 8,
        placementTimeoutSec: 20,
      },
    });
  }, 120_000);

  afterAll(async () => {
    await plane?.stop();
    await kubectl(["delete", "namespace", namespace, "--wait=false"]);
    await kubectl(["delete", "clusterrole,clusterrolebinding", `everdict-${namespace}`, "--ignore-not-found"]);
    await rm(folder, { recursive: true, force: true });
  });

  test("the probe passes with exactly the printed rights, and says what they are", { timeout: 60_000 }, async () => {
    const client = plane.client();
    const { spec } = await client.call("get_runtime", { params: { id: "pool", version: "1.0.0" } });
    const probe = await client.call("probe_runtime", { body: spec });
    expect(probe.checks.filter(({ ok }) => !ok)).toEqual([]);
    expect(probe).toMatchObject({ reachable: true, detail: expect.stringContaining("v1.") });
    expect(probe.policy).toContain("kind: Role");
  });

  test("cases of every kind end rightly, each with its cause, and nothing is left behind", {
    timeout: 300_000,
  }, async () => {
    const client = plane.client();
    await client.call("create_harness", {
      body: {
        kind: "command",
        id: "sh",
        version: "1.0.0",
        command: 'echo "$KEY" | wc -c; sh -c "$(cat "$EVD_TASK_FILE")"',
        env: { KEY: { secretRef: "AGENT_KEY" } },
        resources: { cpu: 100 },
      },
    });
    const pass = Array.from({ length: 8 }, (_, i) => ({
      id: `pass-${i}`,
      task: `echo done ${i}`,
      graders: [
        { kind: "contains" as const, value: `done ${i}` },
        { kind: "contains" as const, value: "16" },
      ],
      timeoutSec: 60,
    }));
    await client.call("create_dataset", {
      body: {
        id: "kinds",
        version: "1.0.0",
        cases: [
          ...pass,
          { id: "grade-fail", task: "echo no", graders: [{ kind: "contains", value: "yes" }], timeoutSec: 60 },
          { id: "exit-3", task: "exit 3", graders: [{ kind: "exit-code", equals: 3 }], timeoutSec: 60 },
          { id: "oom", task: "head -c 400m /dev/zero | tail", resources: { memoryMb: 32 }, timeoutSec: 60 },
          { id: "timeout", task: "sleep 100", timeoutSec: 3 },
          { id: "no-image", task: "true", image: "127.0.0.1:9/everdict/absent:1", timeoutSec: 60 },
          { id: "too-big", task: "true", resources: { memoryMb: 9_000_000 }, timeoutSec: 60 },
        ],
      },
    });
    const { id } = await client.call("run_scorecard", {
      body: { dataset: { id: "kinds" }, harness: { id: "sh" }, runtime: "pool", concurrency: 8, retries: 0 },
    });
    const waiting: string[] = [];
    await until("the scorecard has ended", 240_000, async () => {
      const { items } = await client.call("list_scorecard_runs", { params: { id }, query: { limit: 200 } });
      waiting.push(...items.flatMap((run) => (run.waiting ? [run.waiting.reason] : [])));
      return (await client.call("get_scorecard", { params: { id } })).finishedAt;
    });
    const { items } = await client.call("list_scorecard_runs", { params: { id }, query: { limit: 200 } });
    const ends = Object.fromEntries(
      items.map((run) => [run.caseId, run.failure ? run.failure.code : `${run.status} ${run.result?.score}`]),
    );
    expect(ends).toMatchObject({
      ...Object.fromEntries(pass.map((item) => [item.id, "succeeded 1"])),
      "grade-fail": "succeeded 0",
      "exit-3": "succeeded 1",
      oom: "OOM_KILLED",
      timeout: "TIMEOUT",
    });
    const failure = (caseId: string) => items.find((run) => run.caseId === caseId)?.failure;
    expect(failure("oom")?.message).toContain("memoryMb");
    expect(failure("no-image")).toMatchObject({ stage: "install", message: expect.stringContaining("absent") });
    expect(failure("too-big")?.message).toMatch(/memory/i);
    const first = items.find((run) => run.caseId === "pass-0");
    expect(first?.provenance).toMatchObject({ ranOn: "k8s:pool@1.0.0", attestation: "managed" });
    await until("jobs, pods and Secrets are gone", 60_000, async () => {
      const left = await kubectl(["get", "jobs,pods,secrets", "-n", namespace, "-o", "name"]);
      return left.trim() === "";
    });
    const { lanes } = await client.call("get_queue");
    expect(lanes.find(({ target }) => target === "pool")).toMatchObject({
      lane: "rt:default:pool@1.0.0",
      slots: { inFlight: 0 },
      health: { state: "ok" },
    });
  });

  test("the server is killed while jobs run: each ends once, on the same cluster", { timeout: 240_000 }, async () => {
    const client = plane.client();
    await client.call("create_harness", {
      body: {
        kind: "command",
        id: "slow",
        version: "1.0.0",
        command: "sleep 6; echo {{task}}",
        resources: { cpu: 100 },
      },
    });
    await client.call("create_dataset", {
      body: {
        id: "slow",
        version: "1.0.0",
        cases: Array.from({ length: 12 }, (_, i) => ({
          id: `s${i}`,
          task: `t${i}`,
          expected: `t${i}`,
          graders: [{ kind: "contains" as const }],
          timeoutSec: 60,
        })),
      },
    });
    const { id } = await client.call("run_scorecard", {
      body: { dataset: { id: "slow" }, harness: { id: "slow" }, runtime: "pool", concurrency: 8, retries: 0 },
    });
    for (let i = 0; i < 3; i++) {
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      await plane.kill();
      await plane.up();
    }
    const card = await until("the scorecard has ended", 150_000, async () => {
      const now = await client.call("get_scorecard", { params: { id } });
      return now.finishedAt === null ? null : now;
    });
    expect(card).toMatchObject({ progress: { succeeded: 12 }, summary: { passRate: 1 } });
    for await (const run of client.all("list_scorecard_runs", { params: { id } }))
      expect(
        run.attempts.map(({ state }) => state),
        run.id,
      ).toEqual(["succeeded"]);
  });

  test("a secret that a pod prints is masked in its result, its live output and what is stored", {
    timeout: 120_000,
  }, async () => {
    const client = plane.client();
    const harness = {
      spec: {
        kind: "command" as const,
        command: 'echo "plain $KEY"; echo "$KEY" | base64; sleep 8',
        env: { KEY: { secretRef: "AGENT_KEY" } },
        resources: { cpu: 100 },
      },
    };
    const { id } = await client.call("submit_run", {
      body: {
        harness,
        case: { id: "leak", task: "t", graders: [{ kind: "contains", value: "plain ***" }] },
        runtime: "pool",
      },
    });
    const live = await until("its output can be read", 60_000, async () => {
      const text = await client.call("get_run_logs", { params: { id } });
      return text.includes("plain") && text;
    });
    const ended = await until("it has ended", 60_000, async () => {
      const now = await client.call("get_run", { params: { id } });
      return now.finishedAt === null ? null : now;
    });
    expect(ended.result?.pass).toBe(true);
    const kept = await client.call("get_run_logs", { params: { id } });
    const coded = Buffer.from("agent-key-value").toString("base64").slice(0, 16);
    for (const text of [live, kept, JSON.stringify(ended), plane.output]) {
      expect(text).not.toContain("agent-key-value");
      expect(text).not.toContain(coded);
    }
  });

  test("output streams while the pod runs, whole and once, and the streams apart come with the result", {
    timeout: 120_000,
  }, async () => {
    const client = plane.client();
    const command = "for n in 1 2 3 4 5 6; do echo out $n; sleep 1; done; echo oops >&2; printf 'the last word'";
    const { id } = await client.call("submit_run", {
      body: {
        harness: { spec: { kind: "command", command, resources: { cpu: 100 } } },
        case: { id: "live", task: "t", graders: [{ kind: "exit-code" }] },
        runtime: "pool",
      },
    });
    const answer = await client.open("stream_run_logs", { params: { id } });
    const events: { event: string; at: number; stream?: string; text?: string; replay?: boolean }[] = [];
    const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; events.at(-1)?.event !== "end"; ) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (done) break;
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const [, event = "", data = "{}"] = /event: (\w+)\ndata: (.*)$/s.exec(text.slice(0, end)) ?? [];
        text = text.slice(end + 2);
        if (event !== "") events.push({ event, at: Date.now(), ...JSON.parse(data) });
      }
    }
    const live = events.filter(({ event, stream }) => event === "log" && stream === "both");
    // Both streams as the kubelet has them: their order among each other is the container runtime's.
    const text = live.map(({ text }) => text).join("");
    expect(text.replace("oops\n", "").trimEnd()).toBe(
      `${[1, 2, 3, 4, 5, 6].map((n) => `out ${n}\n`).join("")}the last word`,
    );
    expect((live.at(-1)?.at ?? 0) - (live[0]?.at ?? 0)).toBeGreaterThan(3_000);
    expect(live.length).toBeGreaterThan(2);
    const apart = events.filter(({ event, stream }) => event === "log" && stream !== "both");
    expect(apart.map(({ stream, replay }) => [stream, replay])).toEqual([
      ["stdout", true],
      ["stderr", true],
    ]);
    expect(apart[1]?.text).toBe("oops\n");
  });

  test("a cancelled run's pod is gone before its slot is free", { timeout: 120_000 }, async () => {
    const client = plane.client();
    const { id } = await client.call("submit_run", {
      body: {
        harness: { spec: { kind: "command", command: "echo up; sleep 300" } },
        case: { id: "c", task: "t" },
        runtime: "pool",
      },
    });
    await until("it runs", 60_000, async () => (await client.call("get_run", { params: { id } })).status === "running");
    await until("its output can be read", 20_000, async () =>
      (await client.call("get_run_logs", { params: { id } })).includes("up"),
    );
    await client.call("cancel_run", { params: { id } });
    await until(
      "it is cancelled",
      90_000,
      async () => (await client.call("get_run", { params: { id } })).status === "cancelled",
    );
    expect(
      (await kubectl(["get", "pods", "-n", namespace, "--field-selector=status.phase=Running", "-o", "name"])).trim(),
    ).toBe("");
  });
});
