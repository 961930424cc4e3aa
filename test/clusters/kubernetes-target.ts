import { Agent, fetch as undiciFetch } from "undici";
import * as z from "zod";
import { K8sRuntime } from "../../contracts/runtime-spec.ts";
import type { BackendOwner } from "../../worker/backends/backend.ts";
import { K8sBackend } from "../../worker/backends/k8s/backend.ts";
import { selectorOf } from "../../worker/backends/k8s/labels.ts";
import { roleManifest } from "../../worker/backends/k8s/rights.ts";
import type { K8sSpec } from "../../worker/backends/k8s/settings.ts";
import type { Transport } from "../../worker/backends/transport/transport.ts";
import type { Target, Way } from "../backends/target.ts";
import { clusterAddress, kubectl } from "./kubectl.ts";

const Items = z.object({ items: z.array(z.object({ status: z.object({ phase: z.string().optional() }).optional() })) });

export interface KubernetesTarget extends Target {
  namespace: string;
  server: string;
  spec(parts?: Partial<K8sSpec>): K8sSpec;
  backendOf(spec: K8sSpec, owner: BackendOwner): K8sBackend;
}

/**
 * A namespace of its own on the cluster of KUBECONFIG, and a ServiceAccount with exactly the printed Role.
 * @param through another way than this process's own connections, for the ServiceAccount's token
 */
export async function kubernetesTarget(
  through?: (account: { token: string; server: string; ca: string | null }) => Promise<Way>,
): Promise<KubernetesTarget> {
  const { server, ca } = await clusterAddress();
  const namespace = `evd-test-${Math.random().toString(36).slice(2, 8)}`;
  await kubectl(["create", "namespace", namespace]);
  await kubectl(["apply", "-f", "-"], roleManifest(namespace, { nodes: true }));
  const token = (await kubectl(["create", "token", "everdict", "-n", namespace, "--duration=1h"])).trim();
  const agent = new Agent({ connect: ca === null ? {} : { ca } });
  let calls = 0;
  let loseNext = false;
  const dial: Transport = {
    async fetch(request) {
      const { body, ...init } = request;
      const answer = await undiciFetch(`${server}${request.path}`, {
        method: init.method,
        headers: { ...init.headers },
        redirect: "manual",
        signal: init.signal,
        dispatcher: agent,
        ...(body === undefined ? {} : { body }),
      });
      const headers = new Headers([...answer.headers]);
      // SAFETY: undici's stream is Node's web stream; only its reader is used.
      return { status: answer.status, headers, body: answer.body as unknown as ReadableStream<Uint8Array> | null };
    },
  };
  const way = through ? await through({ token, server, ca }) : { transport: dial, token, bare: dial };
  const watched = (inner: Transport): Transport => ({
    async fetch(request) {
      calls++;
      const answer = await inner.fetch(request);
      if (loseNext && request.method === "POST" && request.path.includes("/jobs")) {
        loseNext = false;
        await answer.body?.cancel();
        throw new TypeError("the connection broke");
      }
      return answer;
    },
  });
  const transport = watched(way.transport);
  const spec = (parts: Partial<K8sSpec> = {}): K8sSpec => ({
    ...K8sRuntime.parse({
      kind: "k8s",
      id: "real",
      version: "1.0.0",
      server,
      authSecret: "K8S_TOKEN",
      image: "everdict/busybox:1",
      namespace,
    }),
    ...parts,
  });
  const backendOf = (it: K8sSpec, owner: BackendOwner) => new K8sBackend(it, { transport, token: way.token, owner });
  const count = async (
    kind: string,
    owner: BackendOwner,
  ): Promise<{ status?: { phase?: string | undefined } | undefined }[]> => {
    const text = await kubectl(["get", kind, "-n", namespace, "-l", selectorOf(owner), "-o", "json"]);
    return Items.parse(JSON.parse(text)).items;
  };
  return {
    namespace,
    server,
    spec,
    backendOf,
    image: "everdict/busybox:1",
    missingImage: "127.0.0.1:9/everdict/absent:1",
    backend: (owner) => backendOf(spec(), owner),
    stranger: (owner) => new K8sBackend(spec(), { transport: watched(way.bare), token: "not-a-token", owner }),
    calls: () => calls,
    loseNextAnswer() {
      loseNext = true;
    },
    async removeUnit(name) {
      await kubectl(["delete", "job", name, "-n", namespace, "--wait=false"]);
    },
    async evictUnit(name) {
      await kubectl(["delete", "pod", "-n", namespace, "-l", `batch.kubernetes.io/job-name=${name}`, "--wait=false"]);
    },
    async leftovers(owner) {
      // Deletion in the background takes a moment, for Secrets too.
      for (let n = 0; ; n++) {
        const units = await count("jobs", owner);
        const pods = await count("pods", owner);
        const secrets = await count("secrets", owner);
        const running = pods.filter(({ status }) => !/^(Succeeded|Failed)$/.test(status?.phase ?? ""));
        if (n >= 40 || units.length + pods.length + secrets.length === 0)
          return { units: units.length, running: running.length, secrets: secrets.length };
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    },
    async close() {
      await kubectl(["delete", "namespace", namespace, "--wait=false"]);
      await kubectl(["delete", "clusterrole,clusterrolebinding", `everdict-${namespace}`, "--ignore-not-found"]);
      await agent.close();
    },
  };
}
