import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { BackendAttempt } from "../../../worker/backends/backend.ts";
import { jobDocument, type NomadJob } from "../../../worker/backends/nomad/document.ts";
import { environmentTemplate, fileTemplate } from "../../../worker/backends/nomad/templates.ts";
import keptFields from "../../support/fake-nomad/kept-fields.json" with { type: "json" };
import { parseEnvironment, render } from "../../support/fake-nomad/template.ts";
import { type AttemptParts, attemptOf } from "../attempts.ts";
import { nomadSpec } from "./fake-target.ts";

const OWNER = { deployment: "prod", object: "7f3k2m9q" };
const NONCE = "0123456789abcdef0123456789abcdef";

function attempt(parts: AttemptParts = {}): BackendAttempt {
  return attemptOf(OWNER, { runId: `run_${"0".repeat(25)}1`, nonce: NONCE, ...parts });
}

function built(parts: AttemptParts = {}, spec: Parameters<typeof nomadSpec>[0] = {}): NomadJob {
  const result = jobDocument(attempt(parts), nomadSpec(spec), OWNER);
  if (!result.ok) throw new Error(result.failure.message);
  return result.job;
}

interface Shown {
  Meta: Record<string, string>;
  Constraints: Record<string, string>[];
  Datacenters: string[];
  Namespace: string;
  TaskGroups: {
    Tasks: {
      Name: string;
      Config: Record<string, unknown>;
      Env?: Record<string, string>;
      Resources: Record<string, unknown>;
      KillTimeout: number;
      LogConfig: { MaxFiles: number; MaxFileSizeMB: number };
      Lifecycle?: Record<string, unknown>;
      Templates: (Parameters<typeof render>[0] & Record<string, unknown>)[];
    }[];
    Networks?: unknown;
    Disconnect: Record<string, unknown>;
    RestartPolicy: Record<string, unknown>;
    ReschedulePolicy: Record<string, unknown>;
    EphemeralDisk: { SizeMB: number };
  }[];
}

const shown = (job: NomadJob): Shown => JSON.parse(JSON.stringify(job));

function groupOf(job: NomadJob): Shown["TaskGroups"][number] {
  const [group] = shown(job).TaskGroups;
  if (!group) throw new Error("no group");
  return group;
}

function taskOf(job: NomadJob, name = "main"): Shown["TaskGroups"][number]["Tasks"][number] {
  const task = groupOf(job).Tasks.find(({ Name }) => Name === name);
  if (!task) throw new Error(`no task ${name}`);
  return task;
}

const code = (parts: AttemptParts, spec: Parameters<typeof nomadSpec>[0] = {}): string => {
  const result = jobDocument(attempt(parts), nomadSpec(spec), OWNER);
  return result.ok ? "accepted" : result.failure.code;
};

const FULL: AttemptParts = {
  program: { command: "echo hi" },
  secrets: { API_KEY: "v" },
  gitCredential: "token",
  job: {
    program: "echo fixed\n",
    resources: { cpu: 1_500, memoryMb: 512, gpu: 1 },
    git: { url: "https://git.example.com/a.git", ref: "main" },
    sidecars: [{ name: "db", image: "postgres:16", env: { P: "x" }, ports: [], resources: { memoryMb: 256 } }],
    graceSec: 10,
  },
};
const FULL_SPEC = {
  namespace: "evd",
  region: "eu",
  runtime: "runsc",
  cpuMhzPerCore: 2_400,
  constraints: [{ attribute: "${node.class}", operator: "=", value: "gpu" }],
};

describe("the job document", () => {
  test("is the golden one, byte for byte, and the same for the same attempt", () => {
    const golden: unknown = JSON.parse(readFileSync(join(import.meta.dirname, "golden-job.json"), "utf8"));
    expect(JSON.stringify(built(FULL, FULL_SPEC))).toBe(JSON.stringify(golden));
    expect(JSON.stringify(built(FULL, FULL_SPEC))).toBe(JSON.stringify(built(FULL, FULL_SPEC)));
  });

  test("N 29: every field of it is one that a real server gives back after a register", () => {
    const job = built(FULL, FULL_SPEC);
    const group = groupOf(job);
    expect(Object.keys(job).filter((key) => !keptFields.job.includes(key))).toEqual([]);
    expect(Object.keys(group).filter((key) => !keptFields.group.includes(key))).toEqual([]);
    for (const task of group.Tasks) {
      expect(Object.keys(task).filter((key) => !keptFields.task.includes(key))).toEqual([]);
      expect(Object.keys(task.Resources).filter((key) => !keptFields.resources.includes(key))).toEqual([]);
      expect(Object.keys(task.LogConfig).filter((key) => !keptFields.logConfig.includes(key))).toEqual([]);
      for (const template of task.Templates)
        expect(Object.keys(template).filter((key) => !keptFields.template.includes(key))).toEqual([]);
    }
  });

  test("N 9: a lost node's job is never placed a second time, and nothing is restarted or rescheduled", () => {
    const group = groupOf(built());
    expect(group.Disconnect).toEqual({ LostAfter: 86_400e9, Replace: false });
    expect(group.RestartPolicy).toMatchObject({ Attempts: 0, Mode: "fail" });
    expect(group.ReschedulePolicy).toMatchObject({ Attempts: 0, Unlimited: false });
  });

  test("N 3, N 30: the task has its own log settings, and its disk exceeds the log files", () => {
    const group = groupOf(built());
    const { Config, LogConfig } = taskOf(built());
    expect(Config.logging).toEqual([{ type: "json-file", config: [{ "max-size": "100m", "max-file": "1" }] }]);
    expect(group.EphemeralDisk.SizeMB).toBeGreaterThan(LogConfig.MaxFiles * LogConfig.MaxFileSizeMB);
  });

  test("N 1, N 2: the program is asked for a pause at its end, longer than the 0.3 s that was enough", () => {
    expect(Number(taskOf(built()).Env?.EVD_PAUSE_SEC)).toBeGreaterThan(0.3);
    expect(taskOf(built()).Env).toMatchObject({ EVD_DIR: "/alloc/data", EVD_OUTCOME_FILE: "/alloc/data/outcome" });
  });

  test("N 14: args are one fixed string, and nothing in Config is an expression", () => {
    const task = taskOf(built({ job: { program: "echo ${HOME} %{x} {{ y }}" } }));
    expect(task.Config.args).toEqual(["/secrets/program.sh"]);
    expect(JSON.stringify(task.Config)).not.toMatch(/[$%]\{/);
  });

  test("N 14: a fact with an expression in it goes into the environment by a template, where it stays as it is", () => {
    const value = 'a ${attr.kernel.name} %{b} "q"\nEVIL=1';
    const task = taskOf(built({ job: { env: { EVD_CASE: value, EVD_PLAIN: "x" } } }));
    expect(task.Env).toMatchObject({ EVD_PLAIN: "x" });
    expect(task.Env).not.toHaveProperty("EVD_CASE");
    const template = task.Templates.find(({ Envvars }) => Envvars === true);
    if (!template) throw new Error("no environment template");
    expect(parseEnvironment(render(template, () => null) ?? "")).toEqual({ EVD_CASE: value });
  });

  test("N 45: the program is a file in secrets, whole, with delimiters that its text cannot hold", () => {
    const program = `[[${NONCE.slice(0, 16)}< {{ . }} >${NONCE.slice(0, 16)}]]`;
    const template = fileTemplate(program, "secrets/program.sh", "0444", NONCE);
    expect(program).not.toContain(template.LeftDelim);
    expect(program).not.toContain(template.RightDelim);
    expect(render(template, () => null)).toBe(program);
    const [first] = taskOf(built()).Templates;
    expect(first?.DestPath).toBe("secrets/program.sh");
  });

  test("N 43, N 44: values of secrets are only in the variable's items, and a newline in one sets nothing else", () => {
    const value = 'line\nEVIL=1 "q" $x #h <&>';
    const result = jobDocument(attempt({ secrets: { KEY: value } }), nomadSpec(), OWNER);
    if (!result.ok) throw new Error("refused");
    expect(result.items).toEqual({ KEY: value });
    expect(JSON.stringify(result.job)).not.toContain("EVIL");
    const template = environmentTemplate({
      literals: {},
      items: { KEY: "KEY" },
      variable: "nomad/jobs/j",
      nonce: NONCE,
    });
    expect(template && parseEnvironment(render(template, () => result.items) ?? "")).toEqual({ KEY: value });
  });

  test("N 44: secrets beyond what a variable holds are refused before anything is written", () => {
    expect(code({ secrets: { KEY: "x".repeat(65_537) } })).toBe("SECRETS_TOO_LARGE");
  });

  test("N 48: the kill timeout covers the job's grace and never exceeds the 30 s that clients cut it to", () => {
    expect(taskOf(built({ program: { graceSec: 10 } })).KillTimeout).toBe(15e9);
    expect(taskOf(built({ program: { graceSec: 300 } })).KillTimeout).toBe(30e9);
  });

  test("N 28: datacenters are every one unless the runtime names some; the namespace is in the body too", () => {
    expect(shown(built()).Datacenters).toEqual(["*"]);
    expect(shown(built({}, { datacenters: ["dc2"], namespace: "evd" }))).toMatchObject({
      Datacenters: ["dc2"],
      Namespace: "evd",
    });
  });

  test("cpu is placed in MHz by the runtime's clock; undeclared cpu and memory have their defaults", () => {
    const none = { cpu: null, memoryMb: null, gpu: null };
    expect(taskOf(built({ job: { resources: none } })).Resources).toEqual({ CPU: 1_000, MemoryMB: 1_024 });
    const asked = { cpu: 1_500, memoryMb: 512, gpu: 2 };
    expect(taskOf(built({ job: { resources: asked } }, { cpuMhzPerCore: 2_400 })).Resources).toEqual({
      CPU: 3_600,
      MemoryMB: 512,
      Devices: [{ Name: "nvidia/gpu", Count: 2 }],
    });
  });

  test("declared cpu is refused when nobody says how fast a core is", () => {
    const spec = nomadSpec();
    delete spec.cpuMhzPerCore;
    const result = jobDocument(attempt(), spec, OWNER);
    expect(result).toMatchObject({ ok: false, failure: { class: "config", code: "CPU_MHZ_UNKNOWN" } });
    expect(!result.ok && result.failure.message).toContain("cpuMhzPerCore");
  });

  test("gpus of the job win over the runtime's", () => {
    const gpu = (own: number | null) => ({ job: { resources: { cpu: null, memoryMb: null, gpu: own } } });
    expect(taskOf(built(gpu(0), { gpu: 4 })).Resources).not.toHaveProperty("Devices");
    expect(taskOf(built(gpu(null), { gpu: 4 })).Resources).toMatchObject({ Devices: [{ Count: 4 }] });
  });

  test("the operating system and the runtime's constraints are constraints of the job", () => {
    const job = shown(
      built({ job: { os: "windows" } }, { constraints: [{ attribute: "${node.class}", operator: "!=", value: "x" }] }),
    );
    expect(job.Constraints).toEqual([
      { LTarget: "${attr.kernel.name}", RTarget: "windows", Operand: "=" },
      { LTarget: "${node.class}", RTarget: "x", Operand: "!=" },
    ]);
  });

  test("N 27: the job's id, and the variable's path that holds it, are of the characters that variables take", () => {
    const { ID } = built({ epoch: 999_999 });
    expect(`nomad/jobs/${ID}`).toMatch(/^[a-zA-Z0-9_~/-]{1,128}$/);
  });

  test("the image that clones is pinned by its digest, and a runtime's own comes before it", () => {
    const git = { job: { git: { url: "https://git.acme.dev/x", ref: "main" } } };
    expect(taskOf(built(git), "clone").Config.image).toMatch(/^docker\.io\/alpine\/git@sha256:[0-9a-f]{64}$/);
    expect(taskOf(built(git, { gitImage: "acme/git:1" }), "clone").Config.image).toBe("acme/git:1");
  });

  test("Meta tells deployment, object, run and epoch", () => {
    expect(shown(built()).Meta).toEqual({
      everdict_deployment: "prod",
      everdict_object: "7f3k2m9q",
      everdict_run: `run_${"0".repeat(25)}1`,
      everdict_epoch: "1",
    });
  });

  test("a git source is cloned before the job by a task of its own, whose credential the job never gets", () => {
    const job = built(FULL, FULL_SPEC);
    const clone = taskOf(job, "clone");
    expect(clone.Lifecycle).toEqual({ Hook: "prestart", Sidecar: false });
    expect(JSON.stringify(clone.Templates)).toContain("EVD_GIT_CREDENTIAL");
    expect(JSON.stringify(taskOf(job).Templates)).not.toContain("EVD_GIT_CREDENTIAL");
    expect(JSON.stringify(job)).not.toContain("git.example.com");
  });

  test("N 47: sidecars live in the group's bridge network; without them no such network is asked for", () => {
    const job = built(FULL, FULL_SPEC);
    expect(groupOf(job).Networks).toEqual([{ Mode: "bridge" }]);
    expect(taskOf(job).Config).not.toHaveProperty("network_mode");
    expect(taskOf(job, "db").Lifecycle).toEqual({ Hook: "prestart", Sidecar: true });
    expect(groupOf(built())).not.toHaveProperty("Networks");
    expect(taskOf(built({ job: { network: "none" } })).Config.network_mode).toBe("none");
  });

  test("a registry credential is refused, since a job shows it to everyone who may read jobs", () => {
    expect(code({ registryAuth: { host: "r", username: "u", password: "p" } })).toBe("REGISTRY_AUTH_UNSUPPORTED");
    expect(code({ job: { mode: "service" } })).toBe("MODE_UNSUPPORTED");
    expect(code({ job: { image: null } })).toBe("IMAGE_MISSING");
  });

  test("no secret's value ever stands in a document, over many jobs", () => {
    for (let seed = 0; seed < 1_000; seed++) {
      const value = `v${seed}-${(seed * 7_919).toString(36)}-${"$%{}<>[]\n\"'"[seed % 10]}secret`;
      const result = jobDocument(
        attempt({ secrets: { [`K${seed}`]: value }, gitCredential: value }),
        nomadSpec(),
        OWNER,
      );
      if (!result.ok) throw new Error("refused");
      const text = JSON.stringify(result.job);
      expect(text.includes(JSON.stringify(value).slice(1, -1))).toBe(false);
      expect(text.includes(btoa(value))).toBe(false);
    }
  });
});
