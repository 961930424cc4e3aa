import { expect, test } from "vitest";
import { OPERATIONS, type OperationName } from "../../../contracts/operations/index.ts";
import { ROLES, SCOPES } from "../../../contracts/roles.ts";
import { WAIT_REASONS } from "../../../contracts/run.ts";
import { oneOf, parseSearch, searchOf, stringifySearch, text } from "../../../web/api/search.ts";
import { mayDo } from "../../../web/api/session.ts";
import { check, EMPTY, errorsByField, requestOf } from "../../../web/pages/scorecards/form-values.ts";
import { type Preview, predict } from "../../../web/pages/scorecards/predict.ts";
import { curlOf } from "../../../web/ui/api-call.tsx";
import { waitWords } from "../../../web/ui/waiting.tsx";
import { duration, percent, plural, relative } from "../../../web/ui/words.ts";

test("lengths of time in two units at most", () => {
  expect([0, 412, 2_300, 59_400, 185_000, 3_600_000, 7_800_000, 90_000_000].map(duration)).toEqual([
    "0 ms",
    "412 ms",
    "2.3 s",
    "59 s",
    "3 min 5 s",
    "1 h",
    "2 h 10 min",
    "1 d 1 h",
  ]);
  expect(relative(0, 2_000)).toBe("just now");
  expect(relative(0, 3 * 3_600_000)).toBe("3 h ago");
  expect(relative(60_000, 0)).toBe("in 1 min");
});

test("a share is never rounded to none or all", () => {
  expect([0, 0.0001, 0.5, 0.825, 0.9999, 1].map(percent)).toEqual([
    "0 %",
    "< 0.1 %",
    "50 %",
    "82.5 %",
    "> 99.9 %",
    "100 %",
  ]);
  expect([plural(1, "retry", "retries"), plural(2_000, "case")]).toEqual(["1 retry", "2,000 cases"]);
});

test("an address that makes no sense is no filter, and values stay text", () => {
  const read = searchOf({ status: oneOf(["a", "b"]), q: text });
  expect(read(parseSearch("?status=c&q=1.0&other=x"))).toEqual({ q: "1.0" });
  expect(stringifySearch({ q: "a b", none: undefined, empty: "" })).toBe("?q=a+b");
});

test("every reason to wait has words, and three kinds of waiting read differently", () => {
  for (const reason of WAIT_REASONS) expect(waitWords({ reason, detail: "" }).title.length).toBeGreaterThan(5);
  const tiers = [
    waitWords({ reason: "no-runner", detail: "runner rnr-1 lacks os-windows" }),
    waitWords({ reason: "no-runner", detail: "no runner is online" }),
    waitWords({ reason: "slots", detail: "slots 2/2" }),
  ];
  expect(tiers.map(({ tier }) => tier)).toEqual(["never", "silent", "turn"]);
  expect(new Set(tiers.map(({ title }) => title)).size).toBe(3);
});

test("who may do what is the operation table's, for every operation, role and scope", () => {
  const names = Object.keys(OPERATIONS) as OperationName[];
  const allowed = (role: (typeof ROLES)[number], scope: (typeof SCOPES)[number]) =>
    new Set(names.filter((name) => mayDo({ role, scope, operator: false }, name)));
  expect(allowed("viewer", "read").has("run_scorecard")).toBe(false);
  expect(allowed("member", "write").has("run_scorecard")).toBe(true);
  expect(allowed("member", "write").has("promote_queue_entry")).toBe(false);
  for (const [at, role] of ROLES.entries())
    for (const scope of SCOPES) {
      const above = ROLES[at + 1];
      if (above) for (const name of allowed(role, scope)) expect(allowed(above, scope).has(name)).toBe(true);
    }
});

const filled = { ...EMPTY, dataset: "smoke", harness: "echo", targets: { mode: "named" as const, targets: ["gpu"] } };

test("the form is the contract's request; what is empty is left to the API", () => {
  expect(requestOf(filled)).toEqual({
    dataset: { id: "smoke", version: "latest" },
    harness: { id: "echo", version: "latest" },
    runtime: "gpu",
    priority: "batch",
  });
  expect(
    requestOf({
      ...filled,
      tags: "a, b",
      ids: "x\ny",
      limit: "5",
      trials: "3",
      targets: { mode: "auto", targets: [] },
    }),
  ).toMatchObject({
    runtime: "auto",
    trials: 3,
    cases: { ids: ["x", "y"], tags: ["a", "b"], limit: 5 },
  });
  expect(check(filled)).toMatchObject({ ok: true });
  expect(check({ ...EMPTY, concurrency: "600", trials: "x" })).toEqual({
    ok: false,
    errors: {
      dataset: "choose a dataset",
      harness: "choose a harness",
      targets: "choose where it runs",
      concurrency: "must be a whole number from 1 to 512",
      trials: "must be a whole number from 1 to 100",
    },
  });
  expect(
    errorsByField([
      { path: "cases.ids", message: "'x' is not a case" },
      { path: "runtime", message: "no" },
    ]),
  ).toEqual({
    ids: "'x' is not a case",
    targets: "no",
  });
});

test("what will happen is said in figures", () => {
  const choice = (change: Partial<Preview["targets"][number]>): Preview["targets"][number] => ({
    target: "gpu",
    group: "runtime",
    kind: "nomad",
    label: "gpu",
    shared: false,
    ok: true,
    missing: [],
    reason: null,
    online: null,
    slots: { total: 20, inFlight: 17 },
    queued: 14,
    ...change,
  });
  const preview: Preview = {
    cases: 20,
    runs: 60,
    needs: [],
    problems: [],
    default: null,
    placed: [],
    targets: [choice({})],
  };
  expect(predict(preview, ["gpu"], 4, undefined)).toEqual([
    "60 runs: 20 cases × 3 trials.",
    "On gpu 3 of 20 slots are free, and it queues behind 14 waiting runs.",
  ]);
  const off = { ...preview, targets: [choice({ online: false, queued: 0, slots: null })] };
  expect(predict(off, ["gpu"], 4, undefined)[1]).toContain("offline");
  const mine = { group: "own-runners", queued: 0 } as const;
  const pool = choice({ ...mine, target: "self", kind: "pool", label: "Any", slots: { total: 6, inFlight: 2 } });
  expect(predict({ ...preview, targets: [pool] }, ["self"], 4, undefined)[1]).toBe(
    "On Any 4 of 6 slots are free, and nothing waits there.",
  );
});

test("the call of a page can be pasted into a terminal, and carries no key", () => {
  expect(curlOf("https://edge.example", "acme", "list_runs", { query: { status: "failed" } })).toBe(
    `curl -s 'https://edge.example/runs?status=failed' \\\n  -H "Authorization: Bearer $EVERDICT_API_KEY" \\\n  -H 'X-Everdict-Workspace: acme'`,
  );
});
