import { describe, expect, test } from "vitest";
import { policyText, RIGHTS } from "../../../worker/backends/nomad/rights.ts";
import { LEAST_RIGHTS } from "../../support/fake-nomad/fake-nomad.ts";
import { Lab, SECRET } from "./lab.ts";

const answer = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  ({ kind: "answer", answer: { status, body, headers } }) as const;
const failing = (report: { checks: { name: string; ok: boolean }[] }) =>
  report.checks.filter(({ ok }) => !ok).map(({ name }) => name);
const UNKNOWN = "00000000-1111-4222-8333-444444444444";

describe("the probe of a Nomad runtime", () => {
  test("N 26: a token with exactly the printed policy passes every check", async () => {
    const report = await new Lab().backend.probe();
    expect(report).toMatchObject({ reachable: true, reason: null, detail: "nomad 2.0.5", nodeOs: ["linux"] });
    expect(failing(report)).toEqual([]);
  });

  test("the policy text grants exactly the rights that the client declares", () => {
    const text = policyText("evd");
    for (const right of Object.keys(RIGHTS)) {
      if (right === "none" || right.startsWith("node:")) continue;
      expect(text).toContain(`"${right.replace("variables:", "")}"`);
    }
    const quoted = [...text.matchAll(/"([^"]+)"/g)].map(([, word]) => word);
    expect(quoted.sort()).toEqual(
      [
        "evd",
        "list-jobs",
        "read-job",
        "submit-job",
        "read-fs",
        "nomad/jobs/*",
        "write",
        "list",
        "destroy",
        "read",
      ].sort(),
    );
  });

  test("a write right on nodes is in the policy only where the runtime acts on what is not ours", async () => {
    expect(policyText("evd")).toContain('node { policy = "read" }');
    expect(policyText("evd", true)).toContain('node { policy = "write" }');
    const report = await new Lab({ spec: { externalControl: true } }).backend.probe();
    expect(report.policy).toBe(policyText("default", true));
  });

  test.each(LEAST_RIGHTS.filter((right) => right !== "variables:list"))(
    "a token without %s is told so by name, with the text to add",
    async (right) => {
      const lab = new Lab({ rights: LEAST_RIGHTS.filter((one) => one !== right) });
      const report = await lab.backend.probe();
      expect(report).toMatchObject({ reachable: false, reason: "rights" });
      expect(report.detail).toContain(`the token lacks the right ${right}`);
      const check = report.checks.find(({ ok }) => !ok);
      expect(check?.name).toBe(`right ${right}`);
      expect(check?.fix).toContain(right.split(":")[1] ?? right);
      expect(report.policy).toBe(policyText("default"));
    },
  );

  test.each([
    ["N 22: an unknown token", UNKNOWN, "2.0.5"],
    ["N 21: a malformed token, which is a 500", "not-a-token", "2.0.5"],
    ["N 22: an unknown token on 1.6, which is a 404", UNKNOWN, "1.6.10"],
    ["N 21: no token, which is 'anonymous'", null, "2.0.5"],
    ["N 22: no token on 1.6, which is a 500", null, "1.6.10"],
  ])("%s is reason auth and names authSecret", async (_name, token, version) => {
    const report = await new Lab({ version }).backendWith(token).probe();
    expect(report).toMatchObject({
      reachable: false,
      reason: "auth",
      detail: expect.stringMatching(/^(the Nomad server|no token is set)/),
    });
    expect(report.checks.find(({ ok }) => !ok)?.fix).toContain("authSecret");
  });

  test("N 22: the answer that holds the token itself is shown nowhere", async () => {
    const report = await new Lab().backend.probe();
    expect(JSON.stringify(report)).not.toContain(SECRET);
  });

  test("N 15: one 403 right after a server start does not fail a probe", async () => {
    const lab = new Lab();
    lab.nomad.faults.plan(/^GET \/v1\/jobs\?/, answer(403, "Permission denied"));
    expect((await lab.backend.probe()).reason).toBeNull();
  });

  test("N 23: a limited token cannot tell a missing namespace from a missing right, and the answer says so", async () => {
    const report = await new Lab({ spec: { namespace: "nowhere" } }).backend.probe();
    expect(report.reason).toBe("namespace");
    expect(report.checks.find(({ name }) => name === "namespace")?.detail).toContain("absent or not permitted");
  });

  test("N 23: a management token is told that the namespace does not exist", async () => {
    const lab = new Lab({ spec: { namespace: "nowhere" } });
    lab.nomad.addToken(UNKNOWN, [], "management");
    const report = await lab.backendWith(UNKNOWN).probe();
    expect(report.checks.find(({ name }) => name === "namespace")).toMatchObject({
      ok: false,
      detail: "namespace 'nowhere' does not exist",
    });
  });

  test("N 9: a version before 1.8 is warned about, as it would run a lost job twice", async () => {
    const report = await new Lab({ version: "1.6.10" }).backend.probe();
    expect(report.reason).toBeNull();
    expect(report.checks.find(({ name }) => name === "version")).toMatchObject({
      ok: false,
      fix: expect.stringContaining("1.8"),
    });
  });

  test("a cluster where nothing fits now is warned about in the scheduler's words", async () => {
    const lab = new Lab({ spec: { constraints: [{ attribute: "${node.class}", operator: "=", value: "gpu" }] } });
    const report = await lab.backend.probe();
    expect(report.reason).toBeNull();
    expect(report.checks.find(({ name }) => name === "placement")).toMatchObject({
      ok: false,
      detail: expect.stringContaining("${node.class} = gpu"),
    });
  });

  test("ACL that is off needs no token", async () => {
    const report = await new Lab({ acl: false }).backendWith(null).probe();
    expect(report).toMatchObject({ reachable: true, reason: null });
  });

  test.each([
    ["a closed port", { kind: "drop" } as const, "connect"],
    ["an HTTP server that is no Nomad", answer(200, "<html>hello</html>"), "api"],
    ["another JSON API", answer(200, { kind: "Status" }), "api"],
    ["a 404 of another server", answer(404, "404 page not found"), "api"],
    ["a redirect", answer(307, "", { location: "https://elsewhere" }), "api"],
    ["an endless answer", { kind: "endless" } as const, "api"],
  ])("%s is told, and nothing more is asked", async (_name, fault, reason) => {
    const lab = new Lab();
    lab.nomad.faults.plan(/./, fault, Number.POSITIVE_INFINITY);
    const report = await lab.backend.probe();
    expect(report).toMatchObject({ reachable: false, reason });
    expect(report.checks.at(-1)?.fix).toContain("https://nomad.example.com");
  });

  test("it changes nothing on the cluster", async () => {
    const lab = new Lab();
    const index = lab.nomad.cluster.index;
    await lab.backend.probe();
    expect(lab.nomad.cluster.jobs.size).toBe(0);
    expect(lab.nomad.cluster.variables.size).toBe(0);
    expect(lab.nomad.cluster.index).toBe(index);
  });
});
