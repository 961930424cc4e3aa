import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { roleManifest } from "../../worker/backends/k8s/rights.ts";
import { attemptOf, randomOwner } from "../backends/attempts.ts";
import { observeEnds } from "../backends/conformance.ts";
import { endsOf, endsWell } from "../backends/scenarios.ts";
import { kubectl } from "./kubectl.ts";
import { type KubernetesTarget, kubernetesTarget } from "./kubernetes-target.ts";

describe.skipIf(!process.env.KUBECONFIG)("facts on a real Kubernetes (KUBECONFIG)", () => {
  let target: KubernetesTarget;
  const owner = randomOwner();
  beforeAll(async () => {
    target = await kubernetesTarget();
  });
  afterAll(() => target.close());
  const here = (...args: string[]) => kubectl(["-n", target.namespace, ...args]);

  test("a used-up quota on pods shows in events only, is told in words, and heals when it is raised (K 63, 64)", async () => {
    const backend = target.backend(owner);
    await here("create", "quota", "q", "--hard=pods=0");
    // The quota counts only once its controller has seen it.
    await here("wait", "--for=jsonpath={.status.hard.pods}=0", "quota/q", "--timeout=30s");
    const attempt = attemptOf(owner, { image: target.image, program: { command: "echo ran" } });
    expect(await backend.start(attempt)).toMatchObject({ kind: "started" });
    const words = await observeEnds(backend, [attempt], ({ detail }) => detail?.includes("exceeded quota: q") === true);
    expect(words.get(attempt.job.name)).toMatchObject({ state: "pending", end: null });
    await here("delete", "quota", "q");
    const ended = await observeEnds(backend, [attempt]);
    expect(endsWell(endsOf(ended.get(attempt.job.name))).outcome.stdout).toBe("ran\n");
    await backend.collect([attempt.job.name]);
  });

  test("the probe says what the namespace's PodSecurity level would forbid (K 12, 66)", async () => {
    await kubectl(["label", "namespace", target.namespace, "pod-security.kubernetes.io/enforce=restricted"]);
    const { checks } = await target.backend(owner).probe();
    await kubectl(["label", "namespace", target.namespace, "pod-security.kubernetes.io/enforce-"]);
    expect(checks.find(({ name }) => name === "job.dryRun")?.detail).toMatch(/would violate PodSecurity "restricted/);
  });

  test("a wrong namespace is 'absent or not permitted' to the limited token (K 4)", async () => {
    const report = await target.backendOf(target.spec({ namespace: "no-such-namespace" }), owner).probe();
    expect(report).toMatchObject({ reachable: false, reason: "rights" });
    expect(report.checks.find(({ name }) => name === "namespace")?.detail).toContain("absent or not permitted");
  });

  test("a token that lost one right is told which one", async () => {
    // Pods are the second rule of the printed Role.
    const verbs = (list: string[]) =>
      here(
        "patch",
        "role",
        "everdict",
        "--type=json",
        "-p",
        JSON.stringify([{ op: "replace", path: "/rules/1/verbs", value: list }]),
      );
    await verbs(["list"]);
    const report = await target.backend(owner).probe();
    await verbs(["list", "watch"]);
    expect(report).toMatchObject({ reachable: false, reason: "rights", detail: expect.stringContaining("watch pods") });
  });

  test("a Secret volume, a second Secret for pulls and a policy for 'none' are taken by the real schema (K 14)", async () => {
    const backend = target.backend(owner);
    const attempt = attemptOf(owner, {
      image: target.image,
      program: { command: "ls -a /everdict; id -u; echo $TOKEN" },
      secrets: { TOKEN: "a-long-secret-value" },
      registryAuth: { host: "registry.example.com", username: "u", password: "p" },
      job: {
        network: "none",
        ports: [{ name: "http", port: 8_080 }],
        sidecars: [
          {
            name: "side",
            image: "everdict/pause:1",
            env: { A: "$(B)" },
            ports: [],
            resources: { cpu: 10, memoryMb: 16 },
          },
        ],
      },
    });
    expect(await backend.start(attempt)).toMatchObject({ kind: "started" });
    // The image is there, so the pull credential is not needed; the sidecar must not keep the Job alive.
    const { outcome } = endsWell(endsOf((await observeEnds(backend, [attempt])).get(attempt.job.name)));
    expect(outcome.stdout).toContain("a-long-secret-value");
    await backend.collect([attempt.job.name]);
    expect(await target.leftovers(owner)).toEqual({ units: 0, running: 0, secrets: 0 });
  });

  test("nodes, capacity and workload are shown", async () => {
    const seen = await target.backendOf(target.spec(), owner).inspect();
    expect(seen).toMatchObject({ reachable: true, reason: null, cluster: { namespace: target.namespace } });
    expect(seen.nodes?.length).toBeGreaterThan(0);
    expect(seen.nodes?.[0]).toMatchObject({ ready: true, os: "linux", agentVersion: expect.stringMatching(/^v1\./) });
    expect(seen.capacity?.cpu.total).toBeGreaterThan(100);
    expect(seen.capacity?.memoryMb.total).toBeGreaterThan(100);
  });

  test("control acts with exactly the printed rights: on ours, and with externalControl on the rest (K 77, 78)", {
    timeout: 120_000,
  }, async () => {
    const backend = target.backendOf(target.spec(), owner);
    const started = async (command: string) => {
      const attempt = attemptOf(owner, { image: target.image, program: { command } });
      await backend.start(attempt);
      return attempt;
    };
    const [live, idle, done] = [await started("sleep 60"), await started("sleep 60"), await started("true")];
    await observeEnds(backend, [done]);
    await here("create", "deployment", "web", "--image=everdict/pause:1");
    const liveUnits = async () => new Set([live.job.name]);
    const own = { liveUnits, external: false };
    const anything = { liveUnits, external: true };
    await expect(backend.control({ action: "stopWorkload", workload: "web" }, own)).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
    await expect(
      backend.control({ action: "resizeWorkload", workload: "web", replicas: 2 }, anything),
    ).rejects.toMatchObject({ code: "UPSTREAM_MISCONFIGURED", message: expect.stringContaining("deployments/scale") });
    await here("wait", "--for=condition=complete", `job/${done.job.name}`, "--timeout=30s");
    expect(await backend.control({ action: "purgeTerminal" }, own)).toMatchObject({ affected: [done.job.name] });
    expect(await backend.control({ action: "reclaimIdle" }, own)).toMatchObject({ affected: [idle.job.name] });
    expect(await backend.control({ action: "stopWorkload", workload: live.job.name }, own)).toMatchObject({
      affected: [live.job.name],
    });
    await kubectl(["apply", "-f", "-"], roleManifest(target.namespace, { nodes: true, externalControl: true }));
    expect(await backend.control({ action: "resizeWorkload", workload: "web", replicas: 2 }, anything)).toMatchObject({
      detail: expect.stringContaining("2 copies"),
    });
    expect((await here("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")).trim()).toBe("2");
    const [node] = (await backend.inspect()).nodes ?? [];
    const cordon = (cordoned: boolean) =>
      backend.control({ action: "cordonNode", node: node?.name ?? "", cordoned }, anything);
    await cordon(true);
    expect((await backend.inspect()).nodes?.[0]).toMatchObject({ schedulable: false });
    await cordon(false);
    expect((await backend.inspect()).nodes?.[0]).toMatchObject({ schedulable: true });
    const pod = (await backend.inspect()).workload?.find(({ name }) => name.startsWith("web-"));
    expect(pod).toMatchObject({ ours: false, role: "other" });
    await backend.control({ action: "stopWorkload", workload: pod?.unit ?? "" }, anything);
    await here("delete", "deployment", "web");
    expect(await target.leftovers(owner)).toEqual({ units: 0, running: 0, secrets: 0 });
  });

  test("how long a trivial case takes from start to result, beside a plain Job of kubectl", async () => {
    const backend = target.backend(owner);
    const attempt = attemptOf(owner, {
      image: target.image,
      program: { command: "true" },
      job: { resources: { cpu: 1_000, memoryMb: 64, gpu: null } },
    });
    const began = performance.now();
    await backend.start(attempt);
    const ended = await observeEnds(backend, [attempt]);
    const ours = performance.now() - began;
    const plainBegan = performance.now();
    await here("create", "job", "plain", `--image=${target.image}`, "--", "/bin/true");
    await here("wait", "--for=condition=complete", "job/plain", "--timeout=60s");
    const plain = performance.now() - plainBegan;
    process.stdout.write(
      `start to result ${Math.round(ours)} ms, kubectl create and wait ${Math.round(plain)} ms, ratio ${(ours / plain).toFixed(2)}\n`,
    );
    expect(endsWell(endsOf(ended.get(attempt.job.name))).outcome.exitCode).toBe(0);
    await backend.collect([attempt.job.name]);
  });
});
