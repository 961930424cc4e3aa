import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { describe } from "vitest";
import { LABEL } from "../../worker/backends/k8s/labels.ts";
import { roleManifest } from "../../worker/backends/k8s/rights.ts";
import { type KillTarget, relayKills } from "../relay/kills.ts";
import { kubeconfig } from "../support/kubeconfig.ts";
import { clusterAddress, kubectl } from "./kubectl.ts";

async function realTarget(): Promise<KillTarget> {
  const { server, ca } = await clusterAddress();
  const namespace = `evd-kills-${Math.random().toString(36).slice(2, 8)}`;
  await kubectl(["create", "namespace", namespace]);
  await kubectl(["apply", "-f", "-"], roleManifest(namespace, { nodes: true }));
  const token = (await kubectl(["create", "token", "everdict", "-n", namespace, "--duration=1h"])).trim();
  // Every pod there ever was, by its uid.
  const pods = new Map<string, string>();
  const columns = `custom-columns=UID:.metadata.uid,RUN:.metadata.labels.${LABEL.run.replaceAll(".", "\\.")}`;
  const watch = spawn("kubectl", ["get", "pods", "-n", namespace, "--watch", "--no-headers", "-o", columns]);
  createInterface(watch.stdout).on("line", (line) => {
    const [uid = "", run = ""] = line.trim().split(/\s+/);
    if (run.startsWith("run_")) pods.set(uid, run);
  });
  return {
    kubeconfig: kubeconfig({ server, ca, user: { token } }),
    namespace,
    note: null,
    executions: async () => [...pods.values()],
    async running() {
      const running = ["get", "pods", "-n", namespace, "--field-selector=status.phase=Running", "-o", "name"];
      return (await kubectl(running)).trim().split("\n").filter(Boolean).length;
    },
    async close() {
      watch.kill();
      await kubectl(["delete", "namespace", namespace, "--wait=false"]);
    },
  };
}

describe.skipIf(!process.env.KUBECONFIG || !process.env.EVERDICT_LONG)(
  "on a real Kubernetes (KUBECONFIG, EVERDICT_LONG)",
  () => {
    relayKills(realTarget, { cases: 200, kills: 20, slots: 15, timeoutMs: 900_000 });
  },
);
