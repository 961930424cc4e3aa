import { type Capability, type Os, osCapability } from "./capabilities.ts";
import { casePayloadBytes, type EvalCase } from "./case.ts";
import type { Issue } from "./errors.ts";
import type { CommandBody, HarnessBody, HarnessSpec } from "./harness.ts";
import type { Resources } from "./job.ts";
import { LIMITS } from "./names.ts";
import type { ResolvedAsk } from "./rpc.ts";
import type { RuntimeSpec } from "./runtime-spec.ts";

/** CPU of a job that declares none: one core, on Nomad 1 000 MHz. */
export const DEFAULT_CPU_MILLICORES = 1_000;
/** Memory of a job that declares none, MiB. */
export const DEFAULT_MEMORY_MB = 1_024;

type AnyHarness = HarnessSpec | HarnessBody;

/** The image a case runs in: case > harness > runtime; null means the machine itself. */
export function effectiveImage(harness: AnyHarness, evalCase: EvalCase, runtime: RuntimeSpec | null): string | null {
  const own = evalCase.image ?? (harness.kind === "command" ? harness.image : undefined);
  return own ?? (runtime !== null && runtime.kind !== "local" ? runtime.image : null);
}

/** What a case of a harness needs, by the closed vocabulary. The runtime's default image asks for nothing. */
export function requiredCapabilities(harness: AnyHarness, evalCase: EvalCase): Capability[] {
  const needs = new Set<Capability>();
  if (effectiveImage(harness, evalCase, null) !== null) needs.add("docker");
  if (evalCase.env.kind === "repo" && evalCase.env.source.kind === "git") needs.add("git");
  if (evalCase.env.kind === "browser") needs.add("browser");
  if (evalCase.env.kind === "os-use") needs.add("computer-use");
  if ((evalCase.resources?.gpu ?? 0) > 0 || (harness.resources?.gpu ?? 0) > 0) needs.add("gpu");
  for (const capability of osCapability(evalCase.placement?.os)) needs.add(capability);
  if (evalCase.placement?.isolation === "sandbox") needs.add("sandbox");
  if (harness.kind === "command") {
    if (harness.requiresLogin !== undefined) needs.add(`${harness.requiresLogin}-login`);
  } else {
    needs.add("docker").add("topology");
    for (const service of harness.services)
      for (const capability of osCapability(service.requires?.os)) needs.add(capability);
  }
  return [...needs].sort();
}

/** Operating system a case runs on. */
export const requiredOs = (evalCase: EvalCase): Os => evalCase.placement?.os ?? "linux";

const runtimeGpu = (runtime: RuntimeSpec | null): number | undefined =>
  runtime === null || runtime.kind === "local" ? undefined : runtime.gpu;

/**
 * The one ask that gate, admission and placement read. Per dimension: case > harness > runtime binding > default.
 * cpu in millicores, memory in MiB.
 */
export function resolveAsk(harness: AnyHarness, evalCase: EvalCase, runtime: RuntimeSpec | null): ResolvedAsk {
  const pick = (dimension: "cpu" | "memoryMb") => evalCase.resources?.[dimension] ?? harness.resources?.[dimension];
  const cpu = pick("cpu");
  const memoryMb = pick("memoryMb");
  return {
    cpu: { value: cpu ?? DEFAULT_CPU_MILLICORES, declared: cpu !== undefined },
    memoryMb: { value: memoryMb ?? DEFAULT_MEMORY_MB, declared: memoryMb !== undefined },
    gpu: evalCase.resources?.gpu ?? harness.resources?.gpu ?? runtimeGpu(runtime) ?? 0,
  };
}

/** The ask as a job carries it: null where nothing was declared. */
export function jobResources(ask: ResolvedAsk): { [K in keyof Required<Resources>]: number | null } {
  return {
    cpu: ask.cpu.declared ? ask.cpu.value : null,
    memoryMb: ask.memoryMb.declared ? ask.memoryMb.value : null,
    gpu: ask.gpu > 0 ? ask.gpu : null,
  };
}

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;

/** The task as the agent gets it: a prompt's context stands before it. */
export function taskText(evalCase: EvalCase): string {
  return evalCase.env.kind === "prompt" && evalCase.env.context
    ? `${evalCase.env.context}\n\n${evalCase.task}`
    : evalCase.task;
}

/**
 * What a case cannot be with this harness: a task too long for the argument it becomes (Linux takes 128 KiB for one), or
 * more than travels inside a job.
 * @param path dotted path of the case in the request
 */
export function payloadIssues(harness: CommandBody, evalCase: EvalCase, path: string): Issue[] {
  const issues: Issue[] = [];
  const shell = [harness.command, ...harness.setup];
  const task = bytesOf(taskText(evalCase));
  if (task > LIMITS.taskBytes && shell.some((text) => text.includes("{{task}}"))) {
    issues.push({
      path: `${path}.task`,
      message: `is ${task} bytes, and at most ${LIMITS.taskBytes} fit an argument; let the command read $EVD_TASK_FILE instead of {{task}}`,
    });
  }
  const whole = casePayloadBytes(evalCase) + shell.reduce((sum, text) => sum + bytesOf(text), 0);
  if (whole > LIMITS.casePayloadBytes) {
    issues.push({
      path: `${path}.env`,
      message: `files, task, setup and command are ${whole} bytes together, at most ${LIMITS.casePayloadBytes}; use a git source`,
    });
  }
  return issues;
}
