import type { Issue } from "../../../contracts/errors.ts";
import { issuesOf } from "../../../contracts/errors.ts";
import { ScorecardRequest } from "../../../contracts/scorecard.ts";
import type { Picked } from "./target-picker.tsx";

/** What the form holds: text as it is typed. */
export interface FormValues {
  dataset: string;
  datasetVersion: string;
  harness: string;
  harnessVersion: string;
  targets: Picked;
  concurrency: string;
  trials: string;
  retries: string;
  tags: string;
  ids: string;
  limit: string;
  priority: "batch" | "interactive";
  queueTimeoutSec: string;
}

export const EMPTY: FormValues = {
  dataset: "",
  datasetVersion: "latest",
  harness: "",
  harnessVersion: "latest",
  targets: { mode: "named", targets: [] },
  concurrency: "",
  trials: "",
  retries: "",
  tags: "",
  ids: "",
  limit: "",
  priority: "batch",
  queueTimeoutSec: "",
};

const list = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);
const figure = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text));

/** The filter of cases as the API takes it; undefined: every case. */
export function filterOf({ tags, ids, limit }: Pick<FormValues, "tags" | "ids" | "limit">) {
  const filter = {
    ...(list(ids).length > 0 ? { ids: list(ids) } : {}),
    ...(list(tags).length > 0 ? { tags: list(tags) } : {}),
    ...(figure(limit) === undefined ? {} : { limit: figure(limit) }),
  };
  return Object.keys(filter).length > 0 ? filter : undefined;
}

/** The request the form means, unchecked; what was left empty is left out, so that the API's default counts. */
export function requestOf(values: FormValues): Record<string, unknown> {
  const { mode, targets } = values.targets;
  const runtime = mode === "auto" ? "auto" : mode === "cases" ? undefined : targets.length === 1 ? targets[0] : targets;
  const cases = filterOf(values);
  const out: Record<string, unknown> = {
    dataset: { id: values.dataset, version: values.datasetVersion },
    harness: { id: values.harness, version: values.harnessVersion },
    runtime,
    concurrency: figure(values.concurrency),
    trials: figure(values.trials),
    retries: figure(values.retries),
    cases,
    priority: values.priority,
    queueTimeoutSec: figure(values.queueTimeoutSec),
  };
  for (const [name, value] of Object.entries(out)) if (value === undefined) delete out[name];
  return out;
}

export type Checked =
  | { ok: true; request: ScorecardRequest }
  | { ok: false; errors: Partial<Record<keyof FormValues, string>> };

/** Which field of the form a path of the request is. */
export function fieldOf(path: string): keyof FormValues | null {
  const [first = "", second = ""] = path.split(".");
  if (first === "dataset") return second === "version" ? "datasetVersion" : "dataset";
  if (first === "harness") return second === "version" ? "harnessVersion" : "harness";
  if (first === "runtime") return "targets";
  if (first === "cases") return second === "tags" || second === "limit" ? second : "ids";
  return first in EMPTY ? (first as keyof FormValues) : null;
}

/** Problems by field; the first of each counts. */
export function errorsByField(issues: readonly Issue[]): Partial<Record<keyof FormValues, string>> {
  const out: Partial<Record<keyof FormValues, string>> = {};
  for (const { path, message } of issues) {
    const field = fieldOf(path);
    if (field !== null) out[field] ??= message;
  }
  return out;
}

/** Checked by the contract's own schema, with words for what a form can lack. */
export function check(values: FormValues): Checked {
  const errors: Partial<Record<keyof FormValues, string>> = {};
  if (values.dataset === "") errors.dataset = "choose a dataset";
  if (values.harness === "") errors.harness = "choose a harness";
  if (values.targets.mode === "named" && values.targets.targets.length === 0) errors.targets = "choose where it runs";
  const parsed = ScorecardRequest.safeParse(requestOf(values));
  if (!parsed.success) return { ok: false, errors: { ...errorsByField(issuesOf(parsed.error)), ...errors } };
  return Object.keys(errors).length > 0 ? { ok: false, errors } : { ok: true, request: parsed.data };
}
