import * as z from "zod";
import type { Issue } from "./errors.ts";
import { Resources } from "./job.ts";
import { EnvName, ImageRef, LIMITS, RegistryId, SecretName, Tags, Version } from "./names.ts";
import { whole } from "./numbers.ts";
import { expandPlaceholders } from "./placeholders.ts";
import { TraceSource } from "./runtime-spec.ts";
import { secretIssues } from "./secret-shape.ts";

/** What reaches a shell cannot hold a NUL, which would silently vanish there, nor half a character. */
const shellText = (max: number) =>
  z
    .string()
    .max(max)
    .refine((text) => !text.includes("\0"), "must not contain NUL")
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode");

const Shell = shellText(65_536).refine((text) => text.trim() !== "", "must not be blank");
const EnvValue = z.union(
  [
    shellText(32_768).describe("Literal value"),
    z.strictObject({ secretRef: SecretName }).describe("Value of a stored secret of use 'job'"),
  ],
  'must be a text, or {"secretRef": "NAME"} for a stored secret',
);

const Env = z
  .record(EnvName, EnvValue)
  .refine((env) => Object.keys(env).length <= LIMITS.envEntries, `at most ${LIMITS.envEntries} variables`)
  .refine((env) => !Object.keys(env).some((name) => name.startsWith("EVD_")), "names starting with EVD_ are reserved")
  .describe("Environment: a literal, or the name of a stored secret");

const command = {
  image: ImageRef.optional().describe("Container image; without one the runtime's, and without that the host"),
  resources: Resources.optional(),
  workDir: z
    .string()
    .max(200)
    .regex(/^[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*$/, "must be a relative path of plain names")
    .refine((path) => !path.split("/").includes(".."), "must not contain '..'")
    .default("work")
    .describe("Folder for the case's files, relative to where the program starts"),
  setup: z
    .array(Shell)
    .max(50)
    .default([])
    .describe("Shell steps before the command; a failing one ends the run as SETUP_FAILED"),
  command: Shell.describe("Shell command with {{task}}, {{model}}, {{run_id}} and {{param}} placeholders"),
  model: z.string().max(200).optional().describe("Value of {{model}}"),
  env: Env.default({}),
  params: z
    .record(
      z
        .string()
        .max(60)
        .regex(/^[a-z][a-z0-9_]{0,59}$/, "must be a lower-case name"),
      shellText(8_192),
    )
    .refine((params) => Object.keys(params).length <= 50, "at most 50 params")
    .default({})
    .describe("Values of {{name}} placeholders"),
  requiresLogin: z.enum(["codex", "claude"]).optional().describe("A login that the machine must have"),
  trace: z
    .strictObject({
      kind: z.enum(["none", "file", "otel", "mlflow", "langfuse", "langsmith", "phoenix"]),
      path: z.string().max(1_000).optional().describe("Trace file, relative to the work folder"),
    })
    .optional()
    .describe("Where the agent's trace is"),
};

const Readiness = z.strictObject({
  path: z.string().max(1_000).optional(),
  port: whole(1, 65_535).optional(),
  timeoutSec: whole(1, 3_600, "seconds").optional(),
});

export const TopologyService = z
  .strictObject({
    name: z
      .string()
      .max(40)
      .regex(/^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$/, "must be a DNS label"),
    image: ImageRef,
    port: whole(1, 65_535).optional(),
    needs: z.array(z.string().max(40)).max(50).default([]),
    replicas: whole(1, 100).default(1),
    env: Env.default({}),
    readiness: Readiness.optional(),
    resources: Resources.optional(),
    requires: z
      .strictObject({ os: z.enum(["linux", "windows", "macos"]).optional() })
      .optional()
      .describe("What the image genuinely needs"),
    wiring: z
      .array(
        z.strictObject({
          service: z.string().max(40),
          hostEnv: EnvName.optional(),
          portEnv: EnvName.optional(),
          urlEnv: EnvName.optional(),
        }),
      )
      .max(50)
      .default([])
      .describe("Names under which the image expects its peers"),
    perRun: z.array(z.string().max(60)).max(20).default([]),
  })
  .describe("One service of a topology");

const service = {
  services: z.array(TopologyService).min(1).max(50),
  dependencies: z
    .array(
      z.strictObject({
        kind: z.enum(["postgres", "redis", "minio"]),
        name: z.string().max(40).optional(),
        isolateBy: z.enum(["thread_id", "key-prefix", "object-prefix", "schema", "external"]),
      }),
    )
    .max(20)
    .default([]),
  target: z
    .strictObject({
      kind: z.literal("browser"),
      acquire: z.enum(["provision", "service"]),
      capacity: z
        .strictObject({
          service: z.string().max(40),
          poll: z.string().max(1_000),
          total: z.string().max(200),
          used: z.string().max(200).optional(),
          scale: z.strictObject({ min: whole(0, 1_000), max: whole(1, 1_000) }).optional(),
        })
        .optional(),
    })
    .optional(),
  frontDoor: z.strictObject({
    service: z.string().max(40),
    submit: z.string().max(4_000),
    completion: z.enum(["sync", "poll", "stream", "trace"]),
  }),
  traceSource: TraceSource.optional(),
  resources: Resources.optional(),
};

const identity = {
  id: RegistryId,
  version: Version,
  description: z.string().max(1_000).optional().describe("For people"),
  tags: Tags.default([]),
};

export const CommandBody = z
  .strictObject({ kind: z.literal("command"), ...command })
  .describe("A command harness without a name");
export const ServiceBody = z
  .strictObject({ kind: z.literal("service"), ...service })
  .describe("A service harness without a name");
export const CommandHarness = z
  .strictObject({ kind: z.literal("command"), ...identity, ...command })
  .describe("Runs one shell command per case");
export const ServiceHarness = z
  .strictObject({ kind: z.literal("service"), ...identity, ...service })
  .describe("Drives a topology of services");

export const HarnessSpec = z.discriminatedUnion("kind", [CommandHarness, ServiceHarness]).describe("How a case is run");
export type HarnessSpec = z.infer<typeof HarnessSpec>;
export const HarnessBody = z
  .discriminatedUnion("kind", [CommandBody, ServiceBody])
  .describe("An anonymous harness, kept with its run");
export type HarnessBody = z.infer<typeof HarnessBody>;
export type CommandBody = z.infer<typeof CommandBody>;

/** Rules that the shape alone cannot say: placeholders that quoting cannot make safe, credentials, unknown service names. */
export function harnessIssues(spec: HarnessSpec | HarnessBody): Issue[] {
  if (spec.kind === "command") {
    const issues = [...secretIssues(spec.env, "env"), ...secretIssues(spec.params, "params")];
    const names = Object.keys(spec.params);
    const known = new Set(["task", "model", "run_id", ...names]);
    const check = (text: string, path: string) => {
      // Text in braces is data unless it is a name; a name with spaces around it was meant as one.
      for (const [whole, name = ""] of text.matchAll(
        /\{\{[ \t]+([a-z][a-z0-9_]*)[ \t]*\}\}|\{\{([a-z][a-z0-9_]*)[ \t]+\}\}/g,
      )) {
        const meant = name || whole.replaceAll(/[{} \t]/g, "");
        if (known.has(meant))
          issues.push({ path, message: `'${whole}' is not a placeholder; write {{${meant}}} without spaces` });
      }
      const expanded = expandPlaceholders(text, names);
      if (!expanded.ok) for (const { message } of expanded.issues) issues.push({ path, message });
    };
    check(spec.command, "command");
    for (const [index, step] of spec.setup.entries()) check(step, `setup.${index}`);
    return issues;
  }
  const known = new Set(spec.services.map(({ name }) => name));
  const issues: Issue[] =
    known.size < spec.services.length ? [{ path: "services", message: "service names must be unique" }] : [];
  const refer = (name: string, path: string) => {
    if (!known.has(name)) issues.push({ path, message: `names service '${name}', which is not among services` });
  };
  refer(spec.frontDoor.service, "frontDoor.service");
  if (spec.target?.capacity) refer(spec.target.capacity.service, "target.capacity.service");
  for (const [i, item] of spec.services.entries()) {
    issues.push(...secretIssues(item.env, `services.${i}.env`));
    for (const [j, peer] of item.needs.entries()) refer(peer, `services.${i}.needs.${j}`);
    for (const [j, wire] of item.wiring.entries()) refer(wire.service, `services.${i}.wiring.${j}.service`);
  }
  return issues;
}

/** Environment variable to secret name, for a command harness. */
export function harnessSecretEnv(spec: CommandBody): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [name, value] of Object.entries(spec.env)) if (typeof value !== "string") out[name] = value.secretRef;
  return out;
}

/** Names of the secrets a harness refers to, where, and the use that each must have. */
export function harnessSecretNames(spec: HarnessBody): { field: string; name: string; use: "job" | "cluster" }[] {
  const ofEnv = (env: z.infer<typeof Env>, path: string) =>
    Object.entries(env).flatMap(([name, value]) =>
      typeof value === "string" ? [] : [{ field: `${path}.${name}`, name: value.secretRef, use: "job" as const }],
    );
  if (spec.kind === "command") return ofEnv(spec.env, "env");
  const trace = spec.traceSource?.authSecret;
  return [
    ...spec.services.flatMap(({ env }, index) => ofEnv(env, `services.${index}.env`)),
    ...(trace === undefined ? [] : [{ field: "traceSource.authSecret", name: trace, use: "cluster" as const }]),
  ];
}
