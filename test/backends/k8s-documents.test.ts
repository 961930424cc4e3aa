import fc from "fast-check";
import { expect, test } from "vitest";
import { K8sRuntime } from "../../contracts/runtime-spec.ts";
import {
  jobDocument,
  networkPolicyDocument,
  pullSecretDocument,
  secretDocument,
} from "../../worker/backends/k8s/documents.ts";
import type { K8sSpec } from "../../worker/backends/k8s/settings.ts";
import { type AttemptParts, attemptOf } from "./attempts.ts";

const owner = { deployment: "prod", object: "0123abcd" };
const RUN = "run_01h00000000000000000000000";
const specOf = (parts: Partial<K8sSpec> = {}): K8sSpec => ({
  ...K8sRuntime.parse({
    kind: "k8s",
    id: "pool",
    version: "1.0.0",
    server: "https://k8s.acme.dev",
    authSecret: "K8S_TOKEN",
    image: "busybox:1.36",
  }),
  ...parts,
});
const attempt = (parts: AttemptParts = {}) =>
  attemptOf(owner, {
    runId: RUN,
    nonce: "0".repeat(32),
    image: "busybox:1.36",
    ...parts,
    job: { program: "echo hi\n", timeoutSec: 60, graceSec: 10, ...parts.job },
  });
const LABELS = {
  "everdict.dev/deployment": "prod",
  "everdict.dev/object": "0123abcd",
  "everdict.dev/run": RUN,
  "everdict.dev/epoch": "1",
};

test("golden: the plainest job", () => {
  const name = "evd-0123abcd-01h00000000000000000000000-1";
  expect(jobDocument(attempt(), specOf(), owner)).toEqual({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, labels: LABELS },
    spec: {
      completions: 1,
      parallelism: 1,
      backoffLimit: 0,
      ttlSecondsAfterFinished: 86_400,
      podReplacementPolicy: "Failed",
      template: {
        metadata: { labels: LABELS },
        spec: {
          restartPolicy: "Never",
          activeDeadlineSeconds: 60 + 10 + 300 + 900,
          terminationGracePeriodSeconds: 15,
          automountServiceAccountToken: false,
          enableServiceLinks: false,
          nodeSelector: { "kubernetes.io/os": "linux" },
          securityContext: { seccompProfile: { type: "RuntimeDefault" } },
          containers: [
            {
              name: "main",
              image: "busybox:1.36",
              command: ["/bin/sh", "/everdict/program/program"],
              env: [
                { name: "EVD_DIR", value: "/everdict/dir" },
                { name: "EVD_NONCE_FILE", value: "/everdict/program/nonce" },
                { name: "EVD_RUN_ID", value: RUN },
                { name: "EVD_TERMINATION_FILE", value: "/dev/termination-log" },
              ],
              resources: { requests: { cpu: "20m", memory: "64Mi" }, limits: { cpu: "20m", memory: "64Mi" } },
              terminationMessagePath: "/dev/termination-log",
              terminationMessagePolicy: "FallbackToLogsOnError",
              securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
              volumeMounts: [
                { name: "dir", mountPath: "/everdict/dir" },
                { name: "program", mountPath: "/everdict/program", readOnly: true },
              ],
            },
          ],
          volumes: [
            { name: "dir", emptyDir: {} },
            {
              name: "program",
              secret: {
                secretName: name,
                items: [
                  { key: "nonce", path: "nonce" },
                  { key: "program", path: "program" },
                ],
              },
            },
          ],
        },
      },
    },
  });
  expect(secretDocument(attempt(), owner)).toEqual({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, labels: LABELS },
    type: "Opaque",
    data: { nonce: btoa("0".repeat(32)), program: btoa("echo hi\n") },
  });
});

test("golden: everything a job and a runtime can ask for", () => {
  const full = attempt({
    secrets: { KEY: "s3cret-value" },
    gitCredential: "git-password",
    registryAuth: { host: "ghcr.io", username: "bot", password: "registry-password" },
    job: {
      os: "windows",
      network: "none",
      resources: { cpu: 500, memoryMb: 256, gpu: 2 },
      git: { url: "https://git.acme.dev/$(x).git", ref: "main" },
      ports: [{ name: "http", port: 8_080 }],
      sidecars: [
        {
          name: "db",
          image: "postgres:16",
          env: { P: "$(HOME)" },
          ports: [{ name: "pg", port: 5_432 }],
          resources: { memoryMb: 128 },
        },
      ],
    },
  });
  const runtime = specOf({
    nodeSelector: { pool: "eval" },
    tolerations: [{ key: "gpu", operator: "Exists", effect: "NoSchedule" }],
    runtimeClass: "gvisor",
    gitImage: "acme/git:1",
  });
  expect(jobDocument(full, runtime, owner)).toMatchSnapshot();
  expect(pullSecretDocument(full, owner)).toMatchSnapshot();
  expect(networkPolicyDocument()).toMatchSnapshot();
});

test("the same attempt gives the same bytes, whatever the order of its maps", () => {
  const one = attempt({ secrets: { B: "2", A: "1" }, job: { env: { Z: "1", EVD_RUN_ID: RUN } } });
  const two = attempt({ secrets: { A: "1", B: "2" }, job: { env: { EVD_RUN_ID: RUN, Z: "1" } } });
  expect(JSON.stringify(jobDocument(one, specOf(), owner))).toBe(JSON.stringify(jobDocument(two, specOf(), owner)));
  expect(JSON.stringify(secretDocument(one, owner))).toBe(JSON.stringify(secretDocument(two, owner)));
});

test("what is asked is what is placed: requests = limits, and undeclared cpu and memory have defaults", () => {
  fc.assert(
    fc.property(
      fc.option(fc.integer({ min: 1, max: 1_024_000 }), { nil: null }),
      fc.option(fc.integer({ min: 4, max: 16_777_216 }), { nil: null }),
      fc.option(fc.integer({ min: 1, max: 64 }), { nil: null }),
      (cpu, memoryMb, gpu) => {
        const text = JSON.stringify(
          jobDocument(attempt({ job: { resources: { cpu, memoryMb, gpu } } }), specOf(), owner),
        );
        const amounts: Record<string, string> = { cpu: `${cpu ?? 1_000}m`, memory: `${memoryMb ?? 1_024}Mi` };
        if (gpu !== null) amounts["nvidia.com/gpu"] = String(gpu);
        expect(text).toContain(`"resources":${JSON.stringify({ requests: amounts, limits: amounts })}`);
      },
    ),
  );
});

test("no secret value and no credential stands in a Job, in clear or in base64, and $( is never left to be expanded", () => {
  const value = fc.string({ minLength: 8, maxLength: 40 }).filter((text) => text.trim().length >= 8);
  fc.assert(
    fc.property(value, value, value, fc.string({ maxLength: 40 }), (secret, git, password, text) => {
      const canary = (it: string) => `canary-${it}`;
      const made = attempt({
        secrets: { KEY: canary(secret) },
        gitCredential: canary(git),
        registryAuth: { host: "r.acme.dev", username: "u", password: canary(password) },
        job: {
          env: { EVD_NOTE: text },
          git: { url: "https://git.acme.dev/x", ref: "main" },
          sidecars: [{ name: "s", image: "s:1", env: { T: text }, ports: [], resources: {} }],
        },
      });
      const job = JSON.stringify(jobDocument(made, specOf(), owner));
      for (const it of [secret, git, password]) {
        expect(job).not.toContain(JSON.stringify(canary(it)).slice(1, -1));
        expect(job).not.toContain(btoa("canary-"));
      }
      expect(job.replaceAll("$$(", "")).not.toContain("$(");
    }),
    { numRuns: 2_000 },
  );
});

test("the clone's credential is mounted where only the clone sees it", () => {
  const made = attempt({ gitCredential: "git-password", job: { git: { url: "https://git.acme.dev/x", ref: "main" } } });
  const text = JSON.stringify(jobDocument(made, specOf(), owner));
  const main = text.slice(text.indexOf('"containers":[{"name":"main"'), text.indexOf('"volumes"'));
  expect(main).not.toContain("everdict/clone");
  expect(text).toContain('"mountPath":"/everdict/clone"');
});
