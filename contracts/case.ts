import * as z from "zod";
import { Os } from "./capabilities.ts";
import type { Issue } from "./errors.ts";
import { Grader, graderIssues } from "./graders.ts";
import { Resources } from "./job.ts";
import { ImageRef, LIMITS, RegistryId, SecretName, Tags, Version } from "./names.ts";
import { whole } from "./numbers.ts";

const FilePath = z
  .string()
  .min(1)
  .max(500)
  .refine(
    (path) => !path.includes("\0") && path.split("/").every((part) => part !== "" && part !== "." && part !== ".."),
    "must be a relative path inside the work folder, without '.', '..' or empty parts",
  );

const RepoEnv = z.strictObject({
  kind: z.literal("repo"),
  source: z.discriminatedUnion("kind", [
    z.strictObject({
      kind: z.literal("files"),
      files: z
        .record(
          FilePath,
          z.string().max(LIMITS.casePayloadBytes, `is larger than ${LIMITS.casePayloadBytes} bytes; use a git source`),
        )
        .refine((files) => Object.keys(files).length <= 2_000, "at most 2000 files"),
    }),
    z.strictObject({
      kind: z.literal("git"),
      url: z
        .string()
        .max(2_000)
        .regex(
          /^(https?|ssh|git):\/\/[^\s]+$|^[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:[^\s]+$/,
          "must be a git URL: https, ssh or git",
        ),
      ref: z
        .string()
        .min(1)
        .max(300)
        .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]*$/, "must be a branch, tag or commit")
        .describe("Branch, tag or commit"),
      authSecret: SecretName.optional().describe("Name of a secret of use 'job'; used for the clone only"),
    }),
  ]),
});

/** A prompt has no files that a clone could bring. */
const Context = z
  .string()
  .max(
    LIMITS.casePayloadBytes,
    `is larger than ${LIMITS.casePayloadBytes} bytes; shorten it, or put it into a file of a git source`,
  );

export const CaseEnv = z
  .discriminatedUnion("kind", [
    RepoEnv,
    z.strictObject({ kind: z.literal("prompt"), context: Context.optional() }),
    z.strictObject({ kind: z.literal("browser"), startUrl: z.string().max(2_000).optional() }),
    z.strictObject({ kind: z.literal("os-use") }),
  ])
  .describe("What the agent finds");

export const EvalCase = z
  .strictObject({
    id: z
      .string()
      .min(1)
      .max(200)
      .regex(/^[A-Za-z0-9][A-Za-z0-9._/@:-]*$/, "must be letters, digits and ._/@:- ")
      .describe("Id, unique in its dataset"),
    env: CaseEnv.default({ kind: "prompt" }),
    task: z
      .string()
      .max(
        LIMITS.casePayloadBytes,
        `is larger than ${LIMITS.casePayloadBytes} bytes; shorten it, or put it into a file of a git source`,
      )
      .refine((text) => !text.includes("\0"), "must not contain NUL: it cannot be an argument")
      .refine((text) => text.isWellFormed(), "must be well-formed Unicode")
      .describe("What the agent is asked to do"),
    expected: z.string().max(LIMITS.casePayloadBytes).optional().describe("Value for graders that name none"),
    image: ImageRef.optional(),
    resources: Resources.optional(),
    graders: z
      .array(Grader)
      .max(LIMITS.gradersPerCase)
      .default([{ kind: "exit-code", equals: 0, weight: 1 }])
      .describe("How it is measured; default exit-code"),
    timeoutSec: whole(1, 86_400, "seconds")
      .default(1_800)
      .describe("Seconds from the container's start; setup counts, pull and queue do not"),
    tags: Tags.default([]),
    network: z.enum(["bridge", "none"]).optional().describe("Network of the container; default bridge"),
    placement: z
      .strictObject({
        target: z.string().min(1).max(200).optional(),
        os: Os.optional(),
        isolation: z.enum(["container", "sandbox"]).optional(),
      })
      .optional(),
  })
  .describe("One thing to measure");
export type EvalCase = z.infer<typeof EvalCase>;

const bytes = (text: string): number => new TextEncoder().encode(text).length;

/** Bytes of files + task of a case; with setup and command they travel inside the job. */
export function casePayloadBytes(evalCase: EvalCase): number {
  let total = bytes(evalCase.task);
  if (evalCase.env.kind === "repo" && evalCase.env.source.kind === "files") {
    for (const [path, text] of Object.entries(evalCase.env.source.files)) total += bytes(path) + bytes(text);
  }
  if (evalCase.env.kind === "prompt") total += bytes(evalCase.env.context ?? "");
  return total;
}

/** Rules that the shape alone cannot say. @param path dotted path of the case in the request */
export function caseIssues(evalCase: EvalCase, path: string): Issue[] {
  const issues = graderIssues(evalCase.graders, evalCase.expected).map((issue) => ({
    ...issue,
    path: `${path}.${issue.path}`,
  }));
  if (evalCase.env.kind === "repo" && evalCase.env.source.kind === "files") {
    const paths = new Set(Object.keys(evalCase.env.source.files));
    for (const file of paths) {
      const parts = file.split("/");
      const folder = parts.map((_, i) => parts.slice(0, i).join("/")).find((above) => paths.has(above));
      if (folder)
        issues.push({
          path: `${path}.env.source.files.${file}`,
          message: `'${folder}' is a file and cannot be a folder too`,
        });
    }
  }
  const size = casePayloadBytes(evalCase);
  if (size > LIMITS.casePayloadBytes) {
    const prompt = evalCase.env.kind === "prompt";
    issues.push({
      path: `${path}.env`,
      message: `${prompt ? "context" : "files"} and task are ${size} bytes, at most ${LIMITS.casePayloadBytes}; ${prompt ? "shorten them, or put them into files of a git source" : "use a git source"}`,
    });
  }
  if (
    evalCase.env.kind === "repo" &&
    evalCase.env.source.kind === "git" &&
    /^[a-z]+:\/\/[^/]*@/i.test(evalCase.env.source.url) &&
    !evalCase.env.source.url.startsWith("ssh://")
  ) {
    issues.push({ path: `${path}.env.source.url`, message: "must not carry a user name or password; use authSecret" });
  }
  return issues;
}

export const Dataset = z
  .strictObject({
    id: RegistryId,
    version: Version,
    description: z.string().max(1_000).optional().describe("For people"),
    tags: Tags.default([]),
    cases: z.array(EvalCase).min(1).max(LIMITS.datasetCases),
  })
  .describe("Cases that are measured together");
export type Dataset = z.infer<typeof Dataset>;

/** Issues over a whole dataset: those of its cases, and repeated ids. */
export function datasetIssues(dataset: Dataset): Issue[] {
  const seen = new Map<string, number>();
  const issues: Issue[] = [];
  for (const [index, evalCase] of dataset.cases.entries()) {
    const first = seen.get(evalCase.id);
    if (first !== undefined)
      issues.push({
        path: `cases.${index}.id`,
        message: `repeats the id of cases.${first}; ids are unique in a dataset`,
      });
    seen.set(evalCase.id, index);
    issues.push(...caseIssues(evalCase, `cases.${index}`));
    if (issues.length >= 100) break;
  }
  return issues.slice(0, 100);
}

/** Names of the secrets that clones of a dataset's cases need, each at its first place. */
export function datasetSecretNames(dataset: Dataset): { field: string; name: string; use: "job" }[] {
  const found = new Map<string, string>();
  for (const [index, { env }] of dataset.cases.entries()) {
    if (env.kind !== "repo" || env.source.kind !== "git" || env.source.authSecret === undefined) continue;
    if (!found.has(env.source.authSecret)) found.set(env.source.authSecret, `cases.${index}.env.source.authSecret`);
  }
  return [...found].map(([name, field]) => ({ field, name, use: "job" }));
}
