import { K8sRuntime } from "../../contracts/runtime-spec.ts";
import type { BackendOwner } from "../../worker/backends/backend.ts";
import { K8sBackend } from "../../worker/backends/k8s/backend.ts";
import { LABEL } from "../../worker/backends/k8s/labels.ts";
import type { K8sSpec } from "../../worker/backends/k8s/settings.ts";
import { FakeKubernetes, type FakeOptions } from "../support/fake-kubernetes/fake-kubernetes.ts";
import type { Target, Way } from "./target.ts";

const NAMESPACE = "evals";
const TOKEN = "a-token";

export interface FakeTarget extends Target {
  fake: FakeKubernetes;
  backendOf(parts: Partial<K8sSpec>, owner: BackendOwner): K8sBackend;
}

/** The fake Kubernetes as a target of the suite. */
export function fakeKubernetesTarget(
  options: Partial<FakeOptions> = {},
  fake = new FakeKubernetes({ namespace: NAMESPACE, token: TOKEN, ...options }),
  way: Way = { transport: fake.transport(), token: TOKEN, bare: fake.transport() },
): FakeTarget {
  const spec = K8sRuntime.parse({
    kind: "k8s",
    id: "fake",
    version: "1.0.0",
    server: "https://k8s.example.com",
    authSecret: "K8S_TOKEN",
    image: "everdict/busybox:1",
    namespace: NAMESPACE,
  });
  const backendOf = (parts: Partial<K8sSpec>, owner: BackendOwner) =>
    new K8sBackend({ ...spec, ...parts }, { ...way, owner });
  const ours = (resource: string, owner: BackendOwner) =>
    fake.store.list(resource, NAMESPACE, { [LABEL.deployment]: owner.deployment, [LABEL.object]: owner.object });
  return {
    fake,
    backendOf,
    image: "everdict/busybox:1",
    missingImage: "registry.example.com/everdict/absent:1",
    backend: (owner) => backendOf({}, owner),
    stranger: (owner) => new K8sBackend(spec, { transport: way.bare, token: "not-a-token", owner }),
    calls: () => fake.requests.length,
    loseNextAnswer() {
      fake.fault = ({ method, path }) => {
        if (method !== "POST" || !path.includes("/jobs")) return null;
        fake.fault = () => null;
        return { kind: "lost-answer" };
      };
    },
    async removeUnit(name) {
      const job = fake.store.get("jobs", NAMESPACE, name);
      if (job) fake.controllers.deleteJob(job, "Background");
    },
    async evictUnit(name) {
      for (const pod of fake.store.list("pods", NAMESPACE, { "batch.kubernetes.io/job-name": name }))
        fake.controllers.deletePod(pod);
    },
    async leftovers(owner) {
      const running = ours("pods", owner).filter(({ status }) => !/^(Succeeded|Failed)$/.test(String(status.phase)));
      return { units: ours("jobs", owner).length, running: running.length, secrets: ours("secrets", owner).length };
    },
    async close() {
      fake.dispose();
    },
  };
}
