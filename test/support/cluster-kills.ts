import { expect } from "vitest";
import { ControlPlane, until } from "./control-plane.ts";
import { REAL_CLOCK } from "./fake-nomad/clock.ts";
import { FakeNomad } from "./fake-nomad/fake-nomad.ts";
import type { JobBody } from "./fake-nomad/model.ts";
import { serveFakeNomad } from "./fake-nomad/server.ts";

const TASK_MS = 300;

/** What a program delivers: the Outcome behind its mark and the nonce of its own job. */
function outcomeOf(job: JobBody): string {
  const templates = job.TaskGroups?.[0]?.Tasks?.[0]?.Templates ?? [];
  const nonce = templates.find(({ DestPath }) => DestPath === "secrets/nonce")?.EmbeddedTmpl ?? "";
  const body = "everdict 1\nexit 0\nms 5\ntimeout 0\nnode +4\nbox1\nout 2 +2\nhi\nerr 0 +0\n\n";
  return `__EVERDICT_RESULT__ ${nonce} ${btoa(body)}\n`;
}

/**
 * Kills the server again and again in the window between a cluster's "created" and our record of it, and at random points
 * of the answer's way, then looks that no attempt has two jobs and no run is lost.
 * @param kills how often
 */
export async function killWhileStarting(kills: number): Promise<void> {
  const nomad = new FakeNomad({ clock: REAL_CLOCK, acl: false });
  for (const node of nomad.cluster.nodes.values())
    Object.assign(node, { cpuMhz: 1e9, memoryMb: 1e9, diskMb: 1e9, gcMaxAllocs: 1e9 });
  const { cluster } = nomad;
  cluster.executor = {
    start: (body, alloc) => {
      setTimeout(
        () => cluster.endTask(alloc, { exitCode: 0, files: { "/alloc/data/outcome": outcomeOf(body) } }),
        TASK_MS,
      );
    },
    interrupt: (alloc) => cluster.endTask(alloc, { exitCode: 143 }),
  };
  let onRegister: (() => void) | null = null;
  const handle = nomad.handle.bind(nomad);
  nomad.handle = async (method, target, ...rest) => {
    const answer = await handle(method, target, ...rest);
    if (method === "POST" && /^\/v1\/jobs\?/.test(target) && answer.status === 200) onRegister?.();
    return answer;
  };
  const server = await serveFakeNomad(nomad);
  const plane = await ControlPlane.start();
  try {
    const client = plane.client();
    await client.call("create_runtime", {
      body: {
        kind: "nomad",
        id: "pool",
        version: "1.0.0",
        addr: server.address,
        image: "busybox:1.36",
        maxConcurrent: 50,
      },
    });
    const ids: string[] = [];
    const submit = async (): Promise<void> => {
      const { id } = await client.call("submit_run", {
        body: {
          harness: { spec: { kind: "command", command: "true" } },
          case: { id: "c", task: "-", graders: [{ kind: "exit-code" }] },
          runtime: "pool",
        },
      });
      ids.push(id);
    };
    for (let n = 0; n < kills; n++) {
      const registered = new Promise<void>((resolve) => {
        onRegister = resolve;
      });
      await submit();
      await submit();
      await registered;
      onRegister = null;
      await new Promise((resolve) => setTimeout(resolve, Math.random() < 0.5 ? 0 : Math.random() * 40));
      await plane.kill();
      await plane.up();
    }
    expect(ids).toHaveLength(2 * kills);
    for (const id of ids) {
      const run = await until(`${id} has ended`, 120_000, async () => {
        const now = await client.call("get_run", { params: { id } });
        return now.finishedAt === null ? null : now;
      });
      expect(run).toMatchObject({ status: "succeeded", epoch: run.attempts.length });
      const names = [...cluster.jobs.keys()].filter((name) => name.includes(id.slice("run_".length)));
      // An attempt has one job, which ran once; a result comes of the first attempt that delivers one.
      expect(names.length).toBeLessThanOrEqual(run.attempts.length);
      for (const name of names) expect(cluster.executions.get(name)).toBe(1);
      expect(names).toHaveLength(1);
    }
  } finally {
    await plane.stop();
    await server.close();
  }
}
