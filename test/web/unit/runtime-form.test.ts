import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type * as z from "zod";
import { canonicalJson } from "../../../contracts/canonical.ts";
import { CAPABILITIES } from "../../../contracts/capability-names.ts";
import { K8sRuntime, LocalRuntime, NomadRuntime, RuntimeSpec } from "../../../contracts/runtime-spec.ts";
import { differences, nextVersion } from "../../../web/pages/runtimes/diff.ts";
import {
  type Draft,
  emptyDraft,
  type FieldDef,
  numberFrom,
  type Row,
  type RuntimeKind,
  read,
  SECTIONS,
  write,
  writeCell,
} from "../../../web/pages/runtimes/fields.ts";

const FIXED = new Set(["kind", "id", "version"]);
const fieldsOf = (kind: RuntimeKind): FieldDef[] => SECTIONS[kind].flatMap(({ fields }) => [...fields]);

const name = fc.stringMatching(/^[a-z][a-z0-9]{0,20}$/);
const secret = fc.stringMatching(/^[A-Z][A-Z0-9_]{0,20}$/);
const words = fc.string({ unit: "grapheme", maxLength: 60 }).filter((text) => !/[\p{Cc}]/u.test(text));
const maybe = <T>(arb: fc.Arbitrary<T>) => fc.option(arb, { nil: undefined });
const count = (min: number, max: number) => fc.integer({ min, max });
const url = name.map((host) => `https://${host}.example.com:6443/api`);

const base = {
  id: name,
  version: fc.tuple(count(0, 9), count(0, 9), count(0, 9)).map((parts) => parts.join(".")),
  description: maybe(words),
  tags: fc.uniqueArray(name, { maxLength: 4 }),
  capabilities: maybe(fc.subarray([...CAPABILITIES])),
};
const cluster = {
  image: name.map((image) => `${image}:1.0`),
  maxConcurrent: maybe(count(1, 10_000)),
  memoryBudgetMb: maybe(count(4, 1_000_000)),
  cpuBudget: maybe(count(1, 1_000_000)),
  imagePullSecret: maybe(secret),
  placementTimeoutSec: maybe(count(0, 86_400)),
  trustZone: maybe(fc.constantFrom("runtime", "workspace")),
  externalControl: fc.boolean(),
  warmPool: maybe(fc.tuple(count(0, 50), count(50, 100)).map(([min, max]) => ({ min, max }))),
  relay: maybe(name),
  traceSource: maybe(
    fc.record({ kind: fc.constantFrom("otel", "phoenix"), url, authSecret: secret }, { requiredKeys: ["kind", "url"] }),
  ),
  browserImage: maybe(name.map((image) => `${image}/browser:2`)),
  gitImage: maybe(name),
  hostGatewayAddr: maybe(fc.oneof(fc.constant(""), name)),
  gpu: maybe(count(0, 64)),
  authSecret: maybe(secret),
};
const label = fc.oneof(fc.constant(""), name);
const KINDS: Record<RuntimeKind, fc.Arbitrary<object>> = {
  local: fc.record({ kind: fc.constant("local"), ...base }),
  nomad: fc.record({
    kind: fc.constant("nomad"),
    ...base,
    ...cluster,
    addr: url,
    runtime: maybe(name),
    datacenters: fc.array(name, { minLength: 1, maxLength: 4 }),
    namespace: maybe(name),
    region: maybe(name),
    constraints: maybe(
      fc.array(
        fc.record({ attribute: fc.constant("${node.class}"), operator: fc.constantFrom("=", "!="), value: words }),
        {
          maxLength: 3,
        },
      ),
    ),
    cpuMhzPerCore: maybe(count(100, 10_000)),
  }),
  k8s: fc.record({
    kind: fc.constant("k8s"),
    ...base,
    ...cluster,
    context: maybe(name),
    namespace: maybe(name),
    createNamespace: fc.boolean(),
    runtimeClass: maybe(name),
    server: maybe(url),
    kubeconfigSecret: maybe(secret),
    nodeSelector: maybe(fc.dictionary(name, label, { maxKeys: 4 })),
    tolerations: maybe(
      fc.array(
        fc.record(
          {
            key: name,
            operator: fc.constantFrom("Exists", "Equal"),
            value: label,
            effect: fc.constantFrom("NoSchedule", "NoExecute"),
            tolerationSeconds: count(0, 86_400),
          },
          { requiredKeys: [] },
        ),
        { maxLength: 3 },
      ),
    ),
  }),
};

/** Specs as the API returns them: parsed, keys that are not set left out. */
const specs = (kind: RuntimeKind) =>
  KINDS[kind].map((raw) => RuntimeSpec.parse(JSON.parse(JSON.stringify(raw)))) as fc.Arbitrary<RuntimeSpec>;

const textOf = (value: unknown): string => (value === undefined ? "" : String(value));

/** Types the same again into every editor, the way the editor takes it. */
function retyped(draft: Draft, field: FieldDef): Draft {
  const value = read(draft, field.path);
  if (value === undefined) return draft;
  switch (field.as) {
    case "number":
      return write(draft, field.path, numberFrom(textOf(value)));
    case "rows":
      return write(
        draft,
        field.path,
        (value as Row[]).map((row) =>
          field.columns
            .filter(({ name: column }) => textOf(row[column]) !== "")
            .reduce((typed, column) => writeCell(typed, column, textOf(row[column.name])), row),
        ),
      );
    default:
      return write(draft, field.path, value);
  }
}

describe.each(["local", "nomad", "k8s"] as const)("the form of a %s runtime", (kind) => {
  test("saved untouched, a spec is the same bytes", () => {
    fc.assert(
      fc.property(specs(kind), (spec) => {
        // What the page does: the entry becomes the draft, the draft is the body.
        const draft = { ...(JSON.parse(JSON.stringify(spec)) as Draft), version: spec.version };
        expect(canonicalJson(RuntimeSpec.parse(draft))).toBe(canonicalJson(spec));
        expect(differences(spec, draft)).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test("the same typed again into every field is the same spec", () => {
    fc.assert(
      fc.property(specs(kind), (spec) => {
        const draft = JSON.parse(JSON.stringify(spec)) as Draft;
        const after = fieldsOf(kind).reduce(retyped, draft);
        expect(canonicalJson(after)).toBe(canonicalJson(draft));
      }),
      { numRuns: 300 },
    );
  });

  test("every field of the contract stands in the form once, and nothing else does", () => {
    const schema = { local: LocalRuntime, nomad: NomadRuntime, k8s: K8sRuntime }[kind];
    const wanted = Object.entries(schema.shape).flatMap(([key, type]) => {
      const inner = objectShape(type as z.ZodType);
      return inner === null ? [key] : Object.keys(inner).map((below) => `${key}.${below}`);
    });
    const offered = fieldsOf(kind).map(({ path }) => path);
    expect([...offered].sort()).toEqual(wanted.filter((path) => !FIXED.has(path)).sort());
  });

  test("an empty form is refused for what is missing, and for nothing it filled in itself", () => {
    const parsed = RuntimeSpec.safeParse(emptyDraft(kind));
    expect([...new Set(parsed.error?.issues.map(({ path }) => path.join(".")))]).toEqual(
      kind === "nomad" ? ["id", "addr"] : ["id"],
    );
  });
});

/** The shape of an object within optional and refined wrappers; null for anything else. */
function objectShape(type: z.ZodType): object | null {
  let at = type as unknown as { def: { type: string; innerType?: unknown }; shape?: object };
  while (at.def.innerType !== undefined) at = at.def.innerType as typeof at;
  return at.def.type === "object" ? (at.shape ?? null) : null;
}

test("the version offered for a change is free", () => {
  expect(nextVersion(["1.0.0", "1.2.9", "1.2.10", "0.9.0"])).toBe("1.2.11");
  expect(nextVersion([])).toBe("1.0.0");
});

test("a field that is emptied is gone, and so is the object around it", () => {
  expect(write({ a: 1, traceSource: { url: "u" } }, "traceSource.url", undefined)).toEqual({ a: 1 });
  expect(numberFrom(" 12 ")).toBe(12);
  expect(numberFrom("12x")).toBe("12x");
});
